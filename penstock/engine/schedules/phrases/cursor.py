"""The place in a phrase that is being read, and the draft of what it has said so far. Pure."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.phrases.words import MAX_TOKENS, NUMBERS, Draft, cut, is_number


class Cursor:
    def __init__(self, phrase: str) -> None:
        self.phrase = phrase
        self.tokens = cut(phrase)
        self.at = 0
        self.furthest = 0
        self.draft = Draft()
        if len(self.tokens) > MAX_TOKENS:
            raise ScheduleTextError(f"a phrase has at most {MAX_TOKENS} words", rest=phrase[:40] + "…")

    def fail(self, why: str = "the phrase cannot be read") -> None:
        place = max(self.at, min(self.furthest, len(self.tokens) - 1))
        start = self.tokens[place].start if place < len(self.tokens) else len(self.phrase)
        raise ScheduleTextError(why, understood=self.phrase[:start].strip(), rest=self.phrase[start:].strip())

    def attempt(self, clause: Callable[[], bool]) -> bool:
        start, draft = self.at, self.draft.copy()
        if clause():
            return True
        self.at, self.draft = start, draft
        return False

    def peek(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place].text if place < len(self.tokens) else ""

    def take(self) -> str:
        text = self.peek()
        self.at += 1
        self.furthest = max(self.furthest, self.at)
        return text

    def accept(self, *words: str) -> bool:
        if self.peek() not in words:
            return False
        self.take()
        return True

    def several(self, item: Callable[[], bool]) -> bool:
        """One item or several, with commas and `and` between them."""
        if not self.attempt(item):
            return False
        while True:
            start = self.at
            separated = self.accept(",")
            separated = self.accept("and", "or", "&") or separated
            self.accept("on", "every", "at", "the")
            if not separated or not self.attempt(item):
                self.at = start
                return True

    def number(self) -> int | None:
        text = self.peek()
        if is_number(text) and len(text) <= 9:
            self.take()
            return int(text)
        if text in NUMBERS:
            self.take()
            return NUMBERS[text]
        return None
