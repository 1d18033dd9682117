"""The outbox on SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime

from penstock import limits
from penstock.model.outbox import Channel, NewOutboxItem, OutboxItem, Record, RecordKind
from penstock.model.queues import utf8_bytes
from penstock.model.tenants import TenantId
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.moments import micros, moment
from penstock.store.sqlite.session import Session


class SqliteOutbox:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add_outbox(self, items: Sequence[NewOutboxItem], now: datetime) -> list[int]:
        return await self._database.write(lambda s: [add_item(s, item, micros(now)) for item in items])

    async def list_outbox(
        self, tenant: TenantId, *, channel: Channel | None = None, before: int | None = None, limit: int = 100
    ) -> list[OutboxItem]:
        def work(session: Session) -> list[OutboxItem]:
            items: list[OutboxItem] = []
            room = limits.ANSWER_BYTES
            for row in session.each("list_outbox", tenant=tenant, channel=channel, before=before, limit=limit):
                items.append(_item(row))
                room -= utf8_bytes(row["body"]) + utf8_bytes(row["attributes"] or "")
                if room <= 0:
                    break
            return items

        return await self._database.read(work)

    async def clear_outbox(self, tenant: TenantId) -> int:
        return await self._database.write(lambda s: s.run("clear_outbox", tenant=tenant).rowcount)

    async def sweep_outbox(self, made_before: datetime, limit: int) -> int:
        before = micros(made_before)
        return await self._database.write(lambda s: s.run("sweep_outbox", before=before, limit=limit).rowcount)

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
        texts, at = json.dumps(dict(attributes)), micros(now)

        def work(session: Session) -> tuple[Record, bool]:
            added = session.run(
                "add_record", tenant=tenant, kind=kind, name=name, handle=handle, attributes=texts, now=at
            )
            have = _find(session, tenant, kind, name, None) or _find(session, tenant, kind, None, handle)
            assert have is not None
            return have, added.rowcount > 0

        return await self._database.write(work)

    async def find_record(
        self, tenant: TenantId, kind: RecordKind, *, name: str | None = None, handle: str | None = None
    ) -> Record | None:
        return await self._database.read(lambda s: _find(s, tenant, kind, name, handle))

    async def list_records(
        self, tenant: TenantId, kind: RecordKind, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Record]:
        def work(session: Session) -> list[Record]:
            found = session.all("list_records", tenant=tenant, kind=kind, prefix=prefix, after=after, limit=limit)
            return [_record(row) for row in found]

        return await self._database.read(work)

    async def update_record(
        self, tenant: TenantId, kind: RecordKind, name: str, changes: Mapping[str, str], handle: str | None = None
    ) -> Record | None:
        def work(session: Session) -> Record | None:
            have = _find(session, tenant, kind, name, None)
            if have is None:
                return None
            texts = json.dumps(have.attributes | dict(changes))
            session.run("update_record", tenant=tenant, kind=kind, name=name, attributes=texts, handle=handle)
            return _find(session, tenant, kind, name, None)

        return await self._database.write(work)

    async def drop_records(self, tenant: TenantId, kind: RecordKind, *, name: str = "", prefix: str = "") -> int:
        if prefix:
            return await self._database.write(
                lambda s: s.run("drop_records", tenant=tenant, kind=kind, prefix=prefix).rowcount
            )
        return await self._database.write(lambda s: s.run("drop_record", tenant=tenant, kind=kind, name=name).rowcount)


def _find(session: Session, tenant: TenantId, kind: RecordKind, name: str | None, handle: str | None) -> Record | None:
    if name is not None:
        row = session.first("record_by_name", tenant=tenant, kind=kind, name=name)
    else:
        row = session.first("record_by_handle", tenant=tenant, kind=kind, handle=handle)
    return None if row is None else _record(row)


def add_item(session: Session, item: NewOutboxItem, now: int) -> int:
    added: int = session.value(
        "add_outbox",
        tenant=item.tenant,
        channel=item.channel.value,
        address=item.address,
        message_id=item.message_id,
        topic=item.topic,
        subject=item.subject,
        body=item.body,
        attributes=item.attributes,
        now=now,
    )
    return added


def _item(row: sqlite3.Row) -> OutboxItem:
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
        created_at=moment(row["created_at"]),
    )


def _record(row: sqlite3.Row) -> Record:
    return Record(
        kind=RecordKind(row["kind"]),
        name=row["name"],
        handle=row["handle"],
        attributes=json.loads(row["attributes"]),
        created_at=moment(row["created_at"]),
    )
