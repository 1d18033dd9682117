"""Insights on PostgreSQL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime

from penstock.model.insights import Finding, InsightCursor, InsightErrorRow, InsightKind, InsightRow, Question, Step
from penstock.model.tenants import TenantId
from penstock.store.postgres.connections import Connections
from penstock.store.postgres.queues.rows import Row

_ROLLUP = [field.name for field in fields(InsightRow)]
_ERROR = [field.name for field in fields(InsightErrorRow)]


class PostgresInsights:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def list_insights(
        self,
        tenant: TenantId,
        step: Step,
        *,
        kind: InsightKind | None,
        names: Sequence[str] | None,
        since: datetime,
        until: datetime,
        after: InsightCursor | None,
        limit: int,
    ) -> Sequence[InsightRow]:
        found = await self._connections.rows(
            "list_insights", tenant, step, kind, names, since, until, limit, *(after or (None, None, None))
        )
        return [_insight_row(row) for row in found]

    async def insight_names(self, tenant: TenantId, since: datetime, until: datetime) -> Sequence[str]:
        found = await self._connections.rows("list_insight_names", tenant, since, until)
        return [row["name"] for row in found]

    async def top_errors(
        self,
        tenant: TenantId,
        *,
        kind: InsightKind | None,
        names: Sequence[str] | None,
        since: datetime,
        until: datetime,
        limit: int,
    ) -> Sequence[InsightErrorRow]:
        found = await self._connections.rows("top_insight_errors", tenant, kind, names, since, until, limit)
        return [_error(row) for row in found]

    async def findings(self, tenant: TenantId, now: datetime, *, all_tenants: bool, limit: int) -> Sequence[Finding]:
        found = await self._connections.rows("list_findings", tenant, now, all_tenants, limit)
        return [_finding(row) for row in found]

    async def with_points(self, tenant: TenantId, now: datetime, findings: Sequence[Finding]) -> Sequence[Finding]:
        keys = [[getattr(each, name) for each in findings] for name in ("question", "kind", "name")]
        rows = await self._connections.rows("list_finding_points", tenant, now, *keys)
        points: dict[int, list[tuple[datetime, float]]] = defaultdict(list)
        for row in rows:
            points[row["place"]].append((row["at"], row["value"]))
        return [replace(each, points=tuple(points[place])) for place, each in enumerate(findings, 1)]


def _insight_row(row: Row) -> InsightRow:
    return InsightRow(**{name: row[name] for name in _ROLLUP} | {"kind": InsightKind(row["kind"])})


def _error(row: Row) -> InsightErrorRow:
    return InsightErrorRow(**{name: row[name] for name in _ERROR} | {"kind": InsightKind(row["kind"])})


def _finding(row: Row) -> Finding:
    return Finding(
        question=Question(row["question"]),
        kind=None if row["kind"] is None else InsightKind(row["kind"]),
        name=row["name"],
        before=row["before"],
        now=row["now"],
        detail=row["detail"],
    )
