"""What a node remembers of a queue between two receives, to spare PostgreSQL a walk over the dead.

A claimed message leaves dead index entries at the front of its queue until vacuum gets to them, and a long
transaction elsewhere can hold vacuum off for hours. Remembering where the ready messages began, and up to when
hidden ones were brought back, lets the next claim start behind them.

A hint decides nothing: a claim that finds nothing with it looks everywhere, and it lives only for a moment, so
that a message which someone else put in front is passed over no longer than that.

Looking everywhere takes long when many dead entries lie in front. After a long look that found nothing, there is a
floor for a moment: nobody looks below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.model import TenantId

Key = tuple[TenantId, str]

LIFETIME = timedelta(milliseconds=200)
SHARE = 20
"""A look at the whole queue may take one part in so many of the time: the longer it took, the longer a hint lives."""
LONGEST = timedelta(seconds=1)
"""What somebody else puts below the floor is found within this time."""
SETTLED = timedelta(milliseconds=20)
"""A send gets its id this long before it commits, at most; one that takes longer may be passed over for a moment."""
KEPT = 10_000
IDS = 2**52
"""A place is so many for each priority, and the id."""


@dataclass(slots=True)
class Hint:
    looked_at: datetime
    """The last time the whole queue was looked at."""
    place: int
    """Where its ready messages began at the last claim."""
    priority: int
    """The priority of the message there."""
    lifetime: timedelta


@dataclass(slots=True)
class End:
    """Where the messages of a queue end: nothing was ready before `place` then, and nothing hidden was due."""

    place: int
    at: datetime


@dataclass(slots=True)
class Emptiness:
    """What is known of a queue since a long look at everything found nothing."""

    until: datetime
    """When everything must be looked at again."""
    due_at: datetime | None
    """When its next hidden message becomes visible."""
    end: End
    floor: End | None = None
    """An earlier end, which a later look has confirmed: what was being sent then has been committed since."""

    def seen(self, end: End, began: datetime) -> None:
        """A look that began then found nothing up to this end."""
        if began >= self.end.at + SETTLED:
            self.floor, self.end = self.end, end

    def lower(self, place: int) -> None:
        """Messages are ready there: hidden ones came back."""
        for end in (self.end, self.floor):
            if end is not None:
                end.place = min(end.place, place)


@dataclass(slots=True)
class Look:
    """What a claim is told: where to look first, and from where when it finds nothing."""

    hint: Hint | None = None
    floor: End | None = None

    @property
    def place(self) -> int | None:
        if self.hint is not None:
            return self.hint.place
        return self.floor.place if self.floor is not None else None

    @property
    def since(self) -> datetime | None:
        if self.hint is not None:
            return self.hint.looked_at
        return self.floor.at if self.floor is not None else None


EVERYWHERE = Look()


class Hints:
    def __init__(self, usual_priority: int) -> None:
        self._usual_priority = usual_priority
        self._hints: dict[Key, Hint] = {}
        self._empty: dict[Key, Emptiness] = {}

    def find(self, key: Key, now: datetime) -> Hint | None:
        hint = self._hints.get(key)
        if hint is not None and now - hint.lifetime < hint.looked_at <= now:
            return hint
        return None

    def claimed(self, key: Key, used: Hint | None, place: int, priority: int, now: datetime, took: timedelta) -> None:
        """A claim, with or without a hint, took so long and found its first message at `place`."""
        known = self._empty.get(key)
        if known is not None:
            known.lower(place)
        if used is not None:
            used.place, used.priority = place, priority
            return
        if len(self._hints) >= KEPT:
            self._hints.clear()
        self._hints[key] = Hint(now, place, priority, max(LIFETIME, took * SHARE))

    def look(self, key: Key, now: datetime) -> Look:
        """Where a claim looks now."""
        hint, known = self.find(key, now), self._empty.get(key)
        floor = known.floor if known is not None and now < known.until else None
        return EVERYWHERE if hint is None and floor is None else Look(hint, floor)

    def found_nothing(
        self, key: Key, look: Look, place: int, due_at: datetime | None, now: datetime, took: timedelta
    ) -> datetime | None:
        """A claim down to a floor, or a long one of everything, saw messages end at `place`. When to look again."""
        end = End(place, now + took)
        known = self._empty.get(key)
        if look.floor is not None:
            if known is None:  # somebody of this node put a message below it
                return now
            known.seen(end, now)
            return min(known.due_at, known.until) if known.due_at is not None and known.due_at > now else known.until
        if known is None:
            if len(self._empty) >= KEPT:
                self._empty.clear()
            known = self._empty[key] = Emptiness(now, None, end)
        known.until = end.at + min(LONGEST, took * SHARE)
        known.due_at = due_at
        known.seen(end, now)
        return due_at

    def sent(self, key: Key, priority: int) -> None:
        """This node has sent a message, which may lie before what is known of the queue."""
        if priority > self._usual_priority:
            self.forget(key)
            return
        hint = self._hints.get(key)
        if hint is not None and priority > hint.priority:
            del self._hints[key]

    def overtaken(self, keys: Iterable[Key]) -> None:
        """Messages were sent or hidden so slowly that a look may have passed them."""
        for key in keys:
            self._empty.pop(key, None)

    def passed(self, key: Key, message_id: int) -> None:
        """A message of a FIFO queue is done with: the next of its group may stand anywhere behind it."""
        hint = self._hints.get(key)
        if hint is not None:
            hint.place = min(hint.place, hint.place - hint.place % IDS + message_id)

    def forget(self, key: Key) -> None:
        self._hints.pop(key, None)
        self._empty.pop(key, None)
