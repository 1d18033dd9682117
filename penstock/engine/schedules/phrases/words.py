"""The words of `when` phrases, and the cutting of a phrase into them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta

MAX_TEXT = 200
MAX_TOKENS = 60

WEEKDAYS = {
    name: number
    for number, names in enumerate(
        [
            ("sunday", "sun"),
            ("monday", "mon"),
            ("tuesday", "tue", "tues"),
            ("wednesday", "wed"),
            ("thursday", "thu", "thur", "thurs"),
            ("friday", "fri"),
            ("saturday", "sat"),
        ]
    )
    for short in names
    for name in (short, f"{short}s")
}
GROUPS = {
    **dict.fromkeys(("weekday", "weekdays", "workday", "workdays"), frozenset({1, 2, 3, 4, 5})),
    **dict.fromkeys(("weekend", "weekends"), frozenset({6, 0})),
}
MONTHS = {
    name: number
    for number, names in enumerate(
        [
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sep", "sept"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ],
        1,
    )
    for name in names
}
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1}
NUMBERS = {
    word: number
    for number, word in enumerate(
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"], 1
    )
} | {"fifteen": 15, "twenty": 20, "thirty": 30}
UNITS = {
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), "second"),
    **dict.fromkeys(("minute", "minutes", "min", "mins", "m"), "minute"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), "hour"),
    **dict.fromkeys(("day", "days", "d"), "day"),
    **dict.fromkeys(("week", "weeks", "w"), "week"),
    **dict.fromkeys(("month", "months"), "month"),
    **dict.fromkeys(("quarter", "quarters"), "quarter"),
    **dict.fromkeys(("year", "years"), "year"),
}
LENGTHS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
ADVERBS = {
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "annually": "year",
}
TIMES = {"noon": (12, 0, 0), "midday": (12, 0, 0), "midnight": (0, 0, 0)}

VOCABULARY = sorted(
    {word for word in (*WEEKDAYS, *GROUPS, *MONTHS, *ORDINALS, *NUMBERS, *UNITS, *ADVERBS, *TIMES) if len(word) > 2}
    | {"every", "each", "at", "on", "and", "between", "from", "until", "through", "past", "tomorrow", "today", "next"}
)

EXAMPLES = [
    "every weekday at 9am",
    "every day at noon",
    "every 15 minutes",
    "every hour at :30",
    "every monday and thursday at 18:00",
    "first monday of the month at 08:30 Europe/Berlin",
    "last day of the month at 23:00",
    "every 10 minutes between 9am and 5pm on weekdays",
    "on the 1st and 15th of the month at 6:00",
    "every year on december 24 at 6pm",
    "every 3 months on the 1st at 07:00",
    "in 10 minutes",
    "tomorrow at 9am",
]

_TOKEN = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?=[t\s,]|$)"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?"
    r"|:[0-9]{2}"
    r"|[0-9]{1,2}(?:st|nd|rd|th)\b"
    r"|[0-9]{1,9}"
    r"|[a-z]+(?:/[a-z0-9_+-]+)+"
    r"|o['’]clock"
    r"|[ap]\.m\."
    r"|[a-z]+"
    r"|\S"
)


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    start: int
    end: int


def is_number(text: str) -> bool:
    """Digits from 0 to 9 only: `str.isdigit` is also true for texts that `int` cannot read."""
    return text.isascii() and text.isdigit()


def cut(phrase: str) -> list[Token]:
    return [Token(found[0], found.start(), found.end()) for found in _TOKEN.finditer(phrase.lower())]


@dataclass(slots=True)
class Draft:
    """What the clauses of a phrase have said so far."""

    step: tuple[int, str] | None = None
    weekdays: set[int] = field(default_factory=set)
    ordinal_weekdays: list[tuple[int, int]] = field(default_factory=list)
    """Weekday and its number in the month; -1 is the last."""
    days: list[str] = field(default_factory=list)
    """Days of the month as cron has them: `15`, `L`, `LW`."""
    months: set[int] = field(default_factory=set)
    times: list[tuple[int, int, int]] = field(default_factory=list)
    minutes: list[int] = field(default_factory=list)
    window: tuple[tuple[int, int, int], tuple[int, int, int]] | None = None
    zone: str | None = None
    date: tuple[int, int, int] | None = None
    delay: timedelta | None = None
    days_ahead: int | None = None
    next_weekday: int | None = None

    def copy(self) -> Draft:
        """Independent of this one, for a clause that may turn out to be another."""
        return replace(
            self,
            weekdays=set(self.weekdays),
            ordinal_weekdays=list(self.ordinal_weekdays),
            days=list(self.days),
            months=set(self.months),
            times=list(self.times),
            minutes=list(self.minutes),
        )
