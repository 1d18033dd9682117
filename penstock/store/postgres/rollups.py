"""Insights on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime

from penstock.model.rollups import Place, Rollup, RollupError, RollupKind, Step
from penstock.model.tenants import TenantId
from penstock.store.postgres.connections import Connections
from penstock.store.postgres.rows import Row

_ROLLUP = [field.name for field in fields(Rollup)]
_ERROR = [field.name for field in fields(RollupError)]


class PostgresRollups:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def list_rollups(
        self,
        tenant: TenantId,
        step: Step,
        *,
        kind: RollupKind | None,
        names: Sequence[str] | None,
        since: datetime,
        until: datetime,
        after: Place | None,
        limit: int,
    ) -> Sequence[Rollup]:
        found = await self._connections.rows(
            "list_rollups", tenant, step, kind, names, since, until, limit, *(after or (None, None, None))
        )
        return [_rollup(row) for row in found]

    async def rollup_names(self, tenant: TenantId, since: datetime, until: datetime) -> Sequence[str]:
        found = await self._connections.rows("list_rollup_names", tenant, since, until)
        return [row["name"] for row in found]

    async def top_errors(
        self,
        tenant: TenantId,
        *,
        kind: RollupKind | None,
        names: Sequence[str] | None,
        since: datetime,
        until: datetime,
        limit: int,
    ) -> Sequence[RollupError]:
        found = await self._connections.rows("top_rollup_errors", tenant, kind, names, since, until, limit)
        return [_error(row) for row in found]


def _rollup(row: Row) -> Rollup:
    return Rollup(**{name: row[name] for name in _ROLLUP} | {"kind": RollupKind(row["kind"])})


def _error(row: Row) -> RollupError:
    return RollupError(**{name: row[name] for name in _ERROR} | {"kind": RollupKind(row["kind"])})
