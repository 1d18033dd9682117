"""Turns: while several callers are active, none of them may fill the server with its own requests.

A caller that is alone has the whole server, until so many requests are in flight that another one would wait behind
them. From then on, and as soon as another one is active, each has a bounded number of requests running; what it sends
beyond waits behind its own, not before the others'. What would wait for too long is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import uniform

from penstock.errors import RateLimited
from penstock.wire.http.messages import Request

AT_ONCE = 64
"""Requests of one caller that run at a time. Enough for full batches: see `bench/cycle.py`."""
BYTES = 4_096
"""A request counts once more for so many bytes of its body: a large batch takes as long as many small requests."""
ALONE = 512
"""Requests in flight from which on a caller that is alone has turns too."""
WAIT_S = 1.0
LOOK_S = 0.03
"""How often a turn is looked at: a request that waits for a message on purpose gives it away."""
LOCKED_S = 1.0
"""A request that takes longer waits for somebody's lock. It no longer counts."""
MOST_CALLERS = 10_000
_SIGNED = b"AWS4-"
_KEY = b"Credential="


def caller_of(request: Request) -> int | None:
    """A number that tells callers apart before their credentials are verified; None for requests without any.

    Everybody can name the access key of another, so there the address counts too. A hash, because the header can be
    long, and thousands of made-up ones are remembered.
    """
    given = request.found.get(b"authorization")
    if given is None:
        return None
    if not given.startswith(_SIGNED):
        return hash(given)
    start = given.find(_KEY) + len(_KEY)
    address = request.client[0] if request.client is not None else ""
    return hash((given[start : given.find(b"/", start)], address))


class Turns:
    def __init__(self, at_once: int = AT_ONCE, wait_s: float = WAIT_S) -> None:
        self._at_once = at_once
        self._wait_s = wait_s
        self._active: set[int] = set()
        self._before: set[int] = set()
        self.crowded = False
        """Whether more than one caller was active lately."""
        self._running: dict[int, int] = {}
        self._lines: dict[int, deque[tuple[asyncio.Future[Turn | None], int, Request | None]]] = {}

    def note(self, caller: int) -> None:
        """The caller is active."""
        if caller not in self._active and len(self._active) < MOST_CALLERS:
            self._active.add(caller)
            self.crowded = self.crowded or bool(self._before - {caller}) or len(self._active) > 1

    def sweep(self) -> None:
        """About every second: who sent nothing since the last but one is no longer active."""
        self._before, self._active = self._active, set()
        self.crowded = len(self._before) > 1

    def take_now(self, caller: int, request: Request | None = None) -> Turn | None:
        """A turn that need not be waited for."""
        weight = _weight(request)
        if not self._has_room(caller, weight):
            return None
        return self._begin(caller, weight, request)

    async def take(self, caller: int, request: Request | None = None) -> Turn:
        """Wait for a turn; `RateLimited` when it does not come in time."""
        weight = _weight(request)
        if self._has_room(caller, weight):
            return self._begin(caller, weight, request)
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[Turn | None] = loop.create_future()
        self._lines.setdefault(caller, deque()).append((mine, weight, request))
        # Not all at once: refusing thousands in one turn of the loop would make everybody wait.
        late = loop.call_later(self._wait_s * uniform(0.7, 1), _give_up, mine)
        try:
            turn = await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and (unused := mine.result()) is not None:
                unused.end()
            raise
        finally:
            late.cancel()
        if turn is None:
            # Not an exception of the future: the two would refer to each other, and keep the request in memory.
            raise RateLimited("too many of your requests wait already", retry_after_s=1)
        return turn

    def leave(self, caller: int, weight: int) -> None:
        """A turn ends: those who are next in line and have room now get theirs."""
        left = self._running[caller] - weight
        if left:
            self._running[caller] = left
        else:
            del self._running[caller]
        line = self._lines.get(caller)
        while line:
            following, following_weight, request = line[0]
            if not following.done():
                if not self._has_room(caller, following_weight):
                    return
                following.set_result(self._begin(caller, following_weight, request))
            line.popleft()
        self._lines.pop(caller, None)

    def _has_room(self, caller: int, weight: int) -> bool:
        """One request always has room, however much it weighs."""
        running = self._running.get(caller, 0)
        return not running or running + weight <= self._at_once

    def _begin(self, caller: int, weight: int, request: Request | None) -> Turn:
        self._running[caller] = self._running.get(caller, 0) + weight
        return Turn(self, caller, weight, request)


class Turn:
    """Ends once: with its request, or when that begins to wait."""

    def __init__(self, turns: Turns, caller: int, weight: int, request: Request | None) -> None:
        self._turns: Turns | None = turns
        self._caller = caller
        self._weight = weight
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._locked_at = self._loop.time() + LOCKED_S
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        waits = self._request is not None and self._request.wait_s > 0
        if waits or self._loop.time() > self._locked_at:
            self.end()
        else:
            self._timer = self._loop.call_later(LOOK_S, self._look)

    def end(self) -> None:
        if self._turns is not None:
            self._timer.cancel()
            self._turns.leave(self._caller, self._weight)
            self._turns = None


def _weight(request: Request | None) -> int:
    return 1 if request is None else 1 + len(request.body) // BYTES


def _give_up(mine: asyncio.Future[Turn | None]) -> None:
    if not mine.done():
        mine.set_result(None)
