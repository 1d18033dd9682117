"""Private queues on PostgreSQL: plain statements, each with its conditions inside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from penstock.errors import Conflict, NotFound
from penstock.model.private import (
    LinkData,
    NewPrivateQueue,
    Party,
    PrivateCounts,
    PrivateRecord,
    PrivateStatus,
    ServiceSummary,
)
from penstock.store.postgres.connections import Connections
from penstock.store.postgres.queues.rows import Row
from penstock.store.private import Changed

CHANNEL = "penstock_private"
PAGE = 1000

_FIND = {
    Party.RECIPIENT: "find_private_recipients",
    Party.SENDER: "find_private_senders",
    Party.NOTIFIER: "find_private_notifiers",
    Party.LINK: "find_private_links",
}
_IMPORTED = (
    "recipient_id",
    "sender_id",
    "recipient_keys",
    "sender_key",
    "notifier_id",
    "notifier_key",
    "link_id",
    "fixed_data",
    "mutable_data",
)


class PostgresPrivateQueues:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._changed: Changed = lambda number, version: None

    async def create_many(self, new: Sequence[NewPrivateQueue], now: datetime) -> list[PrivateRecord | None]:
        rows = await self._connections.rows(
            "create_private_queues",
            [each.recipient_id for each in new],
            [each.sender_id for each in new],
            [each.recipient_keys[0] for each in new],
            [each.sender_key for each in new],
            now,
        )
        made = {row["recipient_id"]: _record(row) for row in rows}
        return [made.get(each.recipient_id) for each in new]

    async def find(self, party: Party, ids: Sequence[bytes]) -> list[PrivateRecord]:
        return [_record(row) for row in await self._connections.rows(_FIND[party], list(ids))]

    async def get(self, number: int) -> PrivateRecord | None:
        return _maybe(await self._connections.row("get_private_queue", number))

    async def secure(self, number: int, key: bytes) -> PrivateRecord | None:
        return await self._change("secure_private_queue", number, key)

    async def set_notifier(self, number: int, notifier_id: bytes | None, key: bytes | None) -> PrivateRecord | None:
        return await self._change("set_private_notifier", number, notifier_id, key)

    async def set_webhook(self, number: int, subscription_key: str | None) -> PrivateRecord | None:
        return await self._change("set_private_webhook", number, subscription_key)

    async def set_link(self, number: int, link_id: bytes, data: LinkData) -> PrivateRecord | None:
        return await self._change("set_private_link", number, link_id, data.fixed, data.mutable)

    async def clear_link(self, number: int) -> PrivateRecord | None:
        return await self._change("clear_private_link", number)

    async def link_data(self, link_id: bytes) -> LinkData | None:
        row = await self._connections.row("private_link_data", link_id)
        return LinkData(row["fixed_data"], row["mutable_data"]) if row is not None else None

    async def set_status(self, number: int, status: PrivateStatus, reason: str | None) -> PrivateRecord | None:
        return await self._change("set_private_status", number, status.value, reason)

    async def set_recipient_keys(self, number: int, keys: Sequence[bytes]) -> PrivateRecord | None:
        return await self._change("set_private_recipient_keys", number, list(keys))

    async def touch(self, numbers: Sequence[int], now: datetime) -> int:
        return int(await self._connections.value("touch_private_queues", list(numbers), now, durable=False))

    async def delete(self, number: int, now: datetime) -> PrivateRecord | None:
        return await self._change("delete_private_queue", number, now)

    async def compact(self, before: datetime, limit: int) -> list[int]:
        return [row["id"] for row in await self._connections.rows("compact_private_queues", before, limit)]

    async def service(self, fingerprint: bytes, now: datetime) -> int:
        # The unique index serialises two that come at once: the second waits, inserts nothing, and finds the first.
        found = await self._connections.value("find_private_service", fingerprint)
        if found is None:
            await self._connections.value("make_private_service", fingerprint, now)
            found = await self._connections.value("find_private_service", fingerprint)
        return int(found)

    async def associate(self, number: int, service_id: int | None) -> PrivateRecord | None:
        try:
            return await self._change("associate_private_queue", number, service_id)
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("the service does not exist", field="service_id") from None

    async def service_summary(self, service_id: int) -> ServiceSummary | None:
        row = await self._connections.row("private_service_summary", service_id)
        if row is None:
            return None
        digest = (row["low"] % (1 << 64)).to_bytes(8, "big") + (row["high"] % (1 << 64)).to_bytes(8, "big")
        return ServiceSummary(id=row["id"], queues=row["queues"], hash=digest.hex())

    async def counts(self) -> PrivateCounts:
        row = await self._connections.row("count_private_queues")
        assert row is not None
        return PrivateCounts(**dict(row))

    async def stream(self) -> AsyncIterator[PrivateRecord]:
        last = 0
        while rows := await self._connections.rows("next_private_queues", last, PAGE):
            for row in rows:
                yield _record(row)
            last = rows[-1]["id"]

    async def import_many(self, records: Iterable[NewPrivateQueue], now: datetime) -> int:
        rows = (
            (
                each.recipient_id, each.sender_id, each.recipient_keys, each.sender_key, each.notifier_id,
                each.notifier_key, each.link_id, each.fixed_data, each.mutable_data, now, now,
            )
            for each in records
        )  # fmt: skip

        async def copy(connection: Any) -> str:
            tag: str = await connection.copy_records_to_table(
                "private_queues",
                schema_name="penstock",
                columns=[*_IMPORTED, "created_at", "touched_at"],
                records=rows,
            )
            return tag

        try:
            return int((await self._connections.call(copy, True)).split()[-1])
        except asyncpg.UniqueViolationError:
            raise Conflict("an id of an imported record is taken; nothing was imported") from None

    def watch(self, changed: Changed) -> None:
        self._changed = changed

    def heard(self, payload: str) -> None:
        """A notification; empty when some may have been missed."""
        number, _, version = payload.partition(" ")
        if not payload:
            self._changed(None, 0)
        elif number.isdigit() and version.isdigit():
            self._changed(int(number), int(version))

    async def _change(self, statement: str, *arguments: Any) -> PrivateRecord | None:
        try:
            return _maybe(await self._connections.row(statement, *arguments))
        except asyncpg.UniqueViolationError:
            raise Conflict("the id is taken") from None


def _maybe(row: Row | None) -> PrivateRecord | None:
    return None if row is None else _record(row)


def _record(row: Row) -> PrivateRecord:
    return PrivateRecord(
        number=row["id"],
        version=row["version"],
        recipient_id=row["recipient_id"],
        sender_id=row["sender_id"],
        notifier_id=row["notifier_id"],
        link_id=row["link_id"],
        recipient_keys=tuple(row["recipient_keys"]),
        sender_key=row["sender_key"],
        notifier_key=row["notifier_key"],
        status=PrivateStatus(row["status"]),
        block_reason=row["block_reason"],
        webhook_key=row["webhook_key"],
        service_id=row["service_id"],
        created_at=row["created_at"],
        touched_at=row["touched_at"],
    )
