"""Topics on SQLite: each verb is one transaction. Topics and subscriptions are here, the rest beside."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import uuid4

from penstock.errors import NotFound, PenstockError, SubscriptionNotFound, TopicNotFound
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
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.moments import micros, moment
from penstock.store.sqlite.session import Session
from penstock.store.sqlite.topics import deliveries, publishing
from penstock.store.topics import Changes


class SqliteTopics:
    def __init__(self, database: Database) -> None:
        self._database = database

    # Topics

    async def create_topic(
        self, tenant: TenantId, name: str, attributes: Mapping[str, str], tags: Mapping[str, str], now: datetime
    ) -> tuple[Topic, bool]:
        return await self._database.write(lambda s: _create_topic(s, tenant, name, attributes, tags, now))

    async def get_topic(self, tenant: TenantId, name: str) -> Topic:
        return await self._database.read(lambda s: _topic(_find_topic(s, tenant, name)))

    async def list_topics(self, tenant: TenantId, *, after: str = "", limit: int = 100) -> list[Topic]:
        return await self._database.read(
            lambda s: [_topic(row) for row in s.all("list_topics", tenant=tenant, after=after, limit=limit)]
        )

    async def update_topic(self, tenant: TenantId, name: str, *, attributes: Changes, tags: Changes) -> Topic:
        def work(session: Session) -> Topic:
            row = _find_topic(session, tenant, name)
            session.run(
                "update_topic",
                id=row["id"],
                attributes=_changed(row["attributes"], attributes),
                tags=_changed(row["tags"], tags),
                version=session.value("raise_version", tenant=tenant),
            )
            return _topic(_find_topic(session, tenant, name))

        return await self._database.write(work)

    async def drop_topic(self, tenant: TenantId, name: str) -> bool:
        return await self._database.write(lambda s: _drop_topic(s, tenant, name))

    async def count_subscriptions(self, tenant: TenantId, topic: str) -> TopicCounts:
        row = await self._database.read(lambda s: s.first("count_topic_subscriptions", tenant=tenant, name=topic))
        if row is None:
            raise TopicNotFound(f"Topic '{topic}' does not exist")
        return TopicCounts(confirmed=row["confirmed"], pending=row["pending"], deleted=row["deleted"])

    # Subscriptions

    async def subscribe(self, new: NewSubscription, now: datetime) -> tuple[Subscription, bool]:
        return await self._database.write(lambda s: _subscribe(s, new, now))

    async def get_subscription(self, tenant: TenantId | None, key: str) -> Subscription:
        return await self._database.read(lambda s: _subscription(_find_subscription(s, tenant, key)))

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
        query = "list_all_subscriptions" if every else "list_subscriptions"
        values: dict[str, int | str] = {"tenant": tenant, "after": after, "limit": limit}
        for narrower, name in (
            ("list_subscriptions_of_topic", topic),
            ("list_subscriptions_of_pattern", pattern),
            ("list_subscriptions_of_target", target),
        ):
            if name is not None:
                query, values["name"] = narrower, name
        return await self._database.read(lambda s: [_subscription(row) for row in s.all(query, **values)])

    async def update_subscription(self, tenant: TenantId, key: str, attributes: Changes) -> Subscription:
        return await self._database.write(
            lambda s: _change(s, _find_subscription(s, tenant, key), attributes=attributes)
        )

    async def confirm_subscription(self, tenant: TenantId | None, token_sha256: str) -> Subscription:
        def work(session: Session) -> Subscription:
            row = session.first("subscription_of_token", tenant=tenant, token=token_sha256)
            if row is None:
                raise SubscriptionNotFound()
            return _change(session, row, confirmed=True)

        return await self._database.write(work)

    async def unsubscribe(self, tenant: TenantId | None, key: str) -> Subscription | None:
        return await self._database.write(lambda s: _unsubscribe(s, tenant, key))

    # Publishing

    async def routes(self, tenant: TenantId, since: int | None) -> SubscriberChanges:
        return await self._database.read(lambda s: _routes(s, tenant, since))

    async def publish_many(self, fanouts: Sequence[Fanout], now: datetime) -> list[Published | Stale | PenstockError]:
        return await self._database.write(lambda s: publishing.publish_many(s, fanouts, micros(now)))

    async def outgoing(self, limit: int) -> list[Outgoing]:
        """Nobody publishes from SQL here."""
        return []

    # Deliveries

    async def claim_deliveries(
        self, now: datetime, *, limit: int, each: int, busy: Mapping[int, int], after: int, lease_s: float
    ) -> list[Delivery]:
        at = micros(now)
        # An idle server asks every second: a look need not take the writer's lock.
        if await self._database.read(lambda s: s.first("next_lane", after=deliveries.FIRST)) is None:
            return []
        return await self._database.write(lambda s: deliveries.claim(s, at, limit, each, busy, after, lease_s))

    async def finish_deliveries(self, attempts: Sequence[Attempted], now: datetime) -> list[bool]:
        return await self._database.write(lambda s: deliveries.finish(s, attempts, micros(now)))

    async def get_delivery(self, tenant: TenantId, delivery_id: int) -> Delivery:
        return await self._database.read(lambda s: deliveries.get(s, tenant, delivery_id))

    async def list_deliveries(
        self,
        tenant: TenantId,
        *,
        state: DeliveryState | None = None,
        subscription_id: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Delivery]:
        return await self._database.read(
            lambda s: deliveries.list_deliveries(s, tenant, state, subscription_id, before, limit)
        )

    async def replay_delivery(self, tenant: TenantId, delivery_id: int, now: datetime) -> Delivery:
        return await self._database.write(lambda s: deliveries.replay(s, tenant, delivery_id, micros(now)))

    async def drop_delivery(self, tenant: TenantId, delivery_id: int) -> bool:
        gone = await self._database.write(lambda s: s.run("delete_delivery", tenant=tenant, id=delivery_id).rowcount)
        return gone > 0

    async def sweep_topics(
        self, now: datetime, *, delivered_before: datetime, exhausted_before: datetime, limit: int
    ) -> int:
        moments = micros(now), micros(delivered_before), micros(exhausted_before)
        return await self._database.write(lambda s: deliveries.sweep(s, *moments, limit))

    # What outlives a restart

    async def find_secret(self, name: str) -> str | None:
        found: str | None = await self._database.read(lambda s: s.value("find_secret", name=name))
        return found

    async def shared_secret(self, name: str, fresh: str) -> str:
        def work(session: Session) -> str:
            session.run("add_secret", name=name, secret=fresh)
            return str(session.value("find_secret", name=name))

        return await self._database.write(work)


def _create_topic(
    session: Session, tenant: TenantId, name: str, attributes: Mapping[str, str], tags: Mapping[str, str], now: datetime
) -> tuple[Topic, bool]:
    existing = session.first("find_topic", tenant=tenant, name=name)
    if existing is not None:
        return _topic(existing), False
    try:
        session.run(
            "insert_topic",
            tenant=tenant,
            name=name,
            fifo=name.endswith(".fifo"),
            attributes=json.dumps(dict(attributes)),
            tags=json.dumps(dict(tags)),
            version=session.value("raise_version", tenant=tenant),
            now=micros(now),
        )
    except sqlite3.IntegrityError as error:
        raise NotFound(f"Tenant {tenant} does not exist") from error
    return _topic(_find_topic(session, tenant, name)), True


def _find_topic(session: Session, tenant: TenantId, name: str) -> sqlite3.Row:
    row = session.first("find_topic", tenant=tenant, name=name)
    if row is None:
        raise TopicNotFound(f"Topic '{name}' does not exist")
    return row


def _drop_topic(session: Session, tenant: TenantId, name: str) -> bool:
    row = session.first("find_topic", tenant=tenant, name=name)
    if row is None:
        return False
    version = session.value("raise_version", tenant=tenant)
    for gone in session.all("delete_topic_subscriptions", id=row["id"]):
        session.run("insert_removal", tenant=tenant, version=version, topic=None, subscription=gone["id"])
    session.run("delete_topic_dedups", id=row["id"])
    session.run("delete_topic", id=row["id"])
    session.run("insert_removal", tenant=tenant, version=version, topic=row["id"], subscription=None)
    return True


def _subscribe(session: Session, new: NewSubscription, now: datetime) -> tuple[Subscription, bool]:
    topic_id = _find_topic(session, new.tenant, new.topic)["id"] if new.topic is not None else None
    named = {"topic_id": topic_id, "pattern": new.pattern, "protocol": new.protocol, "endpoint": new.endpoint}
    key = session.value("same_subscription", tenant=new.tenant, **named)
    if key is not None:
        if new.token_sha256 is not None:
            session.run("set_subscription_token", key=key, token=new.token_sha256)
        return _subscription(_find_subscription(session, new.tenant, key)), False
    key = str(uuid4())
    session.run(
        "insert_subscription",
        key=key,
        tenant=new.tenant,
        **named,
        target=new.target,
        target_tenant=new.target_tenant,
        attributes=json.dumps(new.attributes),
        confirmed=new.confirmed,
        token=new.token_sha256,
        owner=new.owner,
        secret=new.secret,
        version=session.value("raise_version", tenant=new.tenant),
        now=micros(now),
    )
    return _subscription(_find_subscription(session, new.tenant, key)), True


def _find_subscription(session: Session, tenant: TenantId | None, key: str) -> sqlite3.Row:
    row = session.first("get_subscription", tenant=tenant, key=key)
    if row is None:
        raise SubscriptionNotFound()
    return row


def _change(
    session: Session, row: sqlite3.Row, *, attributes: Changes | None = None, confirmed: bool | None = None
) -> Subscription:
    tenant = TenantId(row["tenant_id"])
    session.run(
        "update_subscription",
        id=row["id"],
        attributes=_changed(row["attributes"], attributes or {}),
        confirmed=row["confirmed"] if confirmed is None else confirmed,
        version=session.value("raise_version", tenant=tenant),
    )
    return _subscription(_find_subscription(session, tenant, row["key"]))


def _unsubscribe(session: Session, tenant: TenantId | None, key: str) -> Subscription | None:
    row = session.first("get_subscription", tenant=tenant, key=key)
    if row is None:
        return None
    version = session.value("raise_version", tenant=row["tenant_id"])
    session.run("delete_subscription", id=row["id"])
    session.run("insert_removal", tenant=row["tenant_id"], version=version, topic=None, subscription=row["id"])
    session.run("count_deleted_subscription", id=row["topic_id"])
    return _subscription(row)


def _routes(session: Session, tenant: TenantId, since: int | None) -> SubscriberChanges:
    current = session.first("routes_version", tenant=tenant)
    version, forgotten = (0, 0) if current is None else (current["version"], current["forgotten"])
    whole = since is None or since < forgotten
    known = 0 if whole else since
    gone = [] if whole else session.all("routes_removals", tenant=tenant, since=known)
    return SubscriberChanges(
        version=version,
        whole=whole,
        topics=[_topic(row) for row in session.all("routes_topics", tenant=tenant, since=known)],
        subscriptions=[_subscription(row) for row in session.all("routes_subscriptions", tenant=tenant, since=known)],
        gone_topics=[row["topic_id"] for row in gone if row["topic_id"] is not None],
        gone_subscriptions=[row["subscription_id"] for row in gone if row["subscription_id"] is not None],
    )


def _changed(text: str, changes: Changes) -> str:
    merged = json.loads(text) | dict(changes)
    return json.dumps({name: value for name, value in merged.items() if value is not None})


def _topic(row: sqlite3.Row) -> Topic:
    return Topic(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        name=row["name"],
        fifo=bool(row["fifo"]),
        attributes=json.loads(row["attributes"]),
        tags=json.loads(row["tags"]),
        created_at=moment(row["created_at"]),
    )


def _subscription(row: sqlite3.Row) -> Subscription:
    return Subscription(
        id=row["id"],
        key=row["key"],
        tenant=TenantId(row["tenant_id"]),
        topic=row["topic"],
        pattern=row["pattern"],
        protocol=row["protocol"],
        endpoint=row["endpoint"],
        target=row["target"],
        target_tenant=row["target_tenant_id"],
        attributes=json.loads(row["attributes"]),
        confirmed=bool(row["confirmed"]),
        owner=row["owner"],
        secret=row["secret"],
        created_at=moment(row["created_at"]),
    )
