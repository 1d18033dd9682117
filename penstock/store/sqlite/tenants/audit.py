"""The audit log on SQLite."""

from __future__ import annotations

from datetime import datetime

from penstock.model.audit import Act
from penstock.model.tenants import TenantId
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.moments import micros, moment
from penstock.store.sqlite.session import Session


class SqliteAudit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def note_act(
        self, tenant: TenantId | None, actor: str, act: str, subject: str, detail: str, now: datetime
    ) -> None:
        await self._database.write(lambda s: note_act(s, tenant, actor, act, subject, detail, micros(now)))

    async def list_acts(self, tenant: TenantId | None, before: int | None, limit: int) -> list[Act]:
        rows = await self._database.read(lambda s: s.all("list_acts", tenant=tenant, before=before, limit=limit))
        return [Act(**{**dict(row), "at": moment(row["at"])}) for row in rows]


def note_act(
    session: Session, tenant: TenantId | None, actor: str, act: str, subject: str, detail: str, now: int
) -> None:
    """Within the transaction of the act itself."""
    session.run("insert_act", tenant=tenant, actor=actor, act=act, subject=subject, detail=detail, now=now)
