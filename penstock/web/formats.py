"""How values are written on the pages."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from penstock.engine.schedules.zones import zone

NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"
LONGEST_TEXT = 4000
"""Characters of a body that a page shows."""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def thousands(number: int) -> str:
    return f"{number:,}".replace(",", NARROW_SPACE)


def duration(seconds: float | None) -> str:
    """The two largest units: `1 d 4 h`, `12 min`, `8 s`."""
    if seconds is None:
        return "–"
    rest = max(int(seconds), 0)
    if rest < 60:
        return f"{rest}{NARROW_SPACE}s"
    parts = []
    for size, unit in (*_UNITS, (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{NARROW_SPACE}{unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts)


def elapsed(seconds: float) -> str:
    """How long something took: `120 ms`, `3.4 s`, and from ten seconds on as `duration`."""
    if seconds < 0.9995:
        return f"{1000 * max(seconds, 0):.0f}{NARROW_SPACE}ms"
    return f"{seconds:.1f}{NARROW_SPACE}s" if seconds < 9.95 else duration(seconds)


def number(value: float) -> str:
    """Three digits, and whole from a thousand on."""
    return thousands(round(value)) if abs(value) >= 999.5 else f"{value:.3g}"


def age(moment: datetime | None, now: datetime) -> str:
    """How long ago, in one unit."""
    if moment is None:
        return "–"
    seconds = max(int((now - moment).total_seconds()), 0)
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{NARROW_SPACE}{unit}"
    return f"{seconds}{NARROW_SPACE}s"


def moment_text(moment: datetime | None) -> str:
    return "–" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def weekday(moment: datetime, timezone: str) -> str:
    """The day, and the time of a place whose clocks differ: `Thursday`, `Thursday 09:00 in Europe/Berlin`."""
    there = moment.astimezone(zone(timezone))
    return f"{there:%A}" if there.utcoffset() == timedelta(0) else f"{there:%A %H:%M} in {timezone}"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f}{NARROW_SPACE}{unit}"
        count /= 1024
    return f"{count:.1f}{NARROW_SPACE}GiB"


def document(text: str, json: bool = True) -> str:
    """A body as it is shown: JSON indented, its numbers untouched; cut at `LONGEST_TEXT` characters."""
    if json and len(text) <= LONGEST_TEXT:
        with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            text = msgspec.json.format(text, indent=2)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def plain(text: str) -> str:
    """Moments and intervals of PostgreSQL without fractions of a second."""
    return re.sub(r"(:\d\d)\.\d+", r"\1", text).replace("+00", " UTC")


FILTERS = {
    "thousands": thousands,
    "duration": duration,
    "age": age,
    "elapsed": elapsed,
    "number": number,
    "moment": moment_text,
    "weekday": weekday,
    "size": size,
    "document": document,
    "plain": plain,
}
