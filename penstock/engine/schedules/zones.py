"""Wall clocks and instants: what a local time means where clocks are put forward and back. Pure."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from penstock.engine.schedules.errors import ScheduleTextError

_NAME = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
_WEEK = timedelta(days=7)
_SECOND = timedelta(seconds=1)


@lru_cache(1)
def _names() -> dict[str, str]:
    """Zone names as they are spelled, by their lower case."""
    known = {name.lower(): name for name in available_timezones() if name not in ("localtime", "Factory", "posixrules")}
    return known | {"utc": "UTC", "z": "UTC", "gmt": "UTC"}


def known_zone(text: str) -> str | None:
    """The proper name of a time zone, whatever the case it was written in."""
    return _names().get(text.lower()) if _NAME.fullmatch(text) else None


def close_zone(text: str) -> str | None:
    """The name that a misspelt one comes closest to."""
    close = difflib.get_close_matches(text.lower()[:64], _names(), n=1, cutoff=0.6)
    return _names()[close[0]] if close else None


def zone_name(text: str) -> str:
    found = known_zone(text)
    if found is None:
        raise ScheduleTextError("not a time zone of the IANA database", rest=text[:64], suggestion=close_zone(text))
    return found


@lru_cache(1024)
def zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def wall(moment: datetime, where: ZoneInfo) -> datetime:
    """What the clock on the wall shows, without a zone."""
    return moment.astimezone(where).replace(tzinfo=None, fold=0)


def instant(shown: datetime, where: ZoneInfo) -> datetime:
    """When the wall first shows this time; a time that the clock jumps over means the moment of the jump."""
    there = shown.replace(tzinfo=where, fold=0)
    moment = there.astimezone(UTC)
    if wall(moment, where) == shown:
        return moment
    # Jumped over: by the rule before the jump the moment lies after it, by the rule after it before it.
    jump = next_change(shown.replace(tzinfo=where, fold=1).astimezone(UTC), moment, where)
    assert jump is not None
    return jump


def next_change(after: datetime, until: datetime, where: ZoneInfo) -> datetime | None:
    """The first moment in (after, until] at which the offset from UTC differs from that at `after`."""
    offset = after.astimezone(where).utcoffset()
    low = after
    while low < until:
        # No zone changes its clocks and changes them back within a week.
        high = min(low + _WEEK, until)
        if high.astimezone(where).utcoffset() != offset:
            return _bisect(low, high, where)
        low = high
    return None


def _bisect(low: datetime, high: datetime, where: ZoneInfo) -> datetime:
    """Changes happen on whole seconds."""
    offset = low.astimezone(where).utcoffset()
    low = low.replace(microsecond=0)
    while high - low > _SECOND:
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if middle <= low:
            break
        if middle.astimezone(where).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high if high.microsecond == 0 else low + _SECOND
