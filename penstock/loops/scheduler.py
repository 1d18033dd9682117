"""Fire the schedules that are due."""

from __future__ import annotations

import asyncio

from penstock.engine import Engine

POLL_S = 1.0
ROUNDS = 1000
"""In one run at most, so that a server that is told to stop does."""


class Scheduler:
    """Every node runs one. While nothing is due it asks for the moment of the next alone, and sleeps no longer."""

    def __init__(self, engine: Engine, poll_s: float = POLL_S) -> None:
        self._engine = engine
        self._poll_s = poll_s
        self._next_s = poll_s

    async def once(self) -> int:
        """The number of fires."""
        total = 0
        for _ in range(ROUNDS):
            due_at = await self._engine.schedules.next_due_at()
            now = self._engine.clock.now()
            if due_at is None or due_at > now:
                self._next_s = self._poll_s if due_at is None else (due_at - now).total_seconds()
                break
            due, fires = await self._engine.schedules.fire_due()
            total += fires
            if due and not fires:
                # Other nodes have these in hand, or they failed and wait: let them finish.
                await asyncio.sleep(0.01)
        return total

    def pause(self, done: int) -> float:
        return min(max(self._next_s, 0.001), self._poll_s)
