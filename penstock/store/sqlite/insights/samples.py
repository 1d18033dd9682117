"""Samples for charts, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from penstock.model.samples import Outcome, OutcomeKind, OutcomePoint, Sample, SampledPoint, SampleKind, SampleStep
from penstock.model.tenants import TenantId
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.moments import maybe_moment, micros, moment
from penstock.store.sqlite.session import Session


class SqliteSamples:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def latest(self, step: SampleStep) -> datetime | None:
        return maybe_moment(await self._database.read(lambda s: s.value("latest_sample", step=int(step))))

    async def add(self, step: SampleStep, starts_at: datetime, samples: Sequence[Sample]) -> None:
        rows = json.dumps(
            [(one.tenant, one.kind, one.name, one.arrived, one.departed, one.waiting, one.oldest_s) for one in samples]
        )
        await self._database.write(
            lambda s: s.run("add_samples", step=int(step), starts_at=micros(starts_at), rows=rows)
        )

    async def series(
        self, tenant: TenantId, kind: SampleKind, name: str, step: SampleStep, since: datetime
    ) -> Sequence[SampledPoint]:
        rows = await self._database.read(
            lambda s: s.all(
                "sample_series", tenant=tenant, kind=kind.value, name=name, step=int(step), since=micros(since)
            )
        )
        return [SampledPoint(**{**dict(row), "starts_at": moment(row["starts_at"])}) for row in rows]

    async def waiting(self, tenant: TenantId, kind: SampleKind, at: datetime) -> Mapping[str, int]:
        rows = await self._database.read(
            lambda s: s.all("sampled_waiting", tenant=tenant, kind=kind.value, at=micros(at))
        )
        return {row["name"]: row["waiting"] for row in rows}

    async def sweep(self, step: SampleStep, before: datetime, limit: int) -> int:
        values = {"step": int(step), "before": micros(before), "limit": limit}

        def work(session: Session) -> int:
            return sum(session.run(name, **values).rowcount for name in ("sweep_samples", "sweep_outcomes"))

        return await self._database.write(work)

    async def add_outcomes(self, step: SampleStep, starts_at: datetime, outcomes: Sequence[Outcome]) -> None:
        def work(session: Session) -> None:
            for one in outcomes:
                session.run(
                    "add_outcome", tenant=one.tenant, kind=one.kind.value, step=int(step),
                    starts_at=micros(starts_at), good=one.good, bad=one.bad,
                )  # fmt: skip

        await self._database.write(work)

    async def outcomes(self, tenant: TenantId, step: SampleStep, since: datetime) -> Sequence[OutcomePoint]:
        rows = await self._database.read(
            lambda s: s.all("list_outcomes", tenant=tenant, step=int(step), since=micros(since))
        )
        return [
            OutcomePoint(
                kind=OutcomeKind(row["kind"]), starts_at=moment(row["starts_at"]), good=row["good"], bad=row["bad"]
            )
            for row in rows
        ]
