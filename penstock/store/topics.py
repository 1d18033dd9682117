"""What a store can do with topics, subscriptions and deliveries.

The engine decides who receives a publish: it keeps the subscriptions of a tenant at hand, as *routes* with a version.
The store takes the whole fan-out in one transaction, and refuses one made with routes that have changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from penstock.errors import PenstockError
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

Changes = Mapping[str, str | None]
"""Values to set by name; None removes."""


class TopicStore(Protocol):
    # Topics

    async def create_topic(
        self, tenant: TenantId, name: str, attributes: Mapping[str, str], tags: Mapping[str, str], now: datetime
    ) -> tuple[Topic, bool]:
        """The new topic and True; or the one that has the name already, unchanged, and False."""

    async def get_topic(self, tenant: TenantId, name: str) -> Topic:
        """Raises `TopicNotFound`."""

    async def list_topics(self, tenant: TenantId, *, after: str = "", limit: int = 100) -> list[Topic]:
        """By name, those after `after`."""

    async def update_topic(self, tenant: TenantId, name: str, *, attributes: Changes, tags: Changes) -> Topic: ...

    async def drop_topic(self, tenant: TenantId, name: str) -> bool:
        """Remove the topic with its subscriptions; False when there is none."""

    async def count_subscriptions(self, tenant: TenantId, topic: str) -> TopicCounts: ...

    # Subscriptions

    async def subscribe(self, new: NewSubscription, now: datetime) -> tuple[Subscription, bool]:
        """The new subscription and True; or the one of the same protocol and endpoint, and False.

        One that is not confirmed yet takes the new token. Raises `TopicNotFound`.
        """

    async def get_subscription(self, tenant: TenantId | None, key: str) -> Subscription:
        """Raises `SubscriptionNotFound`. Without a tenant, anyone's."""

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
        """By id, those after `after`: of one topic, of one pattern, of one receiving queue, or of all topics.

        With `every`, those of all topics and of all patterns.
        """

    async def update_subscription(self, tenant: TenantId, key: str, attributes: Changes) -> Subscription: ...

    async def confirm_subscription(self, tenant: TenantId | None, token_sha256: str) -> Subscription:
        """Raises `SubscriptionNotFound` when no subscription waits for, or was confirmed by, this token.

        Without a tenant the token alone decides: it is proof enough.
        """

    async def unsubscribe(self, tenant: TenantId | None, key: str) -> Subscription | None:
        """The subscription that is no more; None when there was none."""

    # Publishing

    async def routes(self, tenant: TenantId, since: int | None) -> SubscriberChanges:
        """The tenant's topics and subscriptions, or what changed since a version."""

    async def publish_many(self, fanouts: Sequence[Fanout], now: datetime) -> list[Published | Stale | PenstockError]:
        """All that each fan-out leads to, in one transaction. A queue that cannot take its message is passed over."""

    async def outgoing(self, limit: int) -> list[Outgoing]:
        """Publishes from SQL that wait to be carried out, oldest first."""

    # Deliveries

    async def claim_deliveries(
        self,
        now: datetime,
        *,
        limit: int,
        each: int,
        busy: Mapping[int, int],
        after: int,
        lease_s: float,
    ) -> list[Delivery]:
        """Due deliveries, claimed until the lease ends: `limit` in all, and `each` per lane, less the lane's `busy`.

        The walk over the lanes begins behind `after`, so that none is always the last.
        """

    async def finish_deliveries(self, attempts: Sequence[Attempted], now: datetime) -> list[bool]:
        """Note what became of attempts; False where the lease was not the last, and nothing was changed.

        The body of an exhausted one is sent to its dead-letter queue, if it has one.
        """

    async def get_delivery(self, tenant: TenantId, delivery_id: int) -> Delivery:
        """Raises `DeliveryNotFound`."""

    async def list_deliveries(
        self,
        tenant: TenantId,
        *,
        state: DeliveryState | None = None,
        subscription_id: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Delivery]:
        """Newest first, those before `before`, without their bodies and headers."""

    async def replay_delivery(self, tenant: TenantId, delivery_id: int, now: datetime) -> Delivery:
        """Make a finished one pending again, with all its attempts ahead of it; `Conflict` while it is not finished."""

    async def drop_delivery(self, tenant: TenantId, delivery_id: int) -> bool: ...

    async def sweep_topics(
        self, now: datetime, *, delivered_before: datetime, exhausted_before: datetime, limit: int
    ) -> int:
        """Remove deliveries that ended before these moments, and expired records; the number of deliveries removed."""

    # What nodes share

    async def find_secret(self, name: str) -> str | None: ...

    async def shared_secret(self, name: str, fresh: str) -> str:
        """The text kept under this name; `fresh` becomes it when there is none."""
