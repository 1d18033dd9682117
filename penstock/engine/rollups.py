"""Insights: numbers per hour and day, as the pipeline `insights` recorded them. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from penstock.clock import Clock
from penstock.engine.checks import check_range, check_text
from penstock.errors import Invalid
from penstock.limits import INSIGHT_ERRORS, INSIGHT_ROWS
from penstock.model.rollups import Rollup, RollupError, RollupKind, Step
from penstock.model.tenants import TenantId
from penstock.store import Store

USUAL = {Step.HOUR: timedelta(days=1), Step.DAY: timedelta(days=30)}
"""How far back to look when nobody says."""


class Rollups:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store.rollups
        self._clock = clock

    async def list(
        self,
        tenant: TenantId,
        step: Step = Step.HOUR,
        *,
        kind: RollupKind | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = INSIGHT_ROWS[1],
    ) -> Sequence[Rollup]:
        check_range("limit", limit, INSIGHT_ROWS)
        since, until = self._bounds(name, since, until, USUAL[step])
        return await self._store.list_rollups(tenant, step, kind=kind, name=name, since=since, until=until, limit=limit)

    async def errors(
        self,
        tenant: TenantId,
        *,
        kind: RollupKind | None = None,
        name: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
    ) -> Sequence[RollupError]:
        check_range("limit", limit, INSIGHT_ERRORS)
        since, until = self._bounds(name, since, until, USUAL[Step.HOUR])
        return await self._store.top_errors(tenant, kind=kind, name=name, since=since, until=until, limit=limit)

    def _bounds(
        self, name: str | None, since: datetime | None, until: datetime | None, usual: timedelta
    ) -> tuple[datetime, datetime]:
        if name is not None:
            check_text("name", name)
        # The hour, and the day, that is under way began before now.
        until = until or self._clock.now() + timedelta(seconds=1)
        since = since or until - usual
        if since >= until:
            raise Invalid("from must be before to", field="from")
        return since, until
