"""What a store knows of pipelines: their runs, which Spark writes down beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NoReturn, Protocol

from penstock.errors import Unsupported
from penstock.model.pipelines import PipelineRun
from penstock.model.tenants import TenantId


class PipelineStore(Protocol):
    """`seen_since` divides the runs that are running from those that are lost."""

    async def list_runs(
        self, tenant: TenantId, pipeline: str | None, limit: int, seen_since: datetime
    ) -> Sequence[PipelineRun]:
        """Newest first."""

    async def last_runs(
        self, tenant: TenantId, pipelines: Sequence[str], seen_since: datetime
    ) -> Sequence[PipelineRun]:
        """The last run of each that ever ran."""


async def _refuse(*_: object, **__: object) -> NoReturn:
    raise Unsupported("pipelines require PostgreSQL; this server runs without it")


class NoPipelines:
    list_runs = last_runs = _refuse
