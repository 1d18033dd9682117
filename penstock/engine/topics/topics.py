"""Topics: who is subscribed, and publishing to all of them at once."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence

from penstock import limits
from penstock.clock import Clock
from penstock.engine.batching import Batcher, KeyedBatchers
from penstock.engine.checks import check_id, check_name, check_range, check_text
from penstock.engine.metrics import Metrics
from penstock.engine.topics.fanout import Expanded, Expander
from penstock.engine.topics.notices import Kind, Signer
from penstock.engine.topics.routing_keys import check_pattern, check_routing_key
from penstock.engine.topics.subscribers import SubscriberCache
from penstock.engine.waiting import Waiters
from penstock.errors import Invalid, InvalidName, PenstockError, TopicNotFound, Unavailable, Unsupported
from penstock.model.tenants import TenantId
from penstock.model.topics import (
    QUEUE_PROTOCOL,
    STREAM_PROTOCOL,
    WEB_PROTOCOLS,
    Fanout,
    NewSubscription,
    Publish,
    Published,
    Stale,
    Subscription,
    Topic,
    TopicCounts,
)
from penstock.store import Store
from penstock.store.topics import Changes

log = logging.getLogger(__name__)

TOGETHER = 100
"""Publishes that share a statement, at most: each may have a hundred subscribers."""


class Topics:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        waiters: Waiters,
        metrics: Metrics,
        signer: Signer,
        *,
        base_url: str = "http://127.0.0.1:9324",
        batching: bool = True,
    ) -> None:
        self._store = store
        self._clock = clock
        self._waiters = waiters
        self._metrics = metrics
        self._routes = SubscriberCache(store.topics)
        self._expander = Expander(signer, clock, base_url)
        self._publishes: KeyedBatchers[Fanout, Published | Stale | PenstockError] = KeyedBatchers(
            lambda: Batcher(self._store_fanouts, limit=TOGETHER, enabled=batching)
        )
        self.on_deliveries: Callable[[], None] = lambda: None
        """Called when webhook deliveries wait to be made."""
        self.warning_about: Callable[[str], str | None] = lambda endpoint: None
        """Says why deliveries to an endpoint will fail."""

    # Topics

    async def create(
        self,
        tenant: TenantId,
        name: str,
        attributes: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> tuple[Topic, bool]:
        """The topic, and whether it is new. One that exists is left as it is."""
        check_topic(name)
        _check_texts("attributes", attributes or {})
        _check_texts("tags", tags or {})
        return await self._store.topics.create_topic(tenant, name, attributes or {}, tags or {}, self._clock.now())

    async def get(self, tenant: TenantId, name: str) -> Topic:
        return await self._store.topics.get_topic(tenant, name)

    async def list(self, tenant: TenantId, *, after: str = "", limit: int = 100) -> Sequence[Topic]:
        return await self._store.topics.list_topics(tenant, after=after, limit=limit)

    async def update(
        self, tenant: TenantId, name: str, *, attributes: Changes | None = None, tags: Changes | None = None
    ) -> Topic:
        _check_texts("attributes", attributes or {})
        _check_texts("tags", tags or {})
        return await self._store.topics.update_topic(tenant, name, attributes=attributes or {}, tags=tags or {})

    async def delete(self, tenant: TenantId, name: str) -> bool:
        return await self._store.topics.drop_topic(tenant, name)

    async def counts(self, tenant: TenantId, name: str) -> TopicCounts:
        return await self._store.topics.count_subscriptions(tenant, name)

    # Subscriptions

    async def subscribe(self, new: NewSubscription) -> tuple[Subscription, bool]:
        _check_subscription(new)
        if new.protocol == STREAM_PROTOCOL and not self._store.has_streams:
            raise Unsupported("streams require PostgreSQL")
        if new.protocol in WEB_PROTOCOLS and (warning := self.warning_about(new.endpoint)) is not None:
            log.warning("an endpoint that cannot be reached was subscribed", extra={"error": warning})
        return await self._store.topics.subscribe(new, self._clock.now())

    async def get_subscription(self, tenant: TenantId | None, key: str) -> Subscription:
        return await self._store.topics.get_subscription(tenant, key)

    async def subscriptions(
        self,
        tenant: TenantId,
        *,
        topic: str | None = None,
        pattern: str | None = None,
        target: str | None = None,
        every: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[Subscription]:
        return await self._store.topics.list_subscriptions(
            tenant, topic=topic, pattern=pattern, target=target, every=every, after=after, limit=limit
        )

    async def update_subscription(self, tenant: TenantId, key: str, attributes: Changes) -> Subscription:
        _check_texts("attributes", attributes)
        return await self._store.topics.update_subscription(tenant, key, attributes)

    async def unsubscribe(self, tenant: TenantId | None, key: str) -> Subscription | None:
        return await self._store.topics.unsubscribe(tenant, key)

    async def confirm(self, tenant: TenantId | None, token: str) -> Subscription:
        return await self._store.topics.confirm_subscription(tenant, token_digest(token))

    async def ask_confirmation(
        self, subscription: Subscription, token: str, *, region: str = "us-east-1", base_url: str | None = None
    ) -> None:
        """Ask the endpoint whether it wants to be subscribed: it confirms with the token."""
        await self._send_notice(Kind.SUBSCRIPTION, subscription, token, region, base_url)

    async def report_unsubscription(
        self, subscription: Subscription, token: str, *, region: str = "us-east-1", base_url: str | None = None
    ) -> None:
        """Tell the endpoint that its subscription has ended: with the token it can subscribe again."""
        await self._send_notice(Kind.UNSUBSCRIPTION, subscription, token, region, base_url)

    async def _send_notice(
        self, kind: Kind, subscription: Subscription, token: str, region: str, base_url: str | None
    ) -> None:
        topic = await self.get(subscription.tenant, subscription.topic or "")
        fanout = await self._expander.confirmation(kind, subscription, topic, token, region=region, base_url=base_url)
        await self._publishes.submit([fanout])

    # Publishing

    async def publish(self, publish: Publish) -> Published:
        check_publish(publish)
        expanded = await self._expand(publish)
        [answer] = await self._publishes.submit([expanded.fanout], _batch_key(expanded))
        if isinstance(answer, Stale):
            # Read now, the routes hold every change from before this publish: no need to look again.
            routes = await self._routes.refresh(publish.tenant)
            expanded = await self._expander.expand(publish, routes, None)
            [answer] = await self._publishes.submit([expanded.fanout], _batch_key(expanded))
        if isinstance(answer, PenstockError):
            raise answer
        assert isinstance(answer, Published)
        return answer

    async def publish_batch(self, publishes: Sequence[Publish]) -> Sequence[Published | PenstockError]:
        """One answer per entry; a bad entry does not stop the others."""
        if any((publish.topic or "").endswith(".fifo") for publish in publishes):
            # One after the other: their order is what counts.
            return [await self._try(publish) for publish in publishes]
        return await asyncio.gather(*map(self._try, publishes))

    async def find(self, tenant: TenantId, name: str) -> Topic | None:
        try:
            return await self.get(tenant, name)
        except TopicNotFound:
            return None

    async def expand(self, tenant: TenantId, publishes: Sequence[Publish]) -> Sequence[Fanout]:
        """What publishes of a tenant lead to, for a caller that stores it itself.

        The subscribers are read now, so the fan-outs hold every change from before.
        """
        subscribers = await self._routes.refresh(tenant)
        return [(await self._expander.expand(publish, subscribers, None)).fanout for publish in publishes]

    async def send_outgoing(self, limit: int = 100) -> int:
        """Carry out what publishes from SQL have left to the server; how many there were."""
        waiting = await self._store.topics.outgoing(limit)
        for outgoing in waiting:
            try:
                await self.publish(outgoing.publish)
            except Unavailable:
                raise
            except PenstockError:
                # Its topic is gone, and its subscriptions with it: what is left is to forget it.
                await self._forget(outgoing.publish)
        return len(waiting)

    async def drain(self) -> None:
        await self._publishes.drain()

    async def _try(self, publish: Publish) -> Published | PenstockError:
        try:
            return await self.publish(publish)
        except PenstockError as error:
            return error

    async def _forget(self, publish: Publish) -> None:
        fanout = Fanout(
            tenant=publish.tenant, id=publish.id, topic_id=None, topic=None, routing_key=None, version=None,
            pending_id=publish.pending_id,
        )  # fmt: skip
        await self._publishes.submit([fanout])

    async def _expand(self, publish: Publish) -> Expanded:
        routes = await self._routes.get(publish.tenant)
        version = routes.version
        if publish.topic is not None and routes.topic(publish.topic) is None:
            # Perhaps another node made it a moment ago.
            routes, version = await self._routes.refresh(publish.tenant), None
        return await self._expander.expand(publish, routes, version)

    async def _store_fanouts(self, fanouts: Sequence[Fanout]) -> Sequence[Published | Stale | PenstockError]:
        answers = await self._store.topics.publish_many(fanouts, self._clock.now())
        for fanout, answer in zip(fanouts, answers, strict=True):
            if not isinstance(answer, Published):
                continue
            received = {queue for queue, _ in answer.sent}
            for send in (entry.send for entry in fanout.queues):
                if send.queue in received:
                    self._metrics.sent.add((str(send.tenant), send.queue))
                    self._waiters.wake((send.tenant, send.queue))
            if answer.deliveries:
                self.on_deliveries()
        return answers


def check_topic(name: str) -> None:
    if limits.TOPIC_NAME.fullmatch(name) is None:
        raise InvalidName(
            "A topic name has 1 to 256 letters, digits, hyphens and underscores, and may end in .fifo.", field="name"
        )


def check_publish(publish: Publish) -> None:
    if publish.routing_key is not None:
        check_routing_key(publish.routing_key)
    check_text("message", publish.body)
    for field, text in (
        ("subject", publish.subject), ("attributes", publish.attributes), ("headers", publish.headers),
        ("trace", publish.trace),
    ):  # fmt: skip
        if text is not None:
            check_text(field, text)
    for body in publish.bodies.values():
        check_text("message", body)
    check_range("delay", publish.delay_s, limits.DELAY_S)
    check_id("group_id", publish.group_id)
    check_id("dedup_id", publish.dedup_id)


def token_digest(token: str) -> str:
    """What is kept of a token that confirms a subscription."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _check_subscription(new: NewSubscription) -> None:
    if new.pattern is not None:
        check_pattern(new.pattern)
    check_text("endpoint", new.endpoint)
    if len(new.endpoint.encode()) > limits.ENDPOINT_BYTES:
        raise Invalid(f"endpoint must have at most {limits.ENDPOINT_BYTES} bytes", field="endpoint")
    if new.protocol == QUEUE_PROTOCOL and new.target is not None:
        check_name(new.target, "queue_name")
    if new.protocol in WEB_PROTOCOLS and not new.endpoint.lower().startswith(f"{new.protocol}://"):
        raise Invalid(f"endpoint must be a URL that begins with {new.protocol}://", field="endpoint")
    _check_texts("attributes", new.attributes)


def _check_texts(field: str, values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        check_text(field, name)
        if value is not None:
            check_text(field, value)


def _batch_key(expanded: Expanded) -> tuple[TenantId, str | None, str | None] | None:
    """A FIFO queue may make its sender wait; others shall not wait with it."""
    fanout = expanded.fanout
    if expanded.careful or fanout.dedup_id is not None:
        return fanout.tenant, fanout.topic, fanout.routing_key
    return None
