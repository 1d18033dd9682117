"""How many messages of a queue may be in flight. Only a strict server asks: AWS's limit is its own, not ours."""

from __future__ import annotations

import asyncio

from penstock.engine.queues.queues import Queues
from penstock.model import TenantId
from penstock.wire.sqs.errors import sqs_error

STANDARD = 120_000
FIFO = 20_000
LOOK_S = 1.0
"""How often the messages in flight are counted, as the limit is approximate on AWS too."""


class InFlightLimit:
    def __init__(self, queues: Queues, *, standard: int = STANDARD, fifo: int = FIFO) -> None:
        self._queues = queues
        self._standard, self._fifo = standard, fifo
        self._full: dict[tuple[TenantId, str], tuple[float, bool]] = {}

    async def full(self, tenant: TenantId, queue: str, *, polls: bool) -> bool:
        """Whether nothing may be handed out now. A short poll of a standard queue is told so with an error."""
        now = asyncio.get_running_loop().time()
        looked, full = self._full.get((tenant, queue), (0.0, False))
        if looked <= now:
            full = await self._look(tenant, queue)
            if len(self._full) > 10_000:
                self._full.clear()
            self._full[tenant, queue] = (now + LOOK_S, full)
        if full and not polls and not queue.endswith(".fifo"):
            raise sqs_error("OverLimit", f"Too many messages in flight for queue {queue}.")
        return full

    async def _look(self, tenant: TenantId, queue: str) -> bool:
        counts = await self._queues.counts(tenant, queue)
        return counts.in_flight >= (self._fifo if queue.endswith(".fifo") else self._standard)
