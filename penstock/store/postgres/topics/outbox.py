"""The outbox on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from penstock import limits
from penstock.model.outbox import Channel, NewOutboxItem, OutboxItem, Record, RecordKind
from penstock.model.tenants import TenantId
from penstock.store.postgres.connections import Connections
from penstock.store.postgres.queues.rows import Row


class PostgresOutbox:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def add_outbox(self, items: Sequence[NewOutboxItem], now: datetime) -> list[int]:
        found = await self._connections.rows(
            "add_outbox",
            [item.tenant for item in items],
            [item.channel.value for item in items],
            [item.address for item in items],
            [item.message_id for item in items],
            [item.topic for item in items],
            [item.subject for item in items],
            [item.body for item in items],
            [item.attributes for item in items],
            now,
        )
        return [row["id"] for row in found]

    async def list_outbox(
        self, tenant: TenantId, *, channel: Channel | None = None, before: int | None = None, limit: int = 100
    ) -> list[OutboxItem]:
        rows = await self._connections.rows("list_outbox", tenant, channel, before, limit, limits.ANSWER_BYTES)
        return [_item(row) for row in rows]

    async def clear_outbox(self, tenant: TenantId) -> int:
        return int(await self._connections.value("clear_outbox", tenant))

    async def sweep_outbox(self, made_before: datetime, limit: int) -> int:
        return int(await self._connections.value("sweep_outbox", made_before, limit))

    # Records

    async def add_record(
        self,
        tenant: TenantId,
        kind: RecordKind,
        name: str,
        attributes: Mapping[str, str],
        now: datetime,
        handle: str | None = None,
    ) -> tuple[Record, bool]:
        texts = json.dumps(dict(attributes))
        while True:
            row = await self._connections.row("add_record", tenant, kind, name, handle, texts, now)
            if row is not None:
                return _record(row), True
            have = await self.find_record(tenant, kind, name=name)
            have = have or await self.find_record(tenant, kind, handle=handle)
            # Neither: it was removed just now, and there is room for ours.
            if have is not None:
                return have, False

    async def find_record(
        self, tenant: TenantId, kind: RecordKind, *, name: str | None = None, handle: str | None = None
    ) -> Record | None:
        if name is not None:
            row = await self._connections.row("record_by_name", tenant, kind, name)
        else:
            row = await self._connections.row("record_by_handle", tenant, kind, handle)
        return None if row is None else _record(row)

    async def list_records(
        self, tenant: TenantId, kind: RecordKind, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Record]:
        found = await self._connections.rows("list_records", tenant, kind, prefix, after, limit)
        return [_record(row) for row in found]

    async def update_record(
        self, tenant: TenantId, kind: RecordKind, name: str, changes: Mapping[str, str], handle: str | None = None
    ) -> Record | None:
        row = await self._connections.row("update_record", tenant, kind, name, json.dumps(dict(changes)), handle)
        return None if row is None else _record(row)

    async def drop_records(self, tenant: TenantId, kind: RecordKind, *, name: str = "", prefix: str = "") -> int:
        if prefix:
            return int(await self._connections.value("drop_records", tenant, kind, prefix))
        return int(await self._connections.value("drop_record", tenant, kind, name))


def _item(row: Row) -> OutboxItem:
    return OutboxItem(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        channel=Channel(row["channel"]),
        address=row["address"],
        message_id=row["message_id"],
        topic=row["topic"],
        subject=row["subject"],
        body=row["body"],
        attributes=row["attributes"],
        created_at=row["created_at"],
    )


def _record(row: Row) -> Record:
    return Record(
        kind=RecordKind(row["kind"]),
        name=row["name"],
        handle=row["handle"],
        attributes=json.loads(row["attributes"]),
        created_at=row["created_at"],
    )
