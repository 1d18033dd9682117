"""Schedules on SQLite. One writer at a time: what is due when a firing begins is due until it ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from penstock.errors import PenstockError, ScheduleExists, ScheduleNotFound
from penstock.model import TenantId
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
from penstock.model.topics import Fanout
from penstock.store.schedules import BEGINNING, KEPT_FIRES, LONGEST_RETRY_S, ScheduleCursor
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.moments import SECOND, maybe_micros, maybe_moment, micros, moment
from penstock.store.sqlite.schedules.targets import fire_target
from penstock.store.sqlite.session import Session

_COLUMNS = [field.name for field in fields(ScheduleSettings)]


class SqliteSchedules:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        tenant: TenantId,
        name: str,
        settings: ScheduleSettings,
        status: ScheduleStatus,
        next_fire_at: datetime,
        due_at: datetime,
        now: datetime,
    ) -> Schedule:
        def work(session: Session) -> Schedule:
            row = session.first(
                "insert_schedule",
                tenant=tenant,
                name=name,
                status=status,
                next_fire_at=micros(next_fire_at),
                due_at=micros(due_at),
                now=micros(now),
                **_values(settings),
            )
            if row is None:
                raise ScheduleExists(f"Schedule '{name}' already exists", field="name")
            return _schedule(row)

        return await self._database.write(work)

    async def get(self, tenant: TenantId, name: str) -> Schedule:
        row = await self._database.read(lambda s: s.first("get_schedule", tenant=tenant, name=name))
        if row is None:
            raise ScheduleNotFound(f"Schedule '{name}' does not exist", field="name")
        return _schedule(row)

    async def list(
        self, tenant: TenantId, *, status: ScheduleStatus | None, kind: TargetKind | None, prefix: str, limit: int
    ) -> Sequence[Schedule]:
        found = await self._database.read(
            lambda s: s.all("list_schedules", tenant=tenant, status=status, kind=kind, prefix=prefix, limit=limit)
        )
        return [_schedule(row) for row in found]

    async def update(self, changed: Schedule, now: datetime) -> Schedule | None:
        row = await self._database.write(
            lambda s: s.first(
                "update_schedule",
                tenant=changed.tenant,
                id=changed.id,
                revision=changed.revision,
                status=changed.status,
                next_fire_at=micros(changed.next_fire_at),
                due_at=micros(changed.due_at),
                consecutive_failures=changed.consecutive_failures,
                last_error=changed.last_error,
                now=micros(now),
                **_values(changed.settings),
            )
        )
        return None if row is None else _schedule(row)

    async def delete(self, tenant: TenantId, name: str) -> bool:
        done = await self._database.write(lambda s: s.run("delete_schedule", tenant=tenant, name=name).rowcount)
        return done > 0

    async def next_due_at(self, after: ScheduleCursor = BEGINNING) -> datetime | None:
        since, last = micros(after[0]), after[1]
        return maybe_moment(await self._database.read(lambda s: s.value("next_schedule_due", since=since, last=last)))

    async def due(self, now: datetime, limit: int, after: ScheduleCursor = BEGINNING) -> Sequence[Schedule]:
        since, last = micros(after[0]), after[1]
        found = await self._database.read(
            lambda s: s.all("due_schedules", now=micros(now), limit=limit, since=since, last=last)
        )
        return [_schedule(row) for row in found]

    async def fire(self, firings: Sequence[Firing], now: datetime) -> Sequence[Fired]:
        def work(session: Session) -> list[Fired]:
            found = [_fire(session, firing, micros(now)) for firing in firings]
            done = [fired for fired in found if fired is not None]
            for fired in done:
                _note(session, fired, micros(now), by_hand=False)
            return done

        return await self._database.write(work)

    async def fires(self, schedule: Schedule, limit: int) -> Sequence[PastFire]:
        rows = await self._database.read(lambda s: s.all("schedule_fires", id=schedule.id, limit=limit))
        return [
            PastFire(
                scheduled_for=moment(row["scheduled_for"]),
                times=row["times"],
                fired_at=moment(row["fired_at"]),
                by_hand=bool(row["by_hand"]),
                sent_id=row["sent_id"],
                error=row["error"],
            )
            for row in rows
        ]

    async def sweep_fires(self, before: datetime, limit: int) -> int:
        return await self._database.write(lambda s: s.run("sweep_fires", before=micros(before), limit=limit).rowcount)

    async def run(self, schedule: Schedule, at: datetime, now: datetime, fanouts: Sequence[Fanout] = ()) -> Fired:
        def work(session: Session) -> Fired:
            row = session.first("get_schedule_by_id", id=schedule.id)
            if row is None:
                raise ScheduleNotFound(f"Schedule '{schedule.name}' does not exist", field="name")
            found = replace(_schedule(row), trace=schedule.trace)
            ids = fire_target(session, found, (at,), fanouts, micros(now), out_of_band=True)
            fired = Fired(schedule=schedule, times=(at,), ids=ids, fanouts=tuple(fanouts))
            _note(session, fired, micros(now), by_hand=True)
            return fired

        return await self._database.write(work)


def _fire(session: Session, firing: Firing, now: int) -> Fired | None:
    schedule = firing.schedule
    if session.value("is_schedule_due", id=schedule.id, revision=schedule.revision, now=now) is None:
        return None
    if firing.error is not None:
        return _failed(session, firing, firing.error[:500], now)
    connection = session.run("savepoint_schedule").connection
    try:
        # A session of its own, so that what it has counted is given up together with what it has written.
        own = Session(connection)
        ids = fire_target(own, schedule, firing.times, firing.fanouts, now, out_of_band=False)
        own.finish()
    except (PenstockError, sqlite3.Error) as error:
        session.run("rollback_schedule")
        session.run("release_schedule")
        return _failed(session, firing, str(error)[:500], now)
    session.run("release_schedule")
    if firing.next_fire_at is None:
        session.run("delete_fired_schedule", id=schedule.id)
    else:
        session.run(
            "advance_schedule",
            id=schedule.id,
            next_fire_at=micros(firing.next_fire_at),
            due_at=maybe_micros(firing.due_at),
            last_fire_at=micros(firing.times[-1]),
            fires=len(firing.times),
        )
    return Fired(schedule=schedule, times=firing.times, ids=ids, fanouts=firing.fanouts)


def _note(session: Session, fired: Fired, now: int, *, by_hand: bool) -> None:
    session.run(
        "insert_fire",
        id=fired.schedule.id,
        scheduled_for=micros(fired.times[0]),
        times=len(fired.times),
        now=now,
        by_hand=int(by_hand),
        sent_id=str(fired.ids[0]) if fired.ids else None,
        error=fired.error,
    )
    session.run("forget_fires", id=fired.schedule.id, kept=KEPT_FIRES)


def _failed(session: Session, firing: Firing, error: str, now: int) -> Fired:
    wait_s = min(2 ** min(firing.schedule.consecutive_failures, 20), LONGEST_RETRY_S)
    session.run("fail_schedule", id=firing.schedule.id, error=error, due_at=now + wait_s * SECOND)
    return Fired(schedule=firing.schedule, times=firing.times, error=error)


def _values(settings: ScheduleSettings) -> dict[str, Any]:
    values = {name: getattr(settings, name) for name in _COLUMNS}
    values["anchor"] = micros(settings.anchor)
    return values


def _schedule(row: sqlite3.Row) -> Schedule:
    values = {name: row[name] for name in _COLUMNS}
    values["target_kind"] = TargetKind(values["target_kind"])
    values["kind"] = TimetableKind(values["kind"])
    values["anchor"] = moment(values["anchor"])
    for flag in ("json", "catchup"):
        values[flag] = bool(values[flag])
    return Schedule(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        name=row["name"],
        status=ScheduleStatus(row["status"]),
        settings=ScheduleSettings(**values),
        next_fire_at=moment(row["next_fire_at"]),
        due_at=moment(row["due_at"]),
        last_fire_at=maybe_moment(row["last_fire_at"]),
        fires=row["fires"],
        consecutive_failures=row["consecutive_failures"],
        last_error=row["last_error"],
        revision=row["revision"],
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
    )
