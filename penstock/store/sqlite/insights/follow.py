"""Following one thing on SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from penstock.model.follow import FifoGroup, FollowedEvent, FollowedMessage, MessageState
from penstock.model.tenants import TenantId
from penstock.model.topics import Delivery
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.moments import maybe_moment, micros, moment
from penstock.store.sqlite.session import Session
from penstock.store.sqlite.topics.deliveries import delivery_of

_STATES = (MessageState.READY, MessageState.IN_FLIGHT, MessageState.DELAYED, MessageState.BLOCKED)


class SqliteFollow:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def messages(self, tenant: TenantId, number: int) -> Sequence[FollowedMessage]:
        found = await self._database.read(lambda s: s.all("follow_message", tenant=tenant, id=number))
        return [_message(row) for row in found]

    async def traced_messages(
        self, tenant: TenantId, beginnings: Sequence[str], limit: int
    ) -> Sequence[FollowedMessage]:
        def look(session: Session) -> list[FollowedMessage]:
            found = [
                _message(row)
                for beginning in beginnings
                for row in session.all("follow_trace", tenant=tenant, beginning=beginning, limit=limit)
            ]
            return sorted(found, key=lambda one: one.id)[:limit]

        return await self._database.read(look)

    async def deliveries(self, tenant: TenantId, message_id: str, limit: int) -> Sequence[Delivery]:
        found = await self._database.read(
            lambda s: s.all("follow_deliveries", tenant=tenant, message_id=message_id, limit=limit)
        )
        return [delivery_of(row) for row in found]

    async def events(self, tenant: TenantId, number: int, stream: str | None) -> Sequence[FollowedEvent]:
        return ()

    async def traced_events(
        self, tenant: TenantId, beginnings: Sequence[str], recent: int, limit: int
    ) -> Sequence[FollowedEvent]:
        return ()

    async def hidden(self, tenant: TenantId, queue: str, limit: int, now: datetime) -> Sequence[FollowedMessage]:
        found = await self._database.read(
            lambda s: s.all("hidden_messages", tenant=tenant, queue=queue, limit=limit, now=micros(now))
        )
        return [_message(row) for row in found]

    async def groups(self, tenant: TenantId, queue: str, among: int, limit: int) -> Sequence[FifoGroup]:
        found = await self._database.read(
            lambda s: s.all("fifo_groups", tenant=tenant, queue=queue, among=among, limit=limit)
        )
        return [
            FifoGroup(
                group_id=row["group_id"],
                messages=row["messages"],
                first_id=row["first_id"],
                state=_STATES[row["state"]],
                until=moment(row["visible_at"]),
                receives=row["receives"],
            )
            for row in found
        ]


def _message(row: sqlite3.Row) -> FollowedMessage:
    return FollowedMessage(
        id=row["id"],
        queue=row["queue"],
        state=MessageState.ARCHIVED if row["state"] is None else _STATES[row["state"]],
        sent_at=moment(row["sent_at"]),
        first_received_at=maybe_moment(row["first_received_at"]),
        visible_at=maybe_moment(row["visible_at"]),
        expires_at=maybe_moment(row["expires_at"]),
        receives=row["receives"],
        receives_before=row["receives_before"],
        group_id=row["group_id"],
        trace=row["trace"],
        schedule=_schedule(row["headers"]),
        dead_letter_source=row["dead_letter_source"],
        archived_at=maybe_moment(row["archived_at"]),
    )


def _schedule(headers: str | None) -> str | None:
    if headers is None or "_schedule" not in headers:
        return None
    try:
        mark = json.loads(headers).get("_schedule")
    except (ValueError, AttributeError, RecursionError):
        return None
    name = mark.get("name") if isinstance(mark, dict) else None
    return name if isinstance(name, str) else None
