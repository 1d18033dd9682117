"""Insights: numbers per hour and day, as the pipeline `insights` recorded them, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from penstock.clock import Clock
from penstock.engine.checks import check_moment, check_range, check_text
from penstock.errors import Invalid
from penstock.limits import INSIGHT_ERRORS, INSIGHT_ROWS
from penstock.model.insights import Finding, InsightCursor, InsightErrorRow, InsightKind, InsightRow, Step
from penstock.model.tenants import TenantId
from penstock.store import Store

USUAL = {Step.HOUR: timedelta(days=1), Step.DAY: timedelta(days=30)}
"""How far back to look when the caller names no start."""

FINDINGS = 100
"""Answers to each question."""

Reaches = Callable[[str], bool]
"""Whether the caller may see what has this name; None where the caller may see everything."""


class Insights:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store.insights
        self._clock = clock

    async def list(
        self,
        tenant: TenantId,
        step: Step = Step.HOUR,
        *,
        kind: InsightKind | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: InsightCursor | None = None,
        limit: int = INSIGHT_ROWS[1],
        reaches: Reaches | None = None,
    ) -> Sequence[InsightRow]:
        check_range("limit", limit, INSIGHT_ROWS)
        if after is not None:
            check_moment("after", after[0])
            check_text("after", after[2])
        since, until = self._bounds(name, since, until, USUAL[step])
        return await self._store.list_insights(
            tenant, step, kind=kind, names=await self._names(tenant, name, reaches, since, until), since=since,
            until=until, after=after, limit=limit,
        )  # fmt: skip

    async def errors(
        self,
        tenant: TenantId,
        *,
        kind: InsightKind | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        reaches: Reaches | None = None,
    ) -> Sequence[InsightErrorRow]:
        check_range("limit", limit, INSIGHT_ERRORS)
        since, until = self._bounds(name, since, until, USUAL[Step.HOUR])
        names = await self._names(tenant, name, reaches, since, until)
        return await self._store.top_errors(tenant, kind=kind, names=names, since=since, until=until, limit=limit)

    async def findings(
        self, tenant: TenantId, *, all_tenants: bool = False, points: bool = False, reaches: Reaches | None = None
    ) -> Sequence[Finding]:
        """What is remarkable: which queue slows down, what grows, which error is new, where more and more waits."""
        now = self._clock.now()
        found = await self._store.findings(tenant, now, all_tenants=all_tenants, limit=FINDINGS)
        seen = [each for each in found if reaches is None or reaches(each.name)]
        return await self._store.with_points(tenant, now, seen) if points else seen

    async def _names(
        self, tenant: TenantId, name: str | None, reaches: Reaches | None, since: datetime, until: datetime
    ) -> Sequence[str] | None:
        """Which to ask for, so that a limit counts only what may be seen; None for all."""
        if reaches is None:
            return None if name is None else [name]
        among = await self._store.insight_names(tenant, since, until) if name is None else [name]
        return [each for each in among if reaches(each)]

    def _bounds(
        self, name: str | None, since: datetime | None, until: datetime | None, usual: timedelta
    ) -> tuple[datetime, datetime]:
        if name is not None:
            check_text("name", name)
        check_moment("from", since)
        check_moment("to", until)
        # The hour, and the day, that is under way began before now.
        until = until or self._clock.now() + timedelta(seconds=1)
        since = since or until - usual
        if since >= until:
            raise Invalid("from must be before to", field="from")
        return since, until
