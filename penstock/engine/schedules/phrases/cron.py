"""What the draft of a `when` phrase comes to: a cron expression, a rhythm, or one moment. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from penstock.engine.schedules import durations
from penstock.engine.schedules.cron import MAX_PARTS
from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.phrases.words import LENGTHS, Draft
from penstock.engine.schedules.zones import instant, wall, zone

Fields = tuple[str, str, str]
"""Second, minute and hour."""

_DAY_MINUTES = 24 * 60


def moment_of(draft: Draft, now: datetime, zone_name: str) -> datetime | None:
    """The one moment that the phrase names, if it names one."""
    if all(said is None for said in (draft.date, draft.days_ahead, draft.next_weekday, draft.delay)):
        return None
    if draft.step or _has_days(draft) or draft.months or draft.minutes or draft.window:
        raise ScheduleTextError("a single time cannot be combined with a repetition")
    if draft.delay is not None:
        if draft.times:
            raise ScheduleTextError("a delay cannot be combined with a time")
        return (now + draft.delay).astimezone(UTC)
    if len(draft.times) > 1:
        raise ScheduleTextError("a single date takes one time of day")
    where = zone(zone_name)
    day = _day(draft, wall(now, where))
    hour, minute, second = draft.times[0] if draft.times else (0, 0, 0)
    return instant(day.replace(hour=hour, minute=minute, second=second, microsecond=0), where)


def _day(draft: Draft, today: datetime) -> datetime:
    if draft.date is not None:
        try:
            return datetime(*draft.date)
        except ValueError:
            raise ScheduleTextError("there is no such day", rest="-".join(map(str, draft.date))) from None
    if draft.next_weekday is not None:
        # isoweekday counts Sunday as 7; we and cron call it 0.
        return today + timedelta(days=(draft.next_weekday - today.isoweekday() - 1) % 7 + 1)
    assert draft.days_ahead is not None
    return today + timedelta(days=draft.days_ahead)


def rhythm_of(draft: Draft) -> timedelta | None:
    """The plain interval that the phrase means, when the clock cannot be divided so."""
    if draft.step is None:
        return None
    number, unit = draft.step
    if unit not in LENGTHS or _divides(number, unit):
        return None
    if draft.times or draft.minutes or _has_days(draft) or draft.months:
        short = durations.short(number * LENGTHS[unit])
        raise ScheduleTextError(
            f"every {number} {unit}s does not divide the calendar, so it cannot be combined with days or times; "
            f"use every '{short}' with start_at"
        )
    return None if draft.window else number * LENGTHS[unit]


def _divides(number: int, unit: str) -> bool:
    match unit:
        case "second" | "minute":
            return 60 % number == 0 and number < 60
        case "hour":
            return 24 % number == 0 and number < 24
        case _:
            return number == 1


def cron_of(draft: Draft) -> str:
    day, month, weekday = _day_fields(draft)
    parts = []
    for second, minute, hour in _time_fields(draft):
        seconds = "" if second == "0" else f"{second} "
        parts.append(f"{seconds}{minute} {hour} {day} {month} {weekday}")
    if len(parts) > MAX_PARTS:
        raise ScheduleTextError("too many different times for one schedule")
    return " | ".join(parts)


def _has_days(draft: Draft) -> bool:
    return bool(draft.weekdays or draft.ordinal_weekdays or draft.days)


# Days


def _day_fields(draft: Draft) -> Fields:
    """Day of month, month and weekday."""
    weekday = ",".join(
        [f"{day}#{number}" if number > 0 else f"{day}L" for day, number in draft.ordinal_weekdays]
        + ([_numbers(draft.weekdays, week=True)] if draft.weekdays else [])
    )
    day = ",".join(dict.fromkeys(draft.days))
    month = _numbers(draft.months) if draft.months else "*"
    if day and weekday:
        raise ScheduleTextError("a day of the month cannot be combined with a day of the week")
    number, unit = draft.step or (1, "")
    match unit:
        case "week":
            weekday = weekday or ("" if day else "1")
        case "month" | "quarter":
            month = _every_months(number * (3 if unit == "quarter" else 1), month)
            day = day or ("" if weekday else "1")
        case "year":
            if number > 1:
                raise ScheduleTextError("an interval of several years is not supported")
            month = "1" if month == "*" else month
            day = day or ("" if weekday else "1")
    return day or "*", month, weekday or "*"


def _every_months(number: int, month: str) -> str:
    if number == 1:
        return month
    if 12 % number or month != "*":
        raise ScheduleTextError(
            f"every {number} months does not divide the year", suggestion="every 3 months on the 1st"
        )
    return "1" if number == 12 else f"*/{number}"


# Times


def _time_fields(draft: Draft) -> list[Fields]:
    number, unit = draft.step or (1, "")
    short = unit in ("second", "minute", "hour")
    if short and draft.times:
        raise ScheduleTextError(f"every {unit} cannot be combined with a time of day")
    if draft.minutes and (draft.times or unit in ("second", "minute")):
        raise ScheduleTextError("minutes past the hour can be combined with hours only")
    if draft.window is not None:
        return _within(draft, number, unit)
    if draft.minutes or unit == "hour":
        minutes = _numbers(set(draft.minutes or [0]))
        return [("0", minutes, _stepped(number, unit == "hour"))]
    if unit == "minute":
        return [("0", _stepped(number, True), "*")]
    if unit == "second":
        return [(_stepped(number, True), "*", "*")]
    return _grouped(draft.times or [(0, 0, 0)])


def _stepped(number: int, stepping: bool) -> str:
    return f"*/{number}" if stepping and number > 1 else "*"


def _within(draft: Draft, number: int, unit: str) -> list[Fields]:
    """Every so many minutes from one time to another, both included."""
    assert draft.window is not None
    (first_hour, first_minute, _), (last_hour, last_minute, _) = draft.window
    if unit not in ("minute", "hour") or draft.window[0][2] or draft.window[1][2]:
        raise ScheduleTextError(
            "a window can be combined with an interval of minutes or hours only",
            suggestion="every 15 minutes from 9 to 17",
        )
    step = number * (60 if unit == "hour" else 1)
    start = first_hour * 60 + first_minute
    length = (last_hour * 60 + last_minute - start) % _DAY_MINUTES
    times: list[tuple[int, int, int]] = []
    if draft.minutes:
        for hour in range(start // 60, (start + length) // 60 + 1, number):
            times += [
                (hour % 24, minute, 0) for minute in draft.minutes if start <= hour * 60 + minute <= start + length
            ]
    else:
        for passed in range(0, length + 1, step):
            hour, minute = divmod((start + passed) % _DAY_MINUTES, 60)
            times.append((hour, minute, 0))
    if not times:
        raise ScheduleTextError("the schedule never fires in that window")
    return _grouped(times)


def _grouped(times: Iterable[tuple[int, int, int]]) -> list[Fields]:
    """Hours that share their minutes, and minutes that share their seconds, in one expression each."""
    by_hour: dict[int, set[tuple[int, int]]] = {}
    for hour, minute, second in times:
        by_hour.setdefault(hour, set()).add((minute, second))
    hours: dict[tuple[frozenset[int], int], set[int]] = {}
    for hour, marks in by_hour.items():
        for second in {second for _, second in marks}:
            minutes = frozenset(minute for minute, mark in marks if mark == second)
            hours.setdefault((minutes, second), set()).add(hour)
    found = sorted(hours.items(), key=lambda group: (min(group[1]), min(group[0][0]), group[0][1]))
    return [(str(second), _minutes(minutes), _numbers(group)) for (minutes, second), group in found]


def _minutes(minutes: frozenset[int]) -> str:
    """`*/10` where the minutes are those of a step, which reads better than six numbers."""
    step = 60 // len(minutes)
    if len(minutes) > 2 and minutes == set(range(0, 60, step)):
        return f"*/{step}" if step > 1 else "*"
    return _numbers(minutes)


def _numbers(numbers: Iterable[int], *, week: bool = False) -> str:
    """`1-5`, `9,17`, `8-18/2`; Sunday comes last in a week."""
    ordered = sorted(numbers, key=lambda number: 7 if week and number == 0 else number)
    if week and len(ordered) == 7:
        return "*"
    steps = {right - left for left, right in pairwise(ordered)}
    if len(ordered) > 3 and len(steps) == 1 and (step := steps.pop()) > 1:
        return f"{ordered[0]}-{ordered[-1]}/{step}"
    runs: list[list[int]] = []
    for number in ordered:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
