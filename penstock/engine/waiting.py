"""Long polling: which callers of this process wait on which queue, and what wakes them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from penstock.clock import Clock
from penstock.model import TenantId
from penstock.model.jobs import WAITING_PREFIX

Key = tuple[TenantId, str]
Found = TypeVar("Found")

RECHECK_S = 2.0
"""A waiting caller looks again this often, in case a notification was lost."""
EXPECT_S = 10.0
"""How often the store is told that a caller still waits on a queue."""
MOST_EXPECTED = 10_000
"""Queues that are remembered as told, before those of long ago are forgotten."""


def job_key(tenant: TenantId, queue: str) -> Key:
    """Under which workers wait for the jobs of a queue."""
    return tenant, WAITING_PREFIX + queue


@dataclass(slots=True)
class Look(Generic[Found]):
    """The answer of one look: what was found, and if nothing, when it is worth looking again."""

    found: Found
    empty: bool
    next_due_at: datetime | None = None


class Expectations:
    """Tells the store that a caller waits on a queue, so that sends elsewhere are reported; not for every wait."""

    def __init__(self, tell: Callable[[Key], Awaitable[None]]) -> None:
        self._tell = tell
        self._told: dict[Key, float] = {}

    def knows(self, key: Key) -> bool:
        return self._told.get(key, 0.0) > asyncio.get_running_loop().time()

    async def expect(self, key: Key) -> bool:
        """True when the store was told just now: what was sent before that is worth another look."""
        if self.knows(key):
            return False
        now = asyncio.get_running_loop().time()
        if len(self._told) > MOST_EXPECTED:
            self._told = {known: until for known, until in self._told.items() if until > now}
        self._told[key] = now + EXPECT_S
        await self._tell(key)
        return True


class Waiters:
    """Wakes waiting callers in the order they came.

    A wake-up is a hint to look again, not a promise: the caller must still claim. Keeping the waiters of a queue in
    arrival order shares a trickle of messages fairly among them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[Key, OrderedDict[asyncio.Future[None], None]] = {}
        self._timers: dict[Key, tuple[datetime, asyncio.TimerHandle]] = {}
        self._stopped = False

    async def poll(
        self,
        key: Key,
        wait_s: float,
        look: Callable[[], Awaitable[Look[Found]]],
        expect: Callable[[Key], Awaitable[bool]],
        *,
        first_nap_s: float | None = None,
    ) -> Found:
        """Look until something is found or `wait_s` has passed, sleeping in between; the last answer.

        `expect` prepares to be notified; when it answers True, the next look follows at once. Sleeps double from
        `first_nap_s` up to `RECHECK_S`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        nap_s = RECHECK_S if first_nap_s is None else first_nap_s
        while True:
            # Joined before looking, so that what is sent between the look and the sleep is not missed.
            woken = self.join(key)
            try:
                answer = await look()
                left = deadline - loop.time()
                if not answer.empty or left <= 0 or self._stopped:
                    if not answer.empty and woken.done():
                        # This wake-up was not needed: pass it on.
                        self.wake(key)
                    return answer.found
                if await expect(key):
                    continue
                if answer.next_due_at is not None:
                    self.wake_at(key, answer.next_due_at)
                await asyncio.wait([woken], timeout=min(left, nap_s))
                nap_s = min(nap_s * 2, RECHECK_S)
            finally:
                self.leave(key, woken)
                woken.cancel()

    def waiting(self, key: Key) -> bool:
        return key in self._queues

    def join(self, key: Key) -> asyncio.Future[None]:
        """A future that is done when it is worth looking at the queue again."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(key, OrderedDict())[future] = None
        return future

    def leave(self, key: Key, future: asyncio.Future[None]) -> None:
        waiters = self._queues.get(key)
        if waiters is not None:
            waiters.pop(future, None)
            if not waiters:
                self._forget(key)

    def wake(self, key: Key, count: int = 1) -> None:
        waiters = self._queues.get(key)
        if waiters is None:
            return
        while waiters and count > 0:
            future, _ = waiters.popitem(last=False)
            if not future.done():
                future.set_result(None)
                count -= 1
        if not waiters:
            self._forget(key)

    def wake_at(self, key: Key, moment: datetime) -> None:
        """Wake one waiter when a hidden message comes into view. The earliest moment given wins."""
        if key not in self._queues:
            return
        timer = self._timers.get(key)
        if timer is not None:
            if timer[0] <= moment:
                return
            timer[1].cancel()
        delay = max((moment - self._clock.now()).total_seconds(), 0.0)
        handle = asyncio.get_running_loop().call_later(delay, self._due, key)
        self._timers[key] = (moment, handle)

    def stop(self) -> None:
        """The server is stopping: every waiter, now and from now on, returns without waiting further."""
        self._stopped = True
        for key in list(self._queues):
            self.wake(key, count=len(self._queues[key]))

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.wake(key)

    def _forget(self, key: Key) -> None:
        self._queues.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer[1].cancel()
