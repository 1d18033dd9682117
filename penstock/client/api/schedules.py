"""Schedules: what is sent when, to queues, topics, streams and as jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from penstock.client.api import requests
from penstock.client.api.requests import Answered, moment_text, read_as, read_each, segment
from penstock.client.exchange import Call

TargetKind = Literal["queue", "topic", "stream", "job"]


class TimetableOptions(TypedDict, total=False):
    """When: exactly one of `cron`, `every`, `when` and `fire_at`."""

    cron: str
    every: str
    when: str
    fire_at: datetime | str
    timezone: str
    start_at: datetime | str | None


class ScheduleOptions(TimetableOptions, total=False):
    status: Literal["active", "paused"]
    message: Any
    headers: Mapping[str, Any] | None
    delay: int | None
    priority: int | None
    group_id: str | None
    catchup: bool
    catchup_limit: int
    jitter: int
    failure_threshold: int


class ScheduleChanges(ScheduleOptions, total=False):
    target: str
    target_kind: TargetKind


class Canonical(Answered, frozen=True, kw_only=True):
    """When, in the one form that is stored: one of `cron`, `every` and `fire_at`."""

    cron: str | None
    every: str | None
    fire_at: datetime | None
    timezone: str
    human_readable: str


class ScheduleItem(Canonical, frozen=True, kw_only=True):
    name: str
    status: str
    target_kind: str
    target: str
    when: str | None
    start_at: datetime | None
    next_fire_at: datetime
    last_fire_at: datetime | None
    fires: int
    consecutive_failures: int
    last_error: str | None
    created_at: datetime
    updated_at: datetime


class Schedule(ScheduleItem, frozen=True, kw_only=True):
    message: Any
    headers: dict[str, Any] | None
    delay: int | None
    priority: int | None
    group_id: str | None
    catchup: bool
    catchup_limit: int
    jitter: int
    failure_threshold: int
    next_fires: list[datetime]


class Run(Answered, frozen=True, kw_only=True):
    """One fire by hand: the ids of the messages, events or jobs that it made."""

    schedule: str
    target_kind: str
    target: str
    scheduled_for: datetime
    out_of_band: bool
    msg_ids: list[int | str]


class Preview(Canonical, frozen=True, kw_only=True):
    next_fires: list[datetime]
    next_fires_local: list[datetime]


def create(
    name: str, target: str, *, target_kind: TargetKind = "queue", **options: Unpack[ScheduleOptions]
) -> Call[Schedule]:
    """Create a schedule; `ScheduleExists` when there is one of this name."""
    body = {"name": name, "target": target, "target_kind": target_kind, **_times(options)}
    return Call(requests.post("/v1/schedules", body, repeatable=False), read_as(Schedule))


def put(
    name: str, target: str, *, target_kind: TargetKind = "queue", **options: Unpack[ScheduleOptions]
) -> Call[Schedule]:
    """Create a schedule, or replace the one of this name."""
    return Call(
        requests.put(_schedule(name), {"target": target, "target_kind": target_kind, **_times(options)}),
        read_as(Schedule),
    )


def list_schedules(
    *, status: str | None = None, target_kind: str | None = None, name_prefix: str = ""
) -> Call[list[ScheduleItem]]:
    query = {"status": status, "target_kind": target_kind, "name_prefix": name_prefix or None}
    return Call(requests.get("/v1/schedules", query), read_each(ScheduleItem))


def get(name: str) -> Call[Schedule]:
    """A schedule and its next fires."""
    return Call(requests.get(_schedule(name)), read_as(Schedule))


def change(name: str, **changes: Unpack[ScheduleChanges]) -> Call[Schedule]:
    """Change the given fields. `status="paused"` pauses and `status="active"` resumes."""
    return Call(requests.patch(_schedule(name), _times(changes)), read_as(Schedule))


def delete(name: str) -> Call[None]:
    return Call(requests.delete(_schedule(name)), requests.nothing)


def run(name: str) -> Call[Run]:
    """Fire now, beside the timetable."""
    return Call(requests.post(f"{_schedule(name)}/runs", repeatable=False), read_as(Run))


def preview(*, count: int = 5, **times: Unpack[TimetableOptions]) -> Call[Preview]:
    """What an expression means, and when it fires."""
    return Call(requests.post("/v1/previews", {"count": count, **_times(times)}), read_as(Preview))


def _times(options: Mapping[str, Any]) -> dict[str, Any]:
    moments = {name: moment_text(name, options[name]) for name in ("fire_at", "start_at") if options.get(name)}
    return {**options, **moments}


def _schedule(name: str) -> str:
    return f"/v1/schedules/{segment(name)}"
