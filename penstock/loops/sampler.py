"""Take the samples that charts are drawn from."""

from __future__ import annotations

from penstock.engine import Engine

BEHIND_S = 0.5
"""Samples are taken this long after a minute begins."""


class Sampler:
    """Every node comes each minute; the first takes the samples. Old ones are removed a bounded number at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def once(self) -> int:
        await self._engine.outcomes.write()
        taken = await self._engine.history.record()
        await self._engine.history.sweep()
        await self._engine.schedules.sweep_fires()
        return taken

    def pause(self, done: int) -> float:
        """Until shortly after the next minute begins."""
        now = self._engine.clock.now()
        return 60 - (now.second + now.microsecond / 1e6) + BEHIND_S
