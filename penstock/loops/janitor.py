"""Remove what has expired or belongs to nobody."""

from __future__ import annotations

import asyncio

from penstock.engine import Engine

LIMIT = 5000
IDLE_S = 1.0
LONGEST_IDLE_S = 8.0


class Janitor:
    """Sweeps until nothing is left; when there was nothing at all, it comes back later and later."""

    def __init__(self, engine: Engine, limit: int = LIMIT, *, interval_s: float = 0.0) -> None:
        self._engine = engine
        self._limit = limit
        self._interval_s = interval_s
        """Other than 0: the same pause whatever there was to do."""
        self._pause = IDLE_S

    async def once(self) -> int:
        total = 0
        while (removed := await self._engine.queues.sweep(self._limit)) > 0:
            total += removed
            if removed < self._limit:
                break
            await asyncio.sleep(0)  # requests go first
        return total

    def pause(self, done: int) -> float:
        if self._interval_s:
            return self._interval_s
        self._pause = IDLE_S if done else min(self._pause * 2, LONGEST_IDLE_S)
        return self._pause
