"""Delete messages that are received over and over, from queues whose receivers name no dead-letter queue."""

from __future__ import annotations

import logging

from penstock.engine import Engine

log = logging.getLogger(__name__)


class PoisonSweep:
    """The safety net of implicit queues: nobody else ends a message that every receive fails on."""

    def __init__(self, engine: Engine, max_receives: int) -> None:
        self._engine = engine
        self._max_receives = max_receives

    async def once(self) -> int:
        removed = await self._engine.queues.sweep_poison(self._max_receives)
        if removed:
            log.warning("deleted poison messages", extra={"count": removed, "max_receives": self._max_receives})
        return removed
