"""The grammar of `when`: "every weekday at 9am", "first monday of the month at 08:30 Europe/Berlin". Pure.

A phrase is a row of clauses in any order. It is understood to its last word or refused: a word that is skipped is a
schedule that does something else. The clauses are in `phrase_times` and `phrase_days`; what they say is gathered in a
draft, of which `phrase_cron` makes a timetable.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.phrases.days import DayClauses
from penstock.engine.schedules.phrases.times import TimeClauses
from penstock.engine.schedules.phrases.words import EXAMPLES, MAX_TEXT, MAX_TOKENS, VOCABULARY, Draft, cut
from penstock.engine.schedules.zones import close_zone, known_zone


def read(phrase: str) -> Draft:
    """What a phrase says; `ScheduleTextError` with a suggestion when it says something else."""
    if len(phrase) > MAX_TEXT:
        raise ScheduleTextError(f"a phrase has at most {MAX_TEXT} characters", rest=phrase[:40] + "…")
    try:
        return _Reader(phrase).read()
    except ScheduleTextError as error:
        error.suggestion = error.suggestion or suggestion(phrase)
        raise


def suggestion(phrase: str) -> str:
    """The phrase with its misspelt words put right, if that helps; else the known phrase most like it."""
    candidate = " ".join(_repaired(token.text) for token in cut(phrase)[:MAX_TOKENS])
    candidate = candidate.replace(" am", "am").replace(" pm", "pm").replace(" ,", ",")
    if candidate.lower() != phrase.lower():
        try:
            _Reader(candidate).read()
            return candidate
        except ScheduleTextError:
            pass
    return next(iter(difflib.get_close_matches(phrase.lower(), EXAMPLES, n=1, cutoff=0.4)), EXAMPLES[0])


def _repaired(word: str) -> str:
    if "/" in word:
        return known_zone(word) or close_zone(word) or word
    if word in VOCABULARY or not word.isalpha():
        return word
    return next(iter(difflib.get_close_matches(word, VOCABULARY, n=1, cutoff=0.7)), word)


class _Reader(TimeClauses, DayClauses):
    def read(self) -> Draft:
        while self.at < len(self.tokens):
            if not any(self.attempt(clause) for clause in self._clauses()):
                self.fail()
        if self.draft == Draft(zone=self.draft.zone):
            raise ScheduleTextError("no time was found in the phrase", rest=self.phrase.strip())
        return self.draft

    def _clauses(self) -> list[Callable[[], bool]]:
        return [
            self._zone,
            self._past_the_hour,
            self._clock,
            self._window,
            self._delay,
            self._date,
            self._ordinal_weekday,
            self._day_of_month,
            self._weekday,
            self._step,
            self._month,
            self._relative_day,
        ]
