"""When a schedule fires: the four ways to say it, the one form it is kept in, its sentence and its next fires. Pure.

`cron`, `every`, `when` and `fire_at` are read into a `Timetable`: a cron expression in a time zone, a rhythm counted
from an anchor, or one moment. Whatever is wrong is `ScheduleTextError`, which says what was understood.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock import limits
from penstock.engine.schedules import cron, durations
from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.phrases import reader as phrases
from penstock.engine.schedules.phrases.cron import cron_of, moment_of, rhythm_of
from penstock.engine.schedules.phrases.words import Draft
from penstock.engine.schedules.zones import instant, zone, zone_name
from penstock.model.schedules import TimetableKind as Kind

ANCHOR = datetime(2024, 1, 1, tzinfo=UTC)
"""A Monday: rhythms that divide the day or the week begin where those begin, in UTC."""
SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=3660)

_MAX_MOMENT_TEXT = 40
_OUT_OF_RANGE = f"a moment must be between {limits.MOMENT[0].date()} and {limits.MOMENT[1].date()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The canonical form. `expression` is a cron expression, a duration such as `1h30m`, or a moment in ISO 8601."""

    kind: Kind
    expression: str
    timezone: str = "UTC"
    anchor: datetime = ANCHOR
    """Rhythms only: the moment of one fire; all others are a multiple of the period away."""

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire after a moment, in UTC; None when there is none."""
        match self.kind:
            case Kind.CRON:
                return _keepable(cron.Cron(self.expression).next_after(moment, zone(self.timezone)))
            case Kind.EVERY:
                period = durations.parse(self.expression)
                # Nothing fires before the anchor, except where the anchor is nobody's choice.
                if self.anchor != ANCHOR and moment < self.anchor:
                    return self.anchor
                return _keepable(self.anchor + ((moment - self.anchor) // period + 1) * period)
            case Kind.ONCE:
                at = self.moment
                return at if at > moment else None

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.expression).astimezone(UTC)

    def fires(self, after: datetime, count: int) -> list[datetime]:
        """The next fires, at most `count`."""
        found: list[datetime] = []
        moment: datetime | None = after
        while len(found) < count and (moment := self.next_after(moment)) is not None:  # type: ignore[arg-type]
            found.append(moment)
        return found

    def sentence(self) -> str:
        """What it means, for people."""
        match self.kind:
            case Kind.CRON:
                return f"{cron.Cron(self.expression).sentence()} ({self.timezone})"
            case Kind.EVERY:
                said = f"Every {durations.words(durations.parse(self.expression))}"
                return said if self.anchor == ANCHOR else f"{said}, counted from {_shown(self.anchor, self.timezone)}"
            case Kind.ONCE:
                return f"Once, on {_shown(self.moment, self.timezone)}"


def _keepable(fire: datetime | None) -> datetime | None:
    """A fire after the last moment that can be kept never happens."""
    return None if fire is None or fire > limits.MOMENT[1] else fire


def _shown(moment: datetime, timezone: str) -> str:
    there = moment.astimezone(zone(timezone))
    seconds = ":%S" if there.second or there.microsecond else ""
    return there.strftime(f"%A %d %B %Y at %H:%M{seconds}") + f" ({timezone})"


def from_cron(text: str, timezone: str | None = None) -> Timetable:
    read = cron.parse(text)
    return Timetable(kind=Kind.CRON, expression=read.text, timezone=_zone(timezone))


def from_every(text: str, timezone: str | None = None, start_at: datetime | None = None) -> Timetable:
    period = durations.parse(text.strip().lower().removeprefix("every "))
    return _every(period, _zone(timezone), start_at)


def _every(period: timedelta, timezone: str, start_at: datetime | None = None) -> Timetable:
    if not SHORTEST <= period <= LONGEST:
        raise ScheduleTextError(
            f"an interval must be at least {durations.words(SHORTEST)} and at most {durations.words(LONGEST)}",
            rest=durations.short(period),
        )
    return Timetable(
        kind=Kind.EVERY,
        expression=durations.short(period),
        timezone=timezone,
        anchor=ANCHOR if start_at is None else _check(start_at).astimezone(UTC),
    )


def from_moment(text: str, timezone: str | None = None) -> Timetable:
    """A moment with an offset, or a time on the wall of the time zone."""
    name = _zone(timezone)
    try:
        if len(text) > _MAX_MOMENT_TEXT:
            raise ValueError
        moment = datetime.fromisoformat(text.strip())
        moment = instant(moment, zone(name)) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ScheduleTextError(_OUT_OF_RANGE, rest=text) from None
    except ValueError:
        raise ScheduleTextError(
            "not a time in ISO 8601", rest=text[:_MAX_MOMENT_TEXT], suggestion="2030-12-24T18:00:00Z"
        ) from None
    return _once(moment, name)


def _check(moment: datetime) -> datetime:
    earliest, latest = limits.MOMENT
    if not earliest <= moment <= latest:
        raise ScheduleTextError(_OUT_OF_RANGE, rest=moment.isoformat())
    return moment


def _once(moment: datetime, timezone: str) -> Timetable:
    _check(moment)
    return Timetable(kind=Kind.ONCE, expression=moment.isoformat().replace("+00:00", "Z"), timezone=timezone)


def from_phrase(text: str, now: datetime, timezone: str | None = None) -> Timetable:
    given = None if timezone is None else _zone(timezone)
    draft = _read_phrase(text)
    if given is not None and draft.zone not in (None, given):
        raise ScheduleTextError(f"the phrase says {draft.zone}, and timezone says {given}", rest=draft.zone or "")
    name = draft.zone or given or "UTC"
    try:
        moment = moment_of(draft, now, name)
        if moment is not None:
            return _once(moment, name)
        rhythm = rhythm_of(draft)
        return _every(rhythm, name) if rhythm is not None else from_cron(cron_of(draft), name)
    except OverflowError:
        raise ScheduleTextError(_OUT_OF_RANGE, rest=text.strip()) from None
    except ScheduleTextError as error:
        error.rest = error.rest or text.strip()
        error.suggestion = error.suggestion or phrases.suggestion(text)
        raise


def _read_phrase(text: str) -> Draft:
    try:
        return phrases.read(text)
    except ScheduleTextError as error:
        try:
            cron.parse(text)
        except ScheduleTextError:
            raise error from None
        raise ScheduleTextError("a cron expression is not a phrase: give it as cron", rest=text.strip()) from None


def _zone(timezone: str | None) -> str:
    return "UTC" if timezone is None else zone_name(timezone)
