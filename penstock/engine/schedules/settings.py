"""The settings of a schedule as callers give them: read, filled in from what is there, and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from penstock import limits
from penstock.engine.checks import check_id, check_moment, check_name, check_range, check_text
from penstock.engine.json_checks import check_json
from penstock.engine.schedules import timetable
from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.timetable import Timetable
from penstock.engine.schedules.zones import zone_name
from penstock.errors import Invalid
from penstock.model.schedules import Schedule, ScheduleSettings, TargetKind, TimetableKind

SHAPES = ("cron", "every", "when", "fire_at")
_PLAIN = {field.name for field in fields(ScheduleSettings)} - {
    "shape", "given", "kind", "expression", "timezone", "anchor",
}  # fmt: skip
_RANGES = {
    "delay_s": limits.DELAY_S,
    "priority": limits.PRIORITY,
    "catchup_limit": limits.SCHEDULE_CATCHUP,
    "jitter_s": limits.SCHEDULE_JITTER_S,
    "failure_threshold": limits.SCHEDULE_FAILURES,
}


def timetable_of(settings: ScheduleSettings) -> Timetable:
    return Timetable(
        kind=settings.kind, expression=settings.expression, timezone=settings.timezone, anchor=settings.anchor
    )


def read_settings(
    base: Mapping[str, Any], given: Mapping[str, Any], now: datetime, found: Schedule | None = None
) -> ScheduleSettings:
    """The settings that a request makes, on top of those it leaves alone."""
    values = {name: value for name, value in {**base, **given}.items() if name in _PLAIN}
    named = [shape for shape in SHAPES if given.get(shape) is not None]
    when: dict[str, Any] = {name: given[name] for name in ("timezone", "start_at") if name in given}
    if not named and found is not None and base:
        when = {"timezone": found.settings.timezone, "start_at": _start_at(found.settings)} | when
        when[found.settings.shape] = found.settings.given
        unchanged = not any(name in given for name in ("timezone", "start_at"))
        table = timetable_of(found.settings) if unchanged else read_timetable(when, now)
    else:
        when |= {shape: given[shape] for shape in named}
        if found is not None and "timezone" not in given and base:
            when["timezone"] = found.settings.timezone
        table = read_timetable(when, now)
    shape = next(shape for shape in SHAPES if when.get(shape) is not None)
    # A moment said in words ("tomorrow") is not moved by saying the same again.
    if found is not None and table.kind is found.settings.kind is TimetableKind.ONCE and shape == "when":
        same = (when[shape], table.timezone) == (found.settings.given, found.settings.timezone)
        table = timetable_of(found.settings) if same else table
    settings = ScheduleSettings(
        **values,
        shape=shape,
        given=when[shape],
        kind=table.kind,
        expression=table.expression,
        timezone=table.timezone,
        anchor=table.anchor,
    )
    check_settings(settings, now)
    return settings


def as_given(settings: ScheduleSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in _PLAIN}


def _start_at(settings: ScheduleSettings) -> datetime | None:
    return None if settings.anchor == timetable.ANCHOR else settings.anchor


def read_timetable(given: Mapping[str, Any], now: datetime) -> Timetable:
    named = [shape for shape in SHAPES if given.get(shape) is not None]
    if len(named) != 1:
        said = f"; this has {' and '.join(named)}" if named else ""
        raise Invalid(f"give exactly one of {', '.join(SHAPES)}{said}", field=named[1] if named else "cron")
    [shape] = named
    text, zone, start_at = given[shape], given.get("timezone"), given.get("start_at")
    if start_at is not None and shape != "every":
        raise Invalid("start_at requires every", field="start_at")
    check_moment("start_at", start_at)
    check_text(shape, text)
    try:
        if zone is not None:
            zone_name(zone)
    except ScheduleTextError as error:
        raise Invalid(f"timezone: {error.sentence}", field="timezone") from error
    try:
        match shape:
            case "cron":
                return timetable.from_cron(text, zone)
            case "every":
                return timetable.from_every(text, zone, start_at)
            case "when":
                return timetable.from_phrase(text, now, zone)
            case _:
                return timetable.from_moment(text, zone)
    except ScheduleTextError as error:
        raise Invalid(f"{shape}: {error.sentence}", field=shape) from error


def check_schedule_name(name: str) -> None:
    if limits.SCHEDULE_NAME.fullmatch(name) is None:
        raise Invalid(
            "a schedule name has 1 to 80 letters, digits, dots, hyphens and underscores, a letter or digit first",
            field="name",
        )


def check_settings(settings: ScheduleSettings, now: datetime) -> None:
    match settings.target_kind:
        case TargetKind.QUEUE:
            check_name(settings.target, "target")
        case TargetKind.TOPIC:
            if limits.ROUTING_KEY.fullmatch(settings.target) is None:
                raise Invalid("target must be a routing key: words between dots", field="target")
        case _:
            if limits.SCHEDULE_TARGET.fullmatch(settings.target) is None:
                raise Invalid("target must be 1 to 128 letters, digits and . _ : -", field="target")
    for field, bounds in _RANGES.items():
        check_range(field.removesuffix("_s"), getattr(settings, field), bounds)
    check_id("group_id", settings.group_id)
    check_text("message", settings.body)
    if settings.target_kind in (TargetKind.JOB, TargetKind.STREAM):
        check_json("message", settings.body)
    if settings.headers is not None:
        check_text("headers", settings.headers)
    if settings.jitter_s and settings.kind is not TimetableKind.ONCE:
        fires = timetable_of(settings).fires(now, 2)
        if len(fires) == 2 and timedelta(seconds=settings.jitter_s) > fires[1] - fires[0]:
            raise Invalid("jitter must be shorter than the time between two fires", field="jitter")
