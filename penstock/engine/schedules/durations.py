"""Durations as people and programs write them: `90s`, `1h30m`, `2 days`, `PT5M`. Pure.

A text is read whole or refused: nothing is skipped, nothing is negative, and a unit appears once.
"""

from __future__ import annotations

import re
from datetime import timedelta

from penstock.engine.schedules.errors import ScheduleTextError

MAX_TEXT = 40

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
"""From large to small, which is the order they must come in."""

_WORDS = {
    **dict.fromkeys(("w", "week", "weeks"), "w"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
}
_NAMES = {"w": "week", "d": "day", "h": "hour", "m": "minute", "s": "second", "ms": "millisecond"}

_PART = re.compile(r"\s*(?:and\s+)?([0-9]{1,9})\s*([a-z]+)\s*")
_ISO = re.compile(r"p(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(?:t(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?)?")


def parse(text: str) -> timedelta:
    """The duration a text means; `ScheduleTextError` when it means none."""
    if len(text) > MAX_TEXT:
        raise ScheduleTextError(f"a duration has at most {MAX_TEXT} characters", rest=text[:MAX_TEXT])
    lower = text.strip().lower()
    try:
        found = _iso(lower) if lower.startswith("p") else _parts(lower)
    except OverflowError:
        raise ScheduleTextError("this duration is too long", rest=text, suggestion="5m") from None
    if not found:
        raise ScheduleTextError("a duration must be longer than zero", rest=text, suggestion="5m")
    return found


def _iso(text: str) -> timedelta:
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ScheduleTextError("not a duration", rest=text, suggestion="PT5M")
    return sum(
        (int(number) * _UNITS[unit] for number, unit in zip(match.groups(), "wdhms", strict=True) if number),
        timedelta(),
    )


def _parts(text: str) -> timedelta:
    total, place, smallest = timedelta(), 0, -1
    units = list(_UNITS)
    while place < len(text):
        match = _PART.match(text, place)
        unit = _WORDS.get(match[2]) if match is not None else None
        if match is None or unit is None or units.index(unit) <= smallest:
            raise ScheduleTextError(
                "not a duration", understood=text[:place].strip(), rest=text[place:].strip(), suggestion="1h30m"
            )
        smallest = units.index(unit)
        total += int(match[1]) * _UNITS[unit]
        place = match.end()
    return total


def short(duration: timedelta) -> str:
    """The one form we write: `1h30m`. Weeks are written in days."""
    return "".join(f"{count}{unit}" for count, unit in _split(duration)) or "0s"


def words(duration: timedelta) -> str:
    """`1 hour 30 minutes`."""
    return " ".join(f"{count} {_NAMES[unit]}{'' if count == 1 else 's'}" for count, unit in _split(duration))


def _split(duration: timedelta) -> list[tuple[int, str]]:
    found = []
    for unit, size in _UNITS.items():
        if unit == "w":
            continue
        count, duration = divmod(duration, size)
        if count:
            found.append((count, unit))
    return found
