"""Set the gauges that must be asked for: how deep each queue is, how busy the connections are."""

from __future__ import annotations

from collections import defaultdict

from penstock.engine import Engine
from penstock.engine.insights import MAX_LABELS

EVERY_S = 15.0


class Scrape:
    """Every node sets the same depths: they are of the database, not of the node."""

    def __init__(self, engine: Engine, most: int = MAX_LABELS) -> None:
        self._engine = engine
        self._most = most

    async def once(self) -> int:
        self._connections()
        counts = await self._engine.queues.all_counts(None)
        visible: dict[str, int] = defaultdict(int)
        hidden: dict[str, int] = defaultdict(int)
        # Tenants may use the same names, which are all the label says; and there may be more queues than a
        # metric should have labels: the fullest keep their names, the rest is summed up.
        for place, (_, queue) in enumerate(sorted(counts, key=lambda found: -found[1].total)):
            label = queue.queue if place < self._most - 1 else "other"
            visible[label] += queue.visible
            hidden[label] += queue.in_flight + queue.delayed
        insights = self._engine.insights
        insights.depth.values = {(name,): float(count) for name, count in visible.items()}
        insights.in_flight.values = {(name,): float(count) for name, count in hidden.items()}
        return len(counts)

    def _connections(self) -> None:
        numbers = self._engine.store.pool_numbers()
        insights = self._engine.insights
        insights.pool_size.set((), numbers.get("size", 0))
        insights.pool_idle.set((), numbers.get("idle", 0))
        insights.pool_active.set((), numbers.get("active", 0))
        insights.pool_timeouts.values[()] = numbers.get("acquire_timeouts", 0)
