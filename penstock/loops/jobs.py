"""Look after jobs: recover those whose lease ran out, make due ones ready, forget old ones."""

from __future__ import annotations

from penstock.engine import Engine

BUSY_S = 0.1
IDLE_S = 1.0
LIMIT = 1000


class JobKeeper:
    def __init__(self, engine: Engine, limit: int = LIMIT) -> None:
        self._engine = engine
        self._limit = limit

    async def once(self) -> int:
        return await self._engine.jobs.tend(self._limit)

    def pause(self, done: int) -> float:
        """A round that did as much as it may has left something."""
        return BUSY_S if done >= self._limit else IDLE_S
