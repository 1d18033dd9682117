"""Following one thing on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from penstock.model.follow import FifoGroup, FollowedEvent, FollowedMessage, MessageState
from penstock.model.stream_names import prefix_of, queue_of
from penstock.model.tenants import TenantId
from penstock.model.topics import Delivery
from penstock.store.postgres.connections import Connections
from penstock.store.postgres.queues.rows import Row
from penstock.store.postgres.topics.rows import delivery

MOST_STREAMS = 100
EVENTS_OF_AN_ID = 10
_STATES = (MessageState.READY, MessageState.IN_FLIGHT, MessageState.DELAYED, MessageState.BLOCKED)


class PostgresFollow:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def messages(self, tenant: TenantId, number: int) -> Sequence[FollowedMessage]:
        found = await self._connections.rows("follow_message", tenant, number)
        found += await self._connections.rows("follow_archived", tenant, number)
        return [_message(row) for row in found]

    async def traced_messages(
        self, tenant: TenantId, beginnings: Sequence[str], limit: int
    ) -> Sequence[FollowedMessage]:
        found = await self._connections.rows("follow_trace", tenant, list(beginnings), limit)
        found += await self._connections.rows("follow_archived_trace", tenant, list(beginnings), limit)
        return [_message(row) for row in found][:limit]

    async def deliveries(self, tenant: TenantId, message_id: str, limit: int) -> Sequence[Delivery]:
        return [delivery(row) for row in await self._connections.rows("follow_deliveries", tenant, message_id, limit)]

    async def events(self, tenant: TenantId, number: int, stream: str | None) -> Sequence[FollowedEvent]:
        queues = await self._queues(tenant) if stream is None else [queue_of(tenant, stream)]
        found = await self._connections.rows("follow_events", queues, number, EVENTS_OF_AN_ID)
        return [_event(row, prefix_of(tenant)) for row in found]

    async def traced_events(
        self, tenant: TenantId, beginnings: Sequence[str], recent: int, limit: int
    ) -> Sequence[FollowedEvent]:
        queues = await self._queues(tenant)
        found = await self._connections.rows("follow_traced_events", queues, list(beginnings), recent, limit)
        return [_event(row, prefix_of(tenant)) for row in found][:limit]

    async def hidden(self, tenant: TenantId, queue: str, limit: int, now: datetime) -> Sequence[FollowedMessage]:
        return [_message(row) for row in await self._connections.rows("hidden_messages", tenant, queue, limit, now)]

    async def groups(self, tenant: TenantId, queue: str, among: int, limit: int) -> Sequence[FifoGroup]:
        return [
            FifoGroup(
                group_id=row["group_id"],
                messages=row["messages"],
                first_id=row["first_id"],
                state=_STATES[row["state"]],
                until=row["visible_at"],
                receives=row["receives"],
            )
            for row in await self._connections.rows("fifo_groups", tenant, queue, among, limit)
        ]

    async def _queues(self, tenant: TenantId) -> list[str]:
        found = await self._connections.rows("list_streams", prefix_of(tenant), "", "", MOST_STREAMS)
        return [row["queue_name"] for row in found]


def _message(row: Row) -> FollowedMessage:
    state = row["state"]
    return FollowedMessage(
        id=row["id"],
        queue=row["queue"],
        state=MessageState.ARCHIVED if state is None else _STATES[state],
        sent_at=row["sent_at"],
        first_received_at=row["first_received_at"],
        visible_at=row["visible_at"],
        expires_at=row["expires_at"],
        receives=row["receives"],
        receives_before=row["receives_before"],
        group_id=row["group_id"],
        trace=row["trace"],
        schedule=row["schedule"],
        dead_letter_source=row["dead_letter_source"],
        archived_at=row["archived_at"],
    )


def _event(row: Row, prefix: str) -> FollowedEvent:
    deaths = json.loads(row["deaths"]) if row["deaths"] is not None else []
    return FollowedEvent(
        id=row["ev_id"],
        stream=row["queue_name"].removeprefix(prefix),
        type=row["ev_type"],
        created_at=row["ev_time"],
        retries=row["ev_retry"],
        trace=row["trace"],
        read_by=tuple(row["read_by"]),
        unread_by=tuple(row["unread_by"]),
        deaths=tuple((datetime.fromisoformat(at), consumer, reason) for at, consumer, reason in deaths),
    )
