"""The clauses of a phrase that speak of days: dates, weekdays, days of the month, months. Pure."""

from __future__ import annotations

from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.phrases.cursor import Cursor
from penstock.engine.schedules.phrases.words import GROUPS, MONTHS, ORDINALS, WEEKDAYS, is_number


class DayClauses(Cursor):
    def _date(self) -> bool:
        """`2026-12-24`, `december 24`, `24 december 2026`, `the 24th of december`."""
        self.accept("on", "every", "each")
        self.accept("the")
        parts = self.peek().split("-")
        if len(parts) == 3 and all(parts):
            self.take()
            self.accept("t")
            year, month, day = map(int, parts)
            return self._set_date(year, month, day)
        found = self._month_and_day()
        if found is None:
            return False
        self.accept(",")
        if len(self.peek()) == 4 and is_number(self.peek()):
            return self._set_date(int(self.take()), *found)
        self.draft.months.add(found[0])
        self.draft.days.append(str(found[1]))
        return True

    def _set_date(self, year: int, month: int, day: int) -> bool:
        if self.draft.date is not None:
            self.fail("two dates")
        self.draft.date = (year, month, day)
        return True

    def _month_and_day(self) -> tuple[int, int] | None:
        if self.peek() in MONTHS:
            month = MONTHS[self.take()]
            self.accept("the")
            day = self._day_number()
            # `january 9:00` and `january 9 am` speak of the time.
            return (month, day) if day is not None and self.peek() not in ("am", "pm", "a.m.", "p.m.") else None
        day = self._day_number()
        if day is None:
            return None
        self.accept("of")
        return (MONTHS[self.take()], day) if self.peek() in MONTHS else None

    def _day_number(self) -> int | None:
        digits = self.peek().rstrip("stndrh")
        if not is_number(digits) or not 1 <= int(digits) <= 31:
            return None
        self.take()
        return int(digits)

    def _day_of_month(self) -> bool:
        """`on the 1st and 15th of the month`, `on day 15`, `the last day of the month`, `the last weekday of march`."""
        on = self.accept("on", "every", "each")
        on = self.accept("the") or on
        if self.accept("last"):
            if self.accept("day"):
                self.draft.days.append("L")
            elif self.accept("weekday", "workday") or (self.accept("business") and self.accept("day")):
                self.draft.days.append("LW")
            else:
                return False
        elif self.accept("day", "days"):
            if not self.several(self._plain_day):
                return False
        elif not self.several(self._numbered_day):
            return False
        else:
            self.accept("day", "days")
        self._of_month()
        return True

    def _plain_day(self) -> bool:
        day = self._day_number()
        if day is not None:
            self.draft.days.append(str(day))
        return day is not None

    def _numbered_day(self) -> bool:
        """`15th`; or `first` where it numbers a day and no weekday."""
        if is_number(self.peek()[:1]) and self.peek()[-1:].isalpha():
            return self.peek(1) not in (*WEEKDAYS, *GROUPS) and self._plain_day()
        number = ORDINALS.get(self.peek(), 0)
        if number < 1 or self.peek(1) not in ("day", "of", "and", ","):
            return False
        self.take()
        self.draft.days.append(str(number))
        return True

    def _of_month(self) -> bool:
        start = self.at
        if self.accept("of", "in"):
            self.accept("the", "each", "every")
            if self.accept("month") or self.several(self._one_month):
                return True
        self.at = start
        return False

    def _ordinal_weekday(self) -> bool:
        """`the first and third monday of the month`, `last friday of march`."""
        self.accept("on", "every", "each", "the")
        self.accept("the")
        numbers: list[int] = []

        def ordinal() -> bool:
            text = self.peek()
            digits = text.rstrip("stndrh")
            number = ORDINALS.get(text, int(digits) if is_number(digits) and digits != text else 0)
            if number == 0 or number > 5:
                return False
            numbers.append(number)
            self.take()
            return True

        if not self.several(ordinal) or self.peek() not in WEEKDAYS:
            return False
        weekday = WEEKDAYS[self.take()]
        # Without the month, `every second monday` could mean every other one.
        if not self._of_month():
            self.furthest = self.at
            raise ScheduleTextError(
                "a numbered weekday needs 'of the month'",
                understood=self.phrase[: self.tokens[self.at - 1].end].strip(),
                suggestion=f"{self.phrase[: self.tokens[self.at - 1].end].strip()} of the month",
            )
        self.draft.ordinal_weekdays += [(weekday, number) for number in numbers]
        return True

    def _weekday(self) -> bool:
        """`every weekday`, `on mondays and thursdays`, `monday to friday`."""
        self.accept("on", "every", "each")
        self.accept("the")
        return self.several(self._one_weekday)

    def _one_weekday(self) -> bool:
        if self.accept("business"):
            return self.accept("day", "days") and self._add_weekdays(GROUPS["weekday"])
        if self.peek() in GROUPS:
            return self._add_weekdays(GROUPS[self.take()])
        if self.peek() not in WEEKDAYS:
            return False
        first = WEEKDAYS[self.take()]
        if self.peek() in ("to", "through", "thru", "until", "-", "–") and self.peek(1) in WEEKDAYS:
            self.take()
            last = WEEKDAYS[self.take()]
            return self._add_weekdays(frozenset((first + n) % 7 for n in range((last - first) % 7 + 1)))
        return self._add_weekdays(frozenset({first}))

    def _add_weekdays(self, found: frozenset[int]) -> bool:
        self.draft.weekdays |= found
        return True

    def _month(self) -> bool:
        """`in january and july`, `every march`, `january to june`."""
        self.accept("in", "of", "every", "each", "during")
        return self.several(self._one_month)

    def _one_month(self) -> bool:
        if self.peek() not in MONTHS:
            return False
        first = last = MONTHS[self.take()]
        if self.peek() in ("to", "through", "thru", "until", "-", "–") and self.peek(1) in MONTHS:
            self.take()
            last = MONTHS[self.take()]
        self.draft.months |= {(first - 1 + n) % 12 + 1 for n in range((last - first) % 12 + 1)}
        return True

    def _relative_day(self) -> bool:
        if self.peek() in ("today", "tomorrow"):
            self.draft.days_ahead = 0 if self.take() == "today" else 1
            return True
        if self.accept("next") and self.peek() in WEEKDAYS:
            self.draft.next_weekday = WEEKDAYS[self.take()]
            return True
        return False
