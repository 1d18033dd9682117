"""Turns: while several callers are active, none of them may fill the server with its own requests.

A caller that is alone has the whole server, until so many requests are in flight that another one would wait behind
them. From then on, and as soon as another one is active, each has a bounded number of requests running; what it sends
beyond waits behind its own, not before the others'. What would wait for too long is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque

from penstock.errors import RateLimited
from penstock.wire.http.messages import Request

AT_ONCE = 64
"""Requests of one caller that run at a time. Enough for full batches: see `bench/cycle.py`."""
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
        self._lines: dict[int, deque[asyncio.Future[None]]] = {}

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
        running = self._running.get(caller, 0)
        if running >= self._at_once:
            return None
        self._running[caller] = running + 1
        return Turn(self, caller, request)

    async def take(self, caller: int, request: Request | None = None) -> Turn:
        """Wait for a turn; `RateLimited` when it does not come in time."""
        running = self._running.get(caller, 0)
        if running >= self._at_once:
            loop = asyncio.get_running_loop()
            mine: asyncio.Future[None] = loop.create_future()
            line = self._lines.setdefault(caller, deque())
            line.append(mine)
            late = loop.call_later(self._wait_s, _give_up, mine)
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled() and mine.exception() is None:
                    self.leave(caller)  # the turn came and nobody takes it
                raise
            finally:
                late.cancel()
        else:
            self._running[caller] = running + 1
        return Turn(self, caller, request)

    def leave(self, caller: int) -> None:
        """A turn ends: the next in line has it."""
        line = self._lines.get(caller)
        while line:
            following = line.popleft()
            if not following.done():
                following.set_result(None)
                return
        self._lines.pop(caller, None)
        left = self._running[caller] - 1
        if left:
            self._running[caller] = left
        else:
            del self._running[caller]


class Turn:
    """Ends once: with its request, or when that begins to wait."""

    def __init__(self, turns: Turns, caller: int, request: Request | None) -> None:
        self._turns: Turns | None = turns
        self._caller = caller
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
            self._turns.leave(self._caller)
            self._turns = None


def _give_up(mine: asyncio.Future[None]) -> None:
    if not mine.done():
        mine.set_exception(RateLimited("too many of your requests wait already", retry_after_s=1))
