"""Queues as the pages show them: counts and settings together, with what they mean for a reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.auth import Principal
from penstock.engine import Engine
from penstock.model import Queue, QueueCounts, TenantId
from penstock.web.shared import Shared

KEEP_COUNTS_S = 0.4
KEEP_SETTINGS_S = 5.0
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    name: str
    kind: str
    """`standard`, `FIFO` or `LIFO`."""
    visible: int
    in_flight: int
    delayed: int
    sent: int
    oldest_s: float | None
    """Age of the oldest message in seconds."""
    sources: tuple[str, ...]
    """Queues that send their dead letters here."""
    queue: Queue | None
    """None for a queue created since the settings were read."""

    @property
    def total(self) -> int:
        return self.visible + self.in_flight + self.delayed

    @property
    def bar(self) -> tuple[int, int, int]:
        """Widths of visible, in flight and delayed in a bar of one hundred."""
        if not self.total:
            return 0, 0, 0
        first, second = round(100 * self.visible / self.total), round(100 * self.in_flight / self.total)
        return first, second, 100 - first - second


class QueueRows:
    """Asks the database at most once a second, however many pages are open."""

    def __init__(self, engine: Engine, shared: Shared) -> None:
        self._engine = engine
        self._shared = shared

    async def rows(self, principal: Principal) -> list[QueueRow]:
        """The queues within the caller's reach, by name."""
        tenant = principal.tenant
        counts = await self._shared.get(
            ("counts", tenant), KEEP_COUNTS_S, lambda: self._engine.queues.all_counts(tenant)
        )
        queues = await self._shared.get(("queues", tenant), KEEP_SETTINGS_S, lambda: self._queues(tenant))
        return make_rows([item for _, item in counts], queues, principal, self._engine.clock.now())

    async def _queues(self, tenant: TenantId) -> list[Queue]:
        found: list[Queue] = []
        while True:
            page = await self._engine.queues.list(tenant, after=found[-1].name if found else "", limit=PAGE)
            found += page
            if len(page) < PAGE:
                return found


def make_rows(
    counts: Sequence[QueueCounts], queues: Sequence[Queue], principal: Principal, now: datetime
) -> list[QueueRow]:
    settings = {queue.name: queue for queue in queues}
    sources: dict[str, list[str]] = {}
    for queue in queues:
        target = queue.settings.dead_letter_queue
        if target is not None and target != queue.name and principal.reaches(queue.name):
            sources.setdefault(target, []).append(queue.name)
    return [
        QueueRow(
            name=item.queue,
            kind=kind_of(item.queue, settings.get(item.queue)),
            visible=item.visible,
            in_flight=item.in_flight,
            delayed=item.delayed,
            sent=item.sent,
            oldest_s=max((now - item.oldest_sent_at).total_seconds(), 0.0) if item.oldest_sent_at else None,
            sources=tuple(sources.get(item.queue, ())),
            queue=settings.get(item.queue),
        )
        for item in sorted(counts, key=lambda item: item.queue)
        if principal.reaches(item.queue)
    ]


def kind_of(name: str, queue: Queue | None) -> str:
    if name.endswith(".fifo"):
        return "FIFO"
    return "LIFO" if queue is not None and queue.settings.lifo else "standard"
