"""What a node remembers of a queue between two receives, to spare PostgreSQL a walk over the dead.

A claimed message leaves dead index entries at the front of its queue until vacuum gets to them, and a long
transaction elsewhere can hold vacuum off for hours. Remembering where the ready messages began, and up to when
hidden ones were brought back, lets the next claim start behind them.

A hint decides nothing: a claim that finds nothing with it looks everywhere, and it lives only for a moment, so
that a message which someone else put in front is passed over no longer than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.model import TenantId

Key = tuple[TenantId, str]

LIFETIME = timedelta(milliseconds=200)
SHARE = 20
"""A look at the whole queue may take one part in so many of the time: the longer it took, the longer a hint lives."""
KEPT = 10_000
IDS = 2**52
"""A place is so many for each priority, and the id."""


@dataclass(slots=True)
class Hint:
    looked_at: datetime
    """The last time the whole queue was looked at."""
    place: int
    """Where its ready messages began at the last claim."""
    lifetime: timedelta


class Hints:
    def __init__(self) -> None:
        self._hints: dict[Key, Hint] = {}

    def find(self, key: Key, now: datetime) -> Hint | None:
        hint = self._hints.get(key)
        if hint is not None and now - hint.lifetime < hint.looked_at <= now:
            return hint
        return None

    def claimed(self, key: Key, used: Hint | None, place: int, now: datetime, took: timedelta) -> None:
        """A claim, with or without a hint, took so long and found its first message at `place`."""
        if used is not None:
            used.place = place
            return
        if len(self._hints) >= KEPT:
            self._hints.clear()
        self._hints[key] = Hint(now, place, max(LIFETIME, took * SHARE))

    def passed(self, key: Key, message_id: int) -> None:
        """A message of a FIFO queue is done with: the next of its group may stand anywhere behind it."""
        hint = self._hints.get(key)
        if hint is not None:
            hint.place = min(hint.place, hint.place - hint.place % IDS + message_id)

    def forget(self, key: Key) -> None:
        self._hints.pop(key, None)
