"""Topics on PostgreSQL: every verb is one call of a SQL function, or one look."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from penstock.errors import DeliveryNotFound, PenstockError, SubscriptionNotFound, TopicNotFound
from penstock.model.tenants import TenantId
from penstock.model.topics import (
    Attempted,
    Delivery,
    DeliveryState,
    Fanout,
    NewSubscription,
    Outgoing,
    Published,
    Stale,
    SubscriberChanges,
    Subscription,
    Topic,
    TopicCounts,
)
from penstock.store.postgres.connections import SQL, Connections
from penstock.store.postgres.topics import rows
from penstock.store.topics import Changes

_LATEST = 2**63 - 1


class PostgresTopics:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    # Topics

    async def create_topic(
        self, tenant: TenantId, name: str, attributes: Mapping[str, str], tags: Mapping[str, str], now: datetime
    ) -> tuple[Topic, bool]:
        given = json.dumps(dict(attributes)), json.dumps(dict(tags))
        created = await self._connections.value("create_topic", tenant, name, *given, now)
        return await self.get_topic(tenant, name), bool(created)

    async def get_topic(self, tenant: TenantId, name: str) -> Topic:
        row = await self._connections.row("get_topic", tenant, name)
        if row is None:
            raise TopicNotFound(f"Topic '{name}' does not exist")
        return rows.topic(row)

    async def list_topics(self, tenant: TenantId, *, after: str = "", limit: int = 100) -> list[Topic]:
        return [rows.topic(row) for row in await self._connections.rows("list_topics", tenant, after, limit)]

    async def update_topic(self, tenant: TenantId, name: str, *, attributes: Changes, tags: Changes) -> Topic:
        await self._connections.value(
            "update_topic", tenant, name, json.dumps(dict(attributes)), json.dumps(dict(tags))
        )
        return await self.get_topic(tenant, name)

    async def drop_topic(self, tenant: TenantId, name: str) -> bool:
        return bool(await self._connections.value("drop_topic", tenant, name))

    async def count_subscriptions(self, tenant: TenantId, topic: str) -> TopicCounts:
        row = await self._connections.row("count_subscriptions", tenant, topic)
        if row is None:
            raise TopicNotFound(f"Topic '{topic}' does not exist")
        return TopicCounts(confirmed=row["confirmed"], pending=row["pending"], deleted=row["deleted"])

    # Subscriptions

    async def subscribe(self, new: NewSubscription, now: datetime) -> tuple[Subscription, bool]:
        row = await self._connections.row(
            "subscribe", new.tenant, new.topic, new.pattern, new.protocol, new.endpoint, new.target,
            new.target_tenant, json.dumps(new.attributes), new.confirmed, new.token_sha256, new.owner, new.secret, now,
        )  # fmt: skip
        assert row is not None
        return await self.get_subscription(new.tenant, row["subscription_key"]), row["created"]

    async def get_subscription(self, tenant: TenantId | None, key: str) -> Subscription:
        named = _uuid(key)
        row = await self._connections.row("get_subscription", tenant, named) if named is not None else None
        if row is None:
            raise SubscriptionNotFound()
        return rows.subscription(row)

    async def list_subscriptions(
        self,
        tenant: TenantId,
        *,
        topic: str | None = None,
        pattern: str | None = None,
        target: str | None = None,
        every: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> list[Subscription]:
        query: tuple[Any, ...] = ("list_all_subscriptions" if every else "list_subscriptions", tenant, after, limit)
        for kind, name in (("topic", topic), ("pattern", pattern), ("target", target)):
            if name is not None:
                query = (f"list_subscriptions_of_{kind}", tenant, after, limit, name)
        return [rows.subscription(row) for row in await self._connections.rows(*query)]

    async def update_subscription(self, tenant: TenantId, key: str, attributes: Changes) -> Subscription:
        named = _uuid(key)
        if named is not None:
            await self._connections.value("update_subscription", tenant, named, json.dumps(dict(attributes)))
        return await self.get_subscription(tenant, key)

    async def confirm_subscription(self, tenant: TenantId | None, token_sha256: str) -> Subscription:
        row = await self._connections.row("confirm_subscription", tenant, token_sha256)
        if row is None:
            raise SubscriptionNotFound()
        return rows.subscription(row)

    async def unsubscribe(self, tenant: TenantId | None, key: str) -> Subscription | None:
        named = _uuid(key)
        row = await self._connections.row("unsubscribe", tenant, named) if named is not None else None
        return None if row is None else rows.subscription(row)

    # Publishing

    async def routes(self, tenant: TenantId, since: int | None) -> SubscriberChanges:
        async def read(connection: Any) -> SubscriberChanges:
            # One snapshot for all of it, so that the version is that of what was read.
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                current = await connection.fetchrow(SQL["routes_version"], tenant) or {"version": 0, "forgotten": 0}
                whole = since is None or since < current["forgotten"]
                known = 0 if whole else since
                topics = await connection.fetch(SQL["routes_topics"], tenant, known)
                subscriptions = await connection.fetch(SQL["routes_subscriptions"], tenant, known)
                gone = [] if whole else await connection.fetch(SQL["routes_removals"], tenant, known)
            return SubscriberChanges(
                version=current["version"],
                whole=whole,
                topics=[rows.topic(row) for row in topics],
                subscriptions=[rows.subscription(row) for row in subscriptions],
                gone_topics=[row["topic_id"] for row in gone if row["topic_id"] is not None],
                gone_subscriptions=[row["subscription_id"] for row in gone if row["subscription_id"] is not None],
            )

        found: SubscriberChanges = await self._connections.call(read, True)
        return found

    async def publish_many(self, fanouts: Sequence[Fanout], now: datetime) -> list[Published | Stale | PenstockError]:
        row = await self._connections.row("publish", *rows.publish_arguments(fanouts), now, rows.event_traces(fanouts))
        assert row is not None
        return rows.published(fanouts, row)

    async def outgoing(self, limit: int) -> list[Outgoing]:
        return [rows.outgoing(row) for row in await self._connections.rows("outgoing", limit)]

    # Deliveries

    async def claim_deliveries(
        self, now: datetime, *, limit: int, each: int, busy: Mapping[int, int], after: int, lease_s: float
    ) -> list[Delivery]:
        found = await self._connections.rows(
            "claim_deliveries", limit, each, list(busy), list(busy.values()), after, lease_s, now
        )
        return [rows.delivery(row) for row in found]

    async def finish_deliveries(self, attempts: Sequence[Attempted], now: datetime) -> list[bool]:
        done: list[bool] = await self._connections.value(
            "finish_deliveries",
            [attempt.id for attempt in attempts],
            [attempt.lease for attempt in attempts],
            [attempt.delivered for attempt in attempts],
            [attempt.retry_at for attempt in attempts],
            [attempt.status for attempt in attempts],
            [attempt.error for attempt in attempts],
            now,
        )
        return done

    async def get_delivery(self, tenant: TenantId, delivery_id: int) -> Delivery:
        row = await self._connections.row("get_delivery", tenant, delivery_id)
        if row is None:
            raise DeliveryNotFound()
        return rows.delivery(row)

    async def list_deliveries(
        self,
        tenant: TenantId,
        *,
        state: DeliveryState | None = None,
        subscription_id: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Delivery]:
        number = None if state is None else rows.STATES.index(state)
        query: tuple[Any, ...] = ("list_deliveries", tenant, before or _LATEST, limit)
        if subscription_id is not None:
            query = ("list_deliveries_of_subscription", *query[1:], subscription_id, number)
        elif state is not None:
            query = ("list_deliveries_of_state", *query[1:], number)
        return [rows.delivery(row) for row in await self._connections.rows(*query)]

    async def replay_delivery(self, tenant: TenantId, delivery_id: int, now: datetime) -> Delivery:
        await self._connections.value("replay_delivery", tenant, delivery_id, now)
        return await self.get_delivery(tenant, delivery_id)

    async def drop_delivery(self, tenant: TenantId, delivery_id: int) -> bool:
        return await self._connections.value("drop_delivery", tenant, delivery_id) is not None

    async def sweep_topics(
        self, now: datetime, *, delivered_before: datetime, exhausted_before: datetime, limit: int
    ) -> int:
        return int(await self._connections.value("sweep_topics", now, delivered_before, exhausted_before, limit))

    # What nodes share

    async def find_secret(self, name: str) -> str | None:
        found: str | None = await self._connections.value("find_secret", name)
        return found

    async def shared_secret(self, name: str, fresh: str) -> str:
        await self._connections.value("add_secret", name, fresh)
        return str(await self._connections.value("find_secret", name))


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
