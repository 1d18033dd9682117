"""How much there is to do, of all tenants, for those who run the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.clock import Clock
from penstock.model.figures import ConsumerFigures, JobFigures, ScheduleFigures, StreamFigures
from penstock.model.tenants import TenantId
from penstock.store import Store

MOST_SCHEDULES = 10_000
"""Schedules are counted up to so many."""


class Figures:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def tenants(self) -> Mapping[TenantId, str]:
        return {tenant.id: tenant.name for tenant in await self._store.list_tenants()}

    async def jobs(self) -> Sequence[JobFigures]:
        return await self._store.figures.jobs()

    async def schedules(self) -> ScheduleFigures:
        return await self._store.figures.schedules(self._clock.now(), MOST_SCHEDULES)

    async def consumers(self) -> Sequence[ConsumerFigures]:
        return await self._store.figures.consumers()

    async def streams(self) -> Sequence[StreamFigures]:
        return await self._store.figures.streams()
