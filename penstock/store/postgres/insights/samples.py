"""Samples for charts, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from penstock.model.samples import Outcome, OutcomeKind, OutcomePoint, Sample, SampledPoint, SampleKind, SampleStep
from penstock.model.tenants import TenantId
from penstock.store.postgres.connections import Connections


class PostgresSamples:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def latest(self, step: SampleStep) -> datetime | None:
        found: datetime | None = await self._connections.value("latest_sample", step)
        return found

    async def add(self, step: SampleStep, starts_at: datetime, samples: Sequence[Sample]) -> None:
        await self._connections.rows(
            "add_samples",
            step,
            starts_at,
            [sample.tenant for sample in samples],
            [sample.kind for sample in samples],
            [sample.name for sample in samples],
            [sample.arrived for sample in samples],
            [sample.departed for sample in samples],
            [sample.waiting for sample in samples],
            [sample.oldest_s for sample in samples],
        )

    async def series(
        self, tenant: TenantId, kind: SampleKind, name: str, step: SampleStep, since: datetime
    ) -> Sequence[SampledPoint]:
        rows = await self._connections.rows("sample_series", tenant, kind, name, step, since)
        return [SampledPoint(**row) for row in rows]

    async def waiting(self, tenant: TenantId, kind: SampleKind, at: datetime) -> Mapping[str, int]:
        rows = await self._connections.rows("sampled_waiting", tenant, kind, at)
        return {row["name"]: row["waiting"] for row in rows}

    async def sweep(self, step: SampleStep, before: datetime, limit: int) -> int:
        removed = int(await self._connections.value("sweep_outcomes", step, before, limit))
        return removed + int(await self._connections.value("sweep_samples", step, before, limit))

    async def add_outcomes(self, step: SampleStep, starts_at: datetime, outcomes: Sequence[Outcome]) -> None:
        await self._connections.rows(
            "add_outcomes",
            step,
            starts_at,
            [one.tenant for one in outcomes],
            [one.kind for one in outcomes],
            [one.good for one in outcomes],
            [one.bad for one in outcomes],
        )

    async def outcomes(self, tenant: TenantId, step: SampleStep, since: datetime) -> Sequence[OutcomePoint]:
        rows = await self._connections.rows("list_outcomes", tenant, step, since)
        return [OutcomePoint(**{**row, "kind": OutcomeKind(row["kind"])}) for row in rows]
