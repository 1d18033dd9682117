"""How much there is to do, of all tenants, for those who run the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.clock import Clock
from penstock.model.gauges import ConsumerGauges, EndpointGauges, JobGauges, ScheduleGauges, StreamGauges
from penstock.model.tenants import TenantId
from penstock.store import Store

FAILING_ATTEMPTS = 2
"""Failed attempts after which an unfinished delivery counts as a problem of its endpoint."""
MOST_DELIVERIES = 10_000
"""Deliveries are counted up to this number."""
MOST_SCHEDULES = 10_000
"""Schedules are counted up to so many."""


class Gauges:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def tenants(self) -> Mapping[TenantId, str]:
        return {tenant.id: tenant.name for tenant in await self._store.list_tenants()}

    async def jobs(self) -> Sequence[JobGauges]:
        return await self._store.gauges.jobs()

    async def schedules(self) -> ScheduleGauges:
        return await self._store.gauges.schedules(self._clock.now(), MOST_SCHEDULES)

    async def endpoints(self) -> Sequence[EndpointGauges]:
        """Endpoints with unfinished deliveries that failed at least twice."""
        return await self._store.gauges.endpoints(FAILING_ATTEMPTS, MOST_DELIVERIES)

    async def consumers(self) -> Sequence[ConsumerGauges]:
        return await self._store.gauges.consumers()

    async def streams(self) -> Sequence[StreamGauges]:
        return await self._store.gauges.streams()
