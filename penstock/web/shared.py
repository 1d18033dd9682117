"""Answers that all viewers share, so that many open pages cost little more than one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from time import monotonic
from typing import Any, TypeVar

Answer = TypeVar("Answer")

MOST_ENTRIES = 1000
PAUSE_FACTOR = 10
"""An answer that took long is kept for ten times as long: asking takes at most a tenth of the time."""


class Shared:
    """Keeps each answer for `keep_s`; a question asked twice at the same time is asked once."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._kept: dict[Hashable, tuple[float, Any]] = {}
        self._asking: dict[Hashable, asyncio.Future[Any]] = {}

    async def get(self, key: Hashable, keep_s: float, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        kept = self._kept.get(key)
        if kept is not None and kept[0] > self._clock():
            answer: Answer = kept[1]
            return answer
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._ask(key, keep_s, ask))
            asking.add_done_callback(lambda done: self._finish(key, done))
        # Shielded: a viewer that leaves does not take the answer away from the others.
        found: Answer = await asyncio.shield(asking)
        return found

    def forget(self) -> None:
        """Something was changed here: ask again."""
        self._kept.clear()
        self._asking.clear()

    async def _ask(self, key: Hashable, keep_s: float, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        begun = self._clock()
        answer = await ask()
        now = self._clock()
        if len(self._kept) >= MOST_ENTRIES:
            self._kept.clear()
        self._kept[key] = (now + max(keep_s, PAUSE_FACTOR * (now - begun)), answer)
        return answer

    def _finish(self, key: Hashable, done: asyncio.Future[Any]) -> None:
        if self._asking.get(key) is done:
            del self._asking[key]
        if not done.cancelled():
            done.exception()  # seen by those who wait; without any, asyncio would complain
