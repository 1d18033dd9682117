"""Prepare the payloads of new jobs for searches by value."""

from __future__ import annotations

from penstock.engine import Engine

BUSY_S = 0.5
IDLE_S = 15.0


class JobSearchKeeper:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def once(self) -> int:
        return await self._engine.jobs.index_values()

    def pause(self, done: int) -> float:
        return BUSY_S if done else IDLE_S
