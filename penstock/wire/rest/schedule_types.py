"""The shapes of schedules and previews in the native REST API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock import limits
from penstock.model.schedules import TargetKind
from penstock.wire.http.faults import Fault
from penstock.wire.rest.types import Moment, Strict

Status = Literal["active", "paused"]
Kind = TargetKind

_Text = Annotated[str, Meta(max_length=400)]
_Cron = Annotated[_Text, Meta(description="Five fields, or six with seconds first: '0 9 * * 1-5'.")]
_Every = Annotated[_Text, Meta(description="A duration: '90s', '1h30m', 'PT5M'.")]
_When = Annotated[_Text, Meta(description="A phrase: 'every weekday at 9am Europe/Berlin'.")]
_FireAt = Annotated[_Text, Meta(description="One moment in ISO 8601; without an offset, in the time zone.")]
_Zone = Annotated[str, Meta(max_length=64, description="A time zone of the IANA database; UTC unless said.")]
_StartAt = Annotated[Moment, Meta(description="With every: one of the fires, and the first.")]


class Expression(Strict, kw_only=True):
    """When: exactly one of cron, every, when and fire_at."""

    cron: _Cron | UnsetType = UNSET
    every: _Every | UnsetType = UNSET
    when: _When | UnsetType = UNSET
    fire_at: _FireAt | UnsetType = UNSET
    timezone: _Zone | UnsetType = UNSET
    start_at: _StartAt | UnsetType | None = UNSET


class ScheduleFields(Expression, kw_only=True):
    status: Status | UnsetType = UNSET
    message: Annotated[Raw, Meta(description="Any JSON value. A string is sent as plain text.")] | UnsetType = UNSET
    headers: dict[str, Raw] | UnsetType | None = UNSET
    delay: (
        Annotated[int, Meta(ge=limits.DELAY_S[0], le=limits.DELAY_S[1], description="Seconds; queues only.")]
        | UnsetType
        | None
    ) = UNSET
    priority: Annotated[int, Meta(ge=limits.PRIORITY[0], le=limits.PRIORITY[1])] | UnsetType | None = UNSET
    group_id: str | UnsetType | None = UNSET
    catchup: Annotated[bool, Meta(description="Make up for missed fires, oldest first.")] | UnsetType = UNSET
    catchup_limit: Annotated[int, Meta(ge=limits.SCHEDULE_CATCHUP[0], le=limits.SCHEDULE_CATCHUP[1])] | UnsetType = (
        UNSET
    )
    jitter: (
        Annotated[
            int,
            Meta(
                ge=limits.SCHEDULE_JITTER_S[0],
                le=limits.SCHEDULE_JITTER_S[1],
                description="Each fire happens up to so many seconds late.",
            ),
        ]
        | UnsetType
    ) = UNSET
    failure_threshold: (
        Annotated[int, Meta(ge=limits.SCHEDULE_FAILURES[0], le=limits.SCHEDULE_FAILURES[1])] | UnsetType
    ) = UNSET


class PutSchedule(ScheduleFields, kw_only=True):
    """The whole of a schedule: what is left out is as a new one has it."""

    target: str
    target_kind: Kind = TargetKind.QUEUE


class NewSchedule(PutSchedule, kw_only=True):
    name: str


class ChangedSchedule(ScheduleFields, kw_only=True):
    """What to change. `{"status": "paused"}` pauses, `{"status": "active"}` resumes."""

    target: str | UnsetType = UNSET
    target_kind: Kind | UnsetType = UNSET


class Canonical(Struct, kw_only=True):
    """When, in the one form it is kept in: one of cron, every and fire_at."""

    cron: str | None
    every: str | None
    fire_at: Moment | None
    timezone: str
    human_readable: str


class ScheduleItem(Canonical, kw_only=True):
    name: str
    status: str
    target_kind: str
    target: str
    when: Annotated[str | None, Meta(description="The phrase it was made with, if it was.")]
    start_at: Moment | None
    next_fire_at: Moment
    last_fire_at: Moment | None
    fires: int
    consecutive_failures: int
    last_error: str | None
    created_at: Moment
    updated_at: Moment


class Schedule(ScheduleItem, kw_only=True):
    message: Raw | str
    headers: Raw | None
    delay: int | None
    priority: int | None
    group_id: str | None
    catchup: bool
    catchup_limit: int
    jitter: int
    failure_threshold: int
    next_fires: list[datetime]


class ScheduleQuery(Strict):
    status: Status | None = None
    target_kind: Kind | None = None
    name_prefix: str = ""


class Run(Struct, kw_only=True):
    """One fire by hand."""

    schedule: str
    target_kind: str
    target: str
    scheduled_for: Moment
    out_of_band: bool
    msg_ids: Annotated[list[int | str], Meta(description="Of the messages, events or jobs made.")]


class NewPreview(Expression, kw_only=True):
    count: Annotated[int, Meta(ge=1, le=100, description="How many fires to show.")] | UnsetType = UNSET


class Preview(Canonical, kw_only=True):
    next_fires: list[datetime]
    next_fires_local: Annotated[list[datetime], Meta(description="The same, as the clocks of the time zone show them.")]


class Misread(Fault, omit_defaults=True, kw_only=True):
    """An expression that could not be read."""

    understood: str
    not_understood: str
    suggestion: str | None = None
