"""The audit log: what administrators did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.clock import Clock
from penstock.engine.checks import check_number, check_range
from penstock.model.audit import Act
from penstock.model.tenants import TenantId
from penstock.store import Store

OPERATOR = "operator"
"""The actor of commands that work on the database directly."""


class Audit:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store.audit
        self._clock = clock

    async def note(self, tenant: TenantId | None, actor: str, act: str, subject: str, **detail: Any) -> None:
        text = json.dumps(detail, default=str)
        await self._store.note_act(tenant, actor, act, subject, text, self._clock.now())

    async def list(
        self, tenant: TenantId | None = None, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Act]:
        """Newest first."""
        check_range("limit", limit, (1, 1000))
        check_number("before", before)
        return await self._store.list_acts(tenant, before, limit)
