"""Schedules: made, changed, previewed, run by hand, and fired when they are due.

Times are computed here, because here time zones are known; that each fire happens once is the store's to keep. A
round reads what is due, works out the next times, and hands both to the store, which fires only what is still due.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from penstock.clock import Clock
from penstock.engine.checks import check_range, check_text
from penstock.engine.insights.outcomes import Outcomes
from penstock.engine.metrics import Metrics
from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.settings import (
    as_given,
    check_schedule_name,
    check_settings,
    read_settings,
    read_timetable,
    timetable_of,
)
from penstock.engine.schedules.targets import Targets
from penstock.engine.schedules.timetable import Timetable
from penstock.engine.waiting import Waiters
from penstock.errors import Conflict, Invalid, ScheduleNotFound, Unavailable, Unsupported
from penstock.model import TenantId
from penstock.model.samples import OutcomeKind
from penstock.model.schedules import (
    Fired,
    Firing,
    PastFire,
    Schedule,
    ScheduleSettings,
    ScheduleStatus,
    TargetKind,
    TimetableKind,
)
from penstock.store import Store
from penstock.store.schedules import BEGINNING, KEPT_FIRES

log = logging.getLogger(__name__)

FULL_LOOK = 16
"""Every so many polls, schedules are looked for from the beginning: one may have become due in the past."""
LATE = timedelta(seconds=60)
"""A fire that comes later than this is counted as missed."""
FIRES_KEPT = timedelta(days=31)
SKEW = timedelta(seconds=10)
"""How far the clocks of nodes may be apart without a schedule being found only by a full look."""
ROUNDS = 1000
"""In a row at most, so that a server that is told to stop does."""
TRIES = 8
"""A change is worked out anew when the schedule fires or is changed meanwhile, so often at most."""


class Schedules:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        waiters: Waiters,
        metrics: Metrics,
        outcomes: Outcomes,
        targets: Targets,
        *,
        preview_count: int = 5,
        list_max: int = 1000,
        batch_size: int = 32,
    ) -> None:
        self._store = store
        self._clock = clock
        self._waiters = waiters
        self._metrics = metrics
        self._outcomes = outcomes
        self._targets = targets
        self._preview_count = preview_count
        self._list_max = list_max
        self.batch_size = batch_size
        self._floor = BEGINNING[0]
        self._looks = 0

    # Reading

    def preview(self, given: Mapping[str, Any]) -> Timetable:
        """What an expression means; nothing is kept."""
        return read_timetable(given, self._clock.now())

    def next_fires(self, schedule: Schedule | Timetable, count: int | None = None) -> list[datetime]:
        count = self._preview_count if count is None else count
        if isinstance(schedule, Timetable):
            return schedule.fires(self._clock.now(), count)
        found = timetable_of(schedule.settings).fires(schedule.next_fire_at, max(count - 1, 0))
        return [schedule.next_fire_at, *found][:count]

    # The owner's verbs

    async def create(self, tenant: TenantId, name: str, given: Mapping[str, Any]) -> Schedule:
        """Strict: a name that is taken is `ScheduleExists`."""
        check_schedule_name(name)
        now = self._clock.now()
        settings = read_settings({}, given, now)
        await self._check_target(tenant, settings)
        next_fire_at = _first_fire(settings, now)
        status = ScheduleStatus(given.get("status", ScheduleStatus.ACTIVE))
        due_at = _due(tenant, name, settings, next_fire_at)
        self._floor = min(self._floor, due_at)
        return await self._store.schedules.create(tenant, name, settings, status, next_fire_at, due_at, now)

    async def put(self, tenant: TenantId, name: str, given: Mapping[str, Any]) -> tuple[Schedule, bool]:
        """The schedule as given and whether it is new. One that says the same goes on as if nothing had happened."""
        check_schedule_name(name)
        for _ in range(TRIES):
            try:
                found = await self._store.schedules.get(tenant, name)
            except ScheduleNotFound:
                try:
                    return await self.create(tenant, name, given), True
                except Conflict:
                    continue
            found = planned(found)
            if changed := await self._change(found, read_settings({}, given, self._clock.now(), found), given):
                return changed, False
        raise Conflict("the schedule was changed by others at the same time; try again")

    async def patch(self, tenant: TenantId, name: str, given: Mapping[str, Any]) -> Schedule:
        check_schedule_name(name)
        for _ in range(TRIES):
            found = planned(await self._store.schedules.get(tenant, name))
            settings = read_settings(as_given(found.settings), given, self._clock.now(), found)
            if changed := await self._change(found, settings, given):
                return changed
        raise Conflict("the schedule was changed by others at the same time; try again")

    async def get(self, tenant: TenantId, name: str) -> Schedule:
        check_schedule_name(name)
        return planned(await self._store.schedules.get(tenant, name))

    async def list(
        self,
        tenant: TenantId,
        *,
        status: ScheduleStatus | None = None,
        kind: TargetKind | None = None,
        prefix: str = "",
    ) -> Sequence[Schedule]:
        check_text("prefix", prefix)
        found = await self._store.schedules.list(tenant, status=status, kind=kind, prefix=prefix, limit=self._list_max)
        return [planned(schedule) for schedule in found]

    async def fires(self, schedule: Schedule, limit: int = 20) -> Sequence[PastFire]:
        """What became of its latest fires, newest first."""
        check_range("limit", limit, (1, KEPT_FIRES))
        return await self._store.schedules.fires(schedule, limit)

    async def sweep_fires(self, limit: int = 5000) -> int:
        return await self._store.schedules.sweep_fires(self._clock.now() - FIRES_KEPT, limit)

    async def delete(self, tenant: TenantId, name: str) -> bool:
        check_schedule_name(name)
        return await self._store.schedules.delete(tenant, name)

    async def run(self, tenant: TenantId, name: str) -> Fired:
        """Fire now, out of band: also when paused, and without moving the timetable."""
        check_schedule_name(name)
        now = self._clock.now()
        schedule = self._begin(await self._store.schedules.get(tenant, name))
        fanouts = await self._targets.fanouts(schedule, (now,), out_of_band=True)
        fired = await self._store.schedules.run(schedule, now, now, fanouts)
        self._wake(fired)
        return fired

    # The scheduler's verbs

    async def next_due_at(self) -> datetime | None:
        """When the next schedule is due. Looks from where there was none before, and now and then at everything."""
        now = self._clock.now()
        self._looks += 1
        if self._looks % FULL_LOOK == 0 or self._floor > now:
            self._floor = BEGINNING[0]
        found = await self._store.schedules.next_due_at((self._floor, 0))
        # What others make from now on is due later than now, by their clocks.
        self._floor = min(found or now, now - SKEW)
        return found

    async def fire_due(self) -> tuple[int, int]:
        """Everything that is due, in rounds: how many schedules, and how many fires this node made of them."""
        now, place = self._clock.now(), (self._floor, 0)
        total, fires = 0, 0
        for _ in range(ROUNDS):
            due = await self._store.schedules.due(now, self.batch_size, place)
            if not due:
                break
            for schedule in due:
                if schedule.unplanned:
                    await self._plan_first(schedule, now)
            total, fires = total + len(due), fires + await self._fire(due, now)
            place = (due[-1].due_at, due[-1].id)
            if len(due) < self.batch_size:
                break
            now = self._clock.now()
        return total, fires

    async def _fire(self, due: Sequence[Schedule], now: datetime) -> int:
        """One round, in one transaction."""
        firings = [await self._plan(self._begin(schedule), now) for schedule in due if not schedule.unplanned]
        if not firings:
            return 0
        fired = await self._store.schedules.fire(firings, now)
        for each in fired:
            if each.error is None:
                self._wake(each)
            missed = each.error is not None or now - each.schedule.due_at > LATE
            self._outcomes.count(each.schedule.tenant, OutcomeKind.SCHEDULE, good=int(not missed), bad=int(missed))
        return sum(len(each.times) for each in fired if each.error is None)

    async def _plan_first(self, schedule: Schedule, now: datetime) -> None:
        """A schedule that SQL created or resumed: store when it fires. Another node may do so meanwhile."""
        found = planned(schedule)
        if found.last_error is not None:
            log.warning("a schedule is paused", extra={"schedule": found.name, "error": found.last_error})
        await self._store.schedules.update(found, now)
        self._floor = min(self._floor, found.due_at)

    def _begin(self, schedule: Schedule) -> Schedule:
        """The schedule as it is fired: servers that export traces begin one."""
        return schedule

    async def _plan(self, schedule: Schedule, now: datetime) -> Firing:
        try:
            return await self._targets.prepare(plan(schedule, now))
        except Unavailable:
            raise
        except Exception as error:
            # A time zone that is no more, a topic that cannot be read: its own failure, not that of the round.
            log.warning("a schedule cannot be fired", extra={"schedule": schedule.name, "error": repr(error)})
            return Firing(
                schedule=schedule, times=(schedule.next_fire_at,), next_fire_at=None, due_at=None, error=str(error)
            )

    def _wake(self, fired: Fired) -> None:
        """Receivers of this node: those of others hear of it from the store."""
        if fired.schedule.settings.target_kind is TargetKind.QUEUE:
            queue = fired.schedule.settings.target
            self._waiters.wake((fired.schedule.tenant, queue), len(fired.times))
            self._metrics.sent.add((str(fired.schedule.tenant), queue), len(fired.times))
        else:
            self._targets.wake(fired)

    async def _change(self, found: Schedule, settings: ScheduleSettings, given: Mapping[str, Any]) -> Schedule | None:
        await self._check_target(found.tenant, settings)
        now = self._clock.now()
        status = ScheduleStatus(given.get("status", found.status))
        resumed = status is ScheduleStatus.ACTIVE and found.status is ScheduleStatus.PAUSED
        changed = replace(found, settings=settings, status=status)
        if timetable_of(settings) != timetable_of(found.settings):
            # Counted from the latest fire too, so that no clock that is behind can make one happen again.
            changed = replace(changed, next_fire_at=_first_fire(settings, max(now, found.last_fire_at or now)))
        elif resumed and settings.kind is not TimetableKind.ONCE:
            # What passed while it was paused was not wanted.
            next_fire_at = timetable_of(settings).next_after(max(now, found.last_fire_at or now))
            changed = replace(changed, next_fire_at=next_fire_at or found.next_fire_at)
        if resumed:
            changed = replace(changed, consecutive_failures=0, last_error=None)
        if changed == found:
            return found
        retimed = resumed or changed.next_fire_at != found.next_fire_at or settings.jitter_s != found.settings.jitter_s
        if retimed:
            changed = replace(changed, due_at=_due(found.tenant, found.name, settings, changed.next_fire_at))
        self._floor = min(self._floor, changed.due_at)
        return await self._store.schedules.update(changed, now)

    async def _check_target(self, tenant: TenantId, settings: ScheduleSettings) -> None:
        """Topics may come later, and queues of jobs come by themselves; these must be there."""
        if settings.target_kind is TargetKind.QUEUE:
            await self._store.get_queue(tenant, settings.target)
        elif settings.target_kind is TargetKind.STREAM:
            if not self._store.has_streams:
                raise Unsupported("streams require PostgreSQL", field="target_kind")
            await self._store.streams.get(tenant, settings.target)


def plan(schedule: Schedule, now: datetime) -> Firing:
    """What a due schedule owes by now, and what comes next."""
    settings, table = schedule.settings, timetable_of(schedule.settings)
    times = [schedule.next_fire_at]
    following = table.next_after(times[-1])
    while settings.catchup and following is not None and following <= now and len(times) < settings.catchup_limit:
        times.append(following)
        following = table.next_after(following)
    if following is not None and following <= now:
        following = table.next_after(now)
    due_at = None if following is None else _due(schedule.tenant, schedule.name, settings, following)
    return Firing(schedule=schedule, times=tuple(times), next_fire_at=following, due_at=due_at)


def planned(schedule: Schedule) -> Schedule:
    """A schedule that SQL created or resumed, with its next fire; paused when it has none."""
    if not schedule.unplanned:
        return schedule
    settings, since = schedule.settings, max(schedule.updated_at, schedule.last_fire_at or schedule.updated_at)
    try:
        check_settings(settings, since)
        once = settings.kind is TimetableKind.ONCE
        next_fire_at = timetable_of(settings).moment if once else _first_fire(settings, since)
    except (Invalid, ScheduleTextError, LookupError) as error:
        # SQL checks all that it can, but knows neither the calendar nor the time zones of this server.
        return replace(schedule, status=ScheduleStatus.PAUSED, last_error=str(error), unplanned=False)
    due_at = _due(schedule.tenant, schedule.name, settings, next_fire_at)
    return replace(schedule, next_fire_at=next_fire_at, due_at=due_at, unplanned=False)


def _due(tenant: TenantId, name: str, settings: ScheduleSettings, fire_at: datetime) -> datetime:
    """With jitter, a moment that looks like chance and is the same on every node."""
    if not settings.jitter_s:
        return fire_at
    drawn = hashlib.sha256(f"{tenant}/{name}/{fire_at.isoformat()}".encode()).digest()[:8]
    return fire_at + timedelta(seconds=settings.jitter_s * int.from_bytes(drawn) / 2**64)


def _first_fire(settings: ScheduleSettings, now: datetime) -> datetime:
    found = timetable_of(settings).next_after(now)
    if found is None and settings.kind is TimetableKind.ONCE:
        raise Invalid("this time is in the past", field=settings.shape)
    if found is None:
        raise Invalid("this schedule never fires", field=settings.shape)
    return found
