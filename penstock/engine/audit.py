"""The audit: what administrators did, added to and never changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.clock import Clock
from penstock.engine.checks import check_range
from penstock.model.audit import Act
from penstock.model.tenants import TenantId
from penstock.store import Store

OPERATOR = "operator"
"""Whoever works at the command line, beside the database."""


class Audit:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def note(self, tenant: TenantId | None, actor: str, act: str, subject: str, **detail: Any) -> None:
        text = json.dumps(detail, default=str)
        await self._store.jobs.note_act(tenant, actor, act, subject, text, self._clock.now())

    async def list(
        self, tenant: TenantId | None = None, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Act]:
        """Newest first."""
        check_range("limit", limit, (1, 1000))
        return await self._store.jobs.list_acts(tenant, before, limit)
