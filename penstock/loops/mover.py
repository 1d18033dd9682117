"""Carry redrives on: messages of dead-letter queues on their way back."""

from __future__ import annotations

from penstock.engine import Engine

BUSY_S = 0.2
IDLE_S = 1.0


class Mover:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def once(self) -> int:
        return await self._engine.queues.run_moves()

    @staticmethod
    def pause(done: int) -> float:
        return BUSY_S if done else IDLE_S
