"""Pipelines: what there is to run, and how its runs are doing. Spark runs them; here they are only watched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from penstock.clock import Clock
from penstock.engine.checks import check_range
from penstock.errors import NotFound
from penstock.model.pipelines import PIPELINES, PipelineRun, PipelineStatus
from penstock.model.tenants import TenantId
from penstock.store import Store

PATIENCE = timedelta(seconds=60)
"""A run reports every few seconds; one that was silent for so long is lost."""


class Pipelines:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store.pipelines
        self._clock = clock

    async def list(self, tenant: TenantId) -> Sequence[PipelineStatus]:
        """Every pipeline, with its last run if it ever ran."""
        found = await self._store.last_runs(tenant, list(PIPELINES), self._since())
        last = {run.pipeline: run for run in found}
        return [
            PipelineStatus(name=name, summary=summary, last_run=last.get(name)) for name, summary in PIPELINES.items()
        ]

    async def runs(self, tenant: TenantId, pipeline: str | None = None, limit: int = 100) -> Sequence[PipelineRun]:
        """Newest first, of one pipeline or of all."""
        check_range("limit", limit, (1, 1000))
        if pipeline is not None and pipeline not in PIPELINES:
            raise NotFound(f"there is no pipeline '{pipeline}'; there are {', '.join(PIPELINES)}", field="pipeline")
        return await self._store.list_runs(tenant, pipeline, limit, self._since())

    def _since(self) -> datetime:
        return self._clock.now() - PATIENCE
