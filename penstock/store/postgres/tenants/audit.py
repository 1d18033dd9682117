"""The audit log on PostgreSQL."""

from __future__ import annotations

from datetime import datetime

from penstock.model.audit import Act
from penstock.model.tenants import TenantId
from penstock.store.postgres.connections import Connections


class PostgresAudit:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def note_act(
        self, tenant: TenantId | None, actor: str, act: str, subject: str, detail: str, now: datetime
    ) -> None:
        await self._connections.value("note_act", tenant, actor, act, subject, detail, now)

    async def list_acts(self, tenant: TenantId | None, before: int | None, limit: int) -> list[Act]:
        return [Act(**row) for row in await self._connections.rows("list_acts", tenant, before, limit)]
