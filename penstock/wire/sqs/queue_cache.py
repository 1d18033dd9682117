"""Queues the door has seen a moment ago, so that a receive need not ask how long its queue wants it to wait."""

from __future__ import annotations

from time import monotonic

from penstock.engine.bounded import BoundedCache
from penstock.engine.queues.queues import Queues
from penstock.model import Queue, TenantId

KEEP_S = 1.0
"""How long another process's change of a queue may go unnoticed here."""
MOST_BYTES = 16_777_216


class QueueCache:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._known: BoundedCache[tuple[TenantId, str], tuple[float, Queue]] = BoundedCache(MOST_BYTES)

    def recent(self, tenant: TenantId, name: str) -> Queue | None:
        """The queue when that needs no look-up."""
        known = self._known.get((tenant, name))
        return known[1] if known is not None and known[0] > monotonic() else None

    async def get(self, tenant: TenantId, name: str) -> Queue:
        known = self.recent(tenant, name)
        if known is not None:
            return known
        queue = await self._queues.get(tenant, name)
        self._known.put((tenant, name), (monotonic() + KEEP_S, queue), _size(queue))
        return queue

    def forget(self, tenant: TenantId, name: str) -> None:
        self._known.pop((tenant, name))


def _size(queue: Queue) -> int:
    kept = (*queue.settings.tags.items(), *queue.settings.labels.items())
    return 1000 + sum(len(name) + len(value) for name, value in kept)
