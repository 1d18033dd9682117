"""Set the gauges that must be asked for: how much is queued and how old it is, how busy the connections are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from penstock.engine import Engine
from penstock.engine.metrics import MAX_LABELS, Counter, Gauge, Labels
from penstock.model import TenantId

EVERY_S = 15.0

Names = Mapping[TenantId, str]


class Scrape:
    """Every node sets the same gauges: they are of the database, not of the node."""

    def __init__(self, engine: Engine, most: int = MAX_LABELS) -> None:
        self._engine = engine
        self._metrics = engine.metrics
        self._most = most

    async def once(self) -> int:
        self._connections()
        tenants = await self._engine.gauges.tenants()
        queues = await self._queues(tenants)
        await self._endpoints(tenants)
        await self._jobs(tenants)
        await self._schedules()
        await self._streams(tenants)
        await self._pipelines(tenants)
        return queues

    async def _queues(self, tenants: Names) -> int:
        counts = await self._engine.queues.all_counts(None)
        now = self._engine.clock.now()
        metrics = self._metrics
        rows: dict[Gauge, list[tuple[Labels, float]]] = {
            gauge: []
            for gauge in (metrics.depth, metrics.in_flight, metrics.delayed, metrics.stored, metrics.oldest_seconds)
        }
        for tenant, queue in counts:
            labels = _name(tenants, tenant), queue.queue
            # A queue of delayed messages only is not stuck.
            since = queue.oldest_sent_at if queue.visible + queue.in_flight else None
            oldest_s = max((now - (since or now)).total_seconds(), 0.0)
            rows[metrics.depth].append((labels, float(queue.visible)))
            rows[metrics.in_flight].append((labels, float(queue.in_flight)))
            rows[metrics.delayed].append((labels, float(queue.delayed)))
            rows[metrics.stored].append((labels, float(queue.sent)))
            rows[metrics.oldest_seconds].append((labels, oldest_s))
        for gauge, found in rows.items():
            self._set(gauge, found)
        return len(counts)

    async def _endpoints(self, tenants: Names) -> None:
        found = await self._engine.gauges.endpoints()
        rows = [((_name(tenants, one.tenant), one.endpoint), float(one.failing)) for one in found]
        self._set(self._metrics.failing_deliveries, rows)

    async def _jobs(self, tenants: Names) -> None:
        gauges = sorted(await self._engine.gauges.jobs(), key=lambda found: -found.total)
        now = self._engine.clock.now()
        depths: dict[Labels, float] = defaultdict(float)
        waits: list[tuple[Labels, float]] = []
        for place, queue in enumerate(gauges):
            labels = _name(tenants, queue.tenant), queue.queue
            # Every queue takes a label set for each status.
            named = labels if place < self._most // len(queue.jobs) - 1 else ("other", "other")
            for status, count in queue.jobs.items():
                depths[(*named, status.value)] += count
            since = queue.ready_since or now
            waits.append((labels, max((now - since).total_seconds(), 0.0)))
        self._metrics.jobs.values = dict(depths)
        self._set(self._metrics.job_wait_seconds, waits)

    async def _schedules(self) -> None:
        found = await self._engine.gauges.schedules()
        late_s = (self._engine.clock.now() - found.due_at).total_seconds() if found.due_at is not None else 0.0
        self._metrics.schedules.values = {("active",): float(found.active), ("paused",): float(found.paused)}
        self._metrics.schedules_overdue.set((), found.overdue)
        self._metrics.schedule_lag_seconds.set((), max(late_s, 0.0))

    async def _streams(self, tenants: Names) -> None:
        consumers = [
            ((_name(tenants, found.tenant), found.stream, found.consumer), found)
            for found in await self._engine.gauges.consumers()
        ]
        self._set(self._metrics.consumer_pending, [(labels, float(found.pending)) for labels, found in consumers])
        self._set(self._metrics.consumer_lag_seconds, [(labels, found.lag_s) for labels, found in consumers])
        streams = await self._engine.gauges.streams()
        ages = [((_name(tenants, found.tenant), found.stream), found.tick_age_s) for found in streams]
        self._set(self._metrics.tick_age_seconds, ages)
        self._set(
            self._metrics.nacked, [((_name(tenants, one.tenant), one.stream), float(one.nacked)) for one in streams]
        )

    async def _pipelines(self, tenants: Names) -> None:
        found = [((_name(tenants, one.tenant), one.pipeline), one) for one in await self._engine.gauges.pipelines()]
        now, metrics = self._engine.clock.now(), self._metrics
        active = [(labels, one) for labels, one in found if one.running]
        self._set(metrics.pipelines_running, [(labels, float(one.running)) for labels, one in found])
        self._set(metrics.pipelines_failed, [(labels, float(one.failed)) for labels, one in found])
        self._set(metrics.pipeline_rows, [(labels, float(one.rows)) for labels, one in found])
        self._set(metrics.pipeline_lag_events, [(labels, float(one.lag_events)) for labels, one in active])
        self._set(metrics.pipeline_lag_seconds, [(labels, one.lag_s) for labels, one in active])
        ages = [(labels, max((now - one.seen_at).total_seconds(), 0.0)) for labels, one in active]
        self._set(metrics.pipeline_report_seconds, ages)

    def _set(self, gauge: Counter, found: Sequence[tuple[Labels, float]]) -> None:
        """Those with the largest values keep their names; what there is no room for is told as one."""
        values: dict[Labels, float] = {}
        for place, (labels, value) in enumerate(sorted(found, key=lambda row: -row[1])):
            if place >= self._most - 1:
                labels = ("other",) * len(labels)
            have = values.get(labels, 0.0)
            highest = isinstance(gauge, Gauge) and gauge.highest
            values[labels] = max(have, value) if highest else have + value
        gauge.values = values

    def _connections(self) -> None:
        numbers = self._engine.store.pool_numbers()
        metrics = self._metrics
        metrics.pool_size.set((), numbers.get("size", 0))
        metrics.pool_idle.set((), numbers.get("idle", 0))
        metrics.pool_active.set((), numbers.get("active", 0))
        metrics.pool_timeouts.values[()] = numbers.get("acquire_timeouts", 0)


def _name(tenants: Names, tenant: TenantId) -> str:
    return tenants.get(tenant, str(tenant))
