"""Receivers that wait: who sleeps on which queue in this process, and what wakes them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from datetime import datetime

from penstock.clock import Clock
from penstock.model import TenantId

Key = tuple[TenantId, str]


class Waiters:
    """Wakes waiting receivers in the order they came.

    A wake-up is a hint to look again, never a promise: whoever wakes must still claim. Keeping the waiters
    of a queue in arrival order shares a trickle of messages fairly among them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[Key, OrderedDict[asyncio.Future[None], None]] = {}
        self._timers: dict[Key, tuple[datetime, asyncio.TimerHandle]] = {}

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

    def wake_everyone(self) -> None:
        """The server is stopping: let every waiter come back empty-handed."""
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
