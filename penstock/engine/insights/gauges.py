"""How much there is to do, of all tenants, for those who run the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.clock import Clock
from penstock.engine.insights.pipelines import PATIENCE
from penstock.model.gauges import (
    ConsumerGauges,
    EndpointGauges,
    JobGauges,
    PipelineGauges,
    ScheduleGauges,
    StreamGauges,
)
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
        self.known_tenants: Mapping[TenantId, str] = {}
        """As `tenants` last found them, which is every few seconds in a server."""

    async def tenants(self) -> Mapping[TenantId, str]:
        self.known_tenants = {tenant.id: tenant.name for tenant in await self._store.list_tenants()}
        return self.known_tenants

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

    async def pipelines(self) -> Sequence[PipelineGauges]:
        """Of the last run of each pipeline that ever ran."""
        return await self._store.gauges.pipelines(self._clock.now() - PATIENCE)
