"""What a store knows of insights: the numbers that Spark writes down beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NoReturn, Protocol

from penstock.errors import Unsupported
from penstock.model.insights import Finding, InsightCursor, InsightErrorRow, InsightKind, InsightRow, Step
from penstock.model.tenants import TenantId


class InsightStore(Protocol):
    """None as a kind or as names means all of them. Times are of the beginnings: from `since` on, before `until`."""

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
        """The newest first, then by kind and name; those that follow a place, if one is given."""

    async def insight_names(self, tenant: TenantId, since: datetime, until: datetime) -> Sequence[str]:
        """All that have an insight or an error."""

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
        """The most frequent first."""

    async def findings(self, tenant: TenantId, now: datetime, *, all_tenants: bool, limit: int) -> Sequence[Finding]:
        """The most remarkable of each question first, up to `limit` of each."""

    async def with_points(self, tenant: TenantId, now: datetime, findings: Sequence[Finding]) -> Sequence[Finding]:
        """The same findings, with the points of their charts."""


async def _refuse(*_: object, **__: object) -> NoReturn:
    raise Unsupported("insights require PostgreSQL; this server runs without it")


class NoInsights:
    list_insights = insight_names = top_errors = findings = with_points = _refuse
