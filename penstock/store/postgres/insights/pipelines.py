"""Runs of pipelines on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from penstock.model.pipelines import PipelineRun, RunState
from penstock.model.tenants import TenantId
from penstock.store.postgres.connections import Connections
from penstock.store.postgres.queues.rows import Row


class PostgresPipelines:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def list_runs(
        self, tenant: TenantId, pipeline: str | None, limit: int, seen_since: datetime
    ) -> Sequence[PipelineRun]:
        found = await self._connections.rows("list_pipeline_runs", tenant, pipeline, limit, seen_since)
        return [_run(row) for row in found]

    async def last_runs(
        self, tenant: TenantId, pipelines: Sequence[str], seen_since: datetime
    ) -> Sequence[PipelineRun]:
        return [_run(row) for row in await self._connections.rows("last_pipeline_runs", tenant, pipelines, seen_since)]


def _run(row: Row) -> PipelineRun:
    return PipelineRun(
        id=row["id"],
        pipeline=row["pipeline"],
        settings=json.loads(row["settings"]),
        state=RunState(row["shown_state"]),
        started_at=row["started_at"],
        seen_at=row["seen_at"],
        finished_at=row["finished_at"],
        rows=row["rows"],
        batches=row["batches"],
        lag_events=row["lag_events"],
        lag_s=row["lag_s"],
        note=row["note"],
        error=row["error"],
        progress=json.loads(row["progress"]) if row["progress"] is not None else None,
    )
