"""Schedules: time that becomes messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from penstock.model.tenants import TenantId
from penstock.model.topics import Fanout


class TargetKind(StrEnum):
    """What a schedule fires at."""

    QUEUE = "queue"
    TOPIC = "topic"
    STREAM = "stream"
    JOB = "job"


class ScheduleStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"


class TimetableKind(StrEnum):
    """The form a timetable is kept in, whichever way it was said."""

    CRON = "cron"
    EVERY = "every"
    ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings:
    """What the owner of a schedule decides."""

    target_kind: TargetKind
    target: str
    """The name of the queue, stream or job queue; or the routing key of an event."""
    shape: str
    """Which of the four ways it was said in: `cron`, `every`, `when` or `fire_at`."""
    given: str
    """The text as it was said."""
    kind: TimetableKind
    expression: str
    timezone: str
    anchor: datetime
    body: str = "null"
    json: bool = True
    headers: str | None = None
    """A JSON object; every fire adds `_schedule` to it."""
    delay_s: int | None = None
    priority: int | None = None
    group_id: str | None = None
    catchup: bool = False
    """Fire what was missed too, in order, at most `catchup_limit` of it; else the first missed fire stands for all."""
    catchup_limit: int = 100
    jitter_s: int = 0
    """Each fire happens up to so many seconds late, by chance."""
    failure_threshold: int = 10
    """Failures in a row that pause the schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    id: int
    tenant: TenantId
    name: str
    status: ScheduleStatus
    settings: ScheduleSettings
    next_fire_at: datetime
    due_at: datetime
    """When the next fire is to happen: its own time, later by its jitter, or later still after a failure."""
    last_fire_at: datetime | None
    """The time, by the timetable, of the latest fire."""
    fires: int
    consecutive_failures: int
    last_error: str | None
    revision: int
    """Rises with every change and every fire: what was read before is known to be old."""
    created_at: datetime
    updated_at: datetime
    unplanned: bool = False
    """SQL created or resumed it: its next fire is to be computed before it fires."""
    trace: str | None = None
    """The traceparent of the fire under way, on servers that export traces. It is not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """What is to happen to one due schedule: messages for these times, and the next time to wait for."""

    schedule: Schedule
    times: tuple[datetime, ...]
    next_fire_at: datetime | None
    """None: it will not fire again, and is removed."""
    due_at: datetime | None
    fanouts: tuple[Fanout, ...] = ()
    """Of a topic, where the store cannot find the subscribers itself: what each time leads to."""
    error: str | None = None
    """Why it cannot be fired: counts as a failure, and nothing is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """What became of a firing. One that another node was quicker with is not reported."""

    schedule: Schedule
    times: tuple[datetime, ...]
    ids: tuple[int | str, ...] = ()
    """Of the messages, events or jobs made, one for each time."""
    error: str | None = None
    fanouts: tuple[Fanout, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFire:
    """What became of a fire."""

    scheduled_for: datetime
    times: int
    """Fires that were made up for together."""
    fired_at: datetime
    by_hand: bool
    sent_id: str | None
    """Of the first message, event or job."""
    error: str | None


def stamp(moment: datetime) -> str:
    """A moment as messages carry it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def mark(name: str, scheduled_for: datetime, *, out_of_band: bool, trace: str | None = None) -> str:
    """The `_schedule` header, as JSON. Names, moments and traces need no escaping."""
    by_hand = "true" if out_of_band else "false"
    traced = "" if trace is None else f',"traceparent":"{trace}"'
    return f'{{"name":"{name}","scheduled_for":"{stamp(scheduled_for)}","out_of_band":{by_hand}{traced}}}'


def headers_of(headers: str | None, mark: str) -> str:
    """A JSON object with the `_schedule` header behind what it holds."""
    own = f'"_schedule":{mark}}}'
    return f"{{{own}" if headers is None or headers == "{}" else f"{headers[:-1]},{own}"
