"""The clauses of a phrase that speak of times: of day, between times, after a while, every so often. Pure."""

from __future__ import annotations

from datetime import timedelta

from penstock.engine.schedules.phrases.cursor import Cursor
from penstock.engine.schedules.phrases.words import ADVERBS, LENGTHS, TIMES, UNITS, is_number
from penstock.engine.schedules.zones import known_zone

Time = tuple[int, int, int]


class TimeClauses(Cursor):
    def _zone(self) -> bool:
        self.accept("in")
        bracket = self.accept("(")
        name = known_zone(self.peek()) if len(self.peek()) > 1 else None
        if name is None or (bracket and self.peek(1) != ")"):
            return False
        self.take()
        if bracket:
            self.accept(")")
        self.accept("time")
        if self.draft.zone not in (None, name):
            self.fail("two time zones")
        self.draft.zone = name
        return True

    def _clock(self) -> bool:
        """`at 9am`, `at 9:00, noon and 17:30`, `at :15 and :45`; `9am` without `at` when it can be nothing else."""
        if self.accept("at", "@"):
            return self.several(self._minute) or self.several(lambda: self._one_time(bare=True))
        return self.several(lambda: self._one_time(bare=False))

    def _one_time(self, *, bare: bool) -> bool:
        time = self._time(bare=bare)
        if time is None:
            return False
        self.draft.times.append(time)
        return True

    def _time(self, *, bare: bool = True) -> Time | None:
        """A time of day; a number alone is one only where nothing else can stand."""
        text = self.peek()
        if text in TIMES:
            self.take()
            return TIMES[text]
        parts = text.split(":")
        if not all(is_number(part) and len(part) <= 2 for part in parts):
            return None
        self.take()
        hour, minute, second = [*map(int, parts), 0, 0][:3]
        half = self.peek().replace(".", "")
        if half in ("am", "pm"):
            self.take()
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + (12 if half == "pm" else 0)
        elif not self.accept("o'clock", "o’clock") and len(parts) == 1 and not bare:
            return None
        return (hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None

    def _minute(self) -> bool:
        """`:15`, or `minute 15`."""
        named = self.accept("minute", "minutes")
        text = self.peek().removeprefix(":")
        if not (named or self.peek().startswith(":")) or not is_number(text) or int(text) > 59:
            return False
        self.take()
        self.draft.minutes.append(int(text))
        return True

    def _past_the_hour(self) -> bool:
        """`15 minutes past the hour`, `half past every hour`."""
        self.accept("at")
        minutes = {"half": 30, "quarter": 15}.get(self.peek())
        if minutes is not None:
            self.take()
        else:
            minutes = self.number()
            self.accept("minute", "minutes", "min")
        if minutes is None or minutes > 59 or not self.accept("past", "after"):
            return False
        self.accept("the", "every", "each")
        if not self.accept("hour"):
            return False
        self.draft.minutes.append(minutes)
        return True

    def _window(self) -> bool:
        between = self.accept("between")
        if not between and not self.accept("from"):
            return False
        first = self._time()
        if first is None or not self.accept(*(("and",) if between else ("to", "until", "till", "through", "-", "–"))):
            return False
        last = self._time()
        if last is None:
            return False
        if self.draft.window is not None:
            self.fail("two windows")
        self.draft.window = (first, last)
        return True

    def _delay(self) -> bool:
        """`in 10 minutes`, `in 1h30m`."""
        if not self.accept("in"):
            return False
        total = timedelta()
        while (number := self.number()) is not None:
            unit = UNITS.get(self.peek(), "")
            if unit not in LENGTHS or number > 1_000_000:
                return False
            self.take()
            total += number * LENGTHS[unit]
            self.accept("and")
        if not total or self.draft.delay is not None:
            return False
        self.draft.delay = total
        return True

    def _step(self) -> bool:
        """`every 15 minutes`, `each hour`, `daily`."""
        if self.peek() in ADVERBS:
            return self._set_step(1, ADVERBS[self.take()])
        if not self.accept("every", "each", "once"):
            return False
        if self.peek() == "other":
            self.fail("'every other' cannot be said in words: use every '2d' or '14d' with start_at")
        self.accept("a", "an", "every")
        number = self.number()
        unit = UNITS.get(self.peek())
        if unit is None or number == 0:
            return False
        self.take()
        return self._set_step(number or 1, unit)

    def _set_step(self, number: int, unit: str) -> bool:
        if self.draft.step is not None:
            self.at -= 1
            self.fail("two rhythms")
        self.draft.step = (number, unit)
        return True
