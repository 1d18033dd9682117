"""Cron expressions: read, put into words, and what they mean where clocks change. Pure.

cronsim reads them and walks the calendar, in times without a zone. What those times mean in a zone is decided here,
by one rule for all zones and for five and six fields:

* A fixed time of day (neither minute nor hour begins with `*`) happens once a day. Jumped over, it happens at the
  moment of the jump; shown twice, it happens the first time.
* Anything else follows the clock as it runs: what is jumped over does not happen, what is shown twice happens twice.

cronsim has the same rule for five fields, but not for six, and in zones that move by half an hour it loses times.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.zones import instant, next_change, wall

MAX_TEXT = 300
MAX_PARTS = 8
"""Expressions joined by `|`: the schedule fires whenever one of them does."""

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELD_NAMES = ("second", "minute", "hour", "day of month", "month", "day of week")
# Checked before cronsim sees it: no number is longer than four digits, so no range can be large.
_FIELD = re.compile(r"(?!.*[0-9]{5})[0-9A-Z*,/#?-]{1,80}")
_SHAPE = "a cron expression has 5 fields (minute hour day month weekday), or 6 with seconds first"
# cronsim says 21th, 22th, 23th and 31th.
_ORDINAL = re.compile(r"\b([2-5])([123])th\b")
_SECOND = timedelta(seconds=1)
_ANY_DAY = datetime(2024, 1, 1)


@dataclass(frozen=True, slots=True)
class Cron:
    """One or several expressions in their canonical form."""

    text: str

    def next_after(self, moment: datetime, where: ZoneInfo) -> datetime | None:
        """The first fire after a moment, in UTC; None when there is none for fifty years."""
        found = [_next(part, moment, where) for part in self.text.split(" | ")]
        return min((fire for fire in found if fire is not None), default=None)

    def sentence(self) -> str:
        parts = [_ORDINAL.sub(_ordinal, _sim(part).explain()) for part in self.text.split(" | ")]
        return "; and ".join([parts[0], *(part[:1].lower() + part[1:] for part in parts[1:])])


def _ordinal(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{('st', 'nd', 'rd')[int(found[2]) - 1]}"


def parse(text: str) -> Cron:
    if len(text) > MAX_TEXT:
        raise ScheduleTextError(f"a cron expression has at most {MAX_TEXT} characters", rest=text[:40] + "…")
    parts = text.split("|")
    if len(parts) > MAX_PARTS:
        raise ScheduleTextError(f"at most {MAX_PARTS} cron expressions can be joined by |")
    return Cron(" | ".join(_canonical(part) for part in parts))


def _canonical(text: str) -> str:
    text = " ".join(text.upper().split())
    if text.startswith("@"):
        known = _ALIASES.get(text.lower())
        if known is None:
            raise ScheduleTextError("unknown alias", rest=text.lower(), suggestion="@daily")
        return known
    fields = text.split(" ") if text else []
    if len(fields) not in (5, 6):
        raise ScheduleTextError(f"{_SHAPE}; this has {len(fields)}", rest=text, suggestion=_completed(fields))
    day, weekday = len(fields) - 3, len(fields) - 1
    for place in (day, weekday):
        fields[place] = "*" if fields[place] == "?" else fields[place]
    _check(fields)
    return " ".join(fields)


def _completed(fields: list[str]) -> str | None:
    """`0 9 *` was probably meant to go on with stars."""
    if not 2 <= len(fields) < 5:
        return None
    try:
        return _canonical(" ".join(fields + ["*"] * (5 - len(fields))))
    except ScheduleTextError:
        return None


def _check(fields: list[str]) -> None:
    """Name the first field that cannot be read."""
    names = _FIELD_NAMES[-len(fields) :]
    for place, (field, name) in enumerate(zip(fields, names, strict=True)):
        alone = ["*"] * len(fields)
        alone[place] = field
        if _FIELD.fullmatch(field) is None or not _readable(" ".join(alone)):
            raise ScheduleTextError(
                f"{name} cannot be '{field}'"[:120], understood=" ".join(fields[:place]), rest=field[:80]
            )
    if not _readable(" ".join(fields)):
        raise ScheduleTextError("no date matches this expression", rest=" ".join(fields))


def _readable(text: str) -> bool:
    try:
        _sim(text)
    # An assertion is how cronsim meets steps over what is no range.
    except (CronSimError, AssertionError, ValueError):
        return False
    return True


@lru_cache(4096)
def _sim(text: str) -> CronSim:
    """Read once: reading takes longer than finding the next fire."""
    return CronSim(text, _ANY_DAY)


@lru_cache(4096)
def _is_fixed(text: str) -> bool:
    minute, hour = text.split(" ")[-5:-3]
    return not minute.startswith("*") and not hour.startswith("*")


def _next(text: str, moment: datetime, where: ZoneInfo) -> datetime | None:
    moment = moment.astimezone(UTC).replace(microsecond=0)
    try:
        if _is_fixed(text):
            return _next_fixed(text, moment, where)
        return _next_running(text, moment, where)
    except (StopIteration, OverflowError):
        return None


def _times(text: str, after: datetime) -> CronSim:
    """The times on the wall that match, after one."""
    sim = copy.copy(_sim(text))
    sim.dt = after
    return sim


def _next_fixed(text: str, moment: datetime, where: ZoneInfo) -> datetime:
    times = _times(text, wall(moment, where))
    while True:
        # The first showing may lie behind us when the wall shows its times for the second time.
        fire = instant(next(times), where)
        if fire > moment:
            return fire


def _next_running(text: str, moment: datetime, where: ZoneInfo) -> datetime:
    shown = wall(moment, where)
    while True:
        # As long as the clock is not changed, instants and times on the wall are equally far apart.
        fire = moment + (next(_times(text, shown)) - wall(moment, where))
        change = next_change(moment, fire, where)
        if change is None:
            return fire
        moment = change
        shown = wall(change, where) - _SECOND
