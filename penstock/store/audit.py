"""What a store can do with the audit log, which is appended to and never changed."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from penstock.model.audit import Act
from penstock.model.tenants import TenantId


class AuditStore(Protocol):
    async def note_act(
        self, tenant: TenantId | None, actor: str, act: str, subject: str, detail: str, now: datetime
    ) -> None:
        """Append an act; `detail` is a JSON object."""

    async def list_acts(self, tenant: TenantId | None, before: int | None, limit: int) -> list[Act]:
        """Newest first, those with ids below `before`; (tenant None) of everyone's."""
