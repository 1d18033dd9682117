"""Who is subscribed to what, kept at hand: a publish asks the database only whether it is still true."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

import msgspec

from penstock.engine.topics.filters import policy as filters
from penstock.engine.topics.retries import delays_of, delivery_policy
from penstock.engine.topics.routing_keys import Patterns
from penstock.errors import Invalid, PenstockError
from penstock.model.tenants import TenantId
from penstock.model.topics import SubscriberChanges, Subscription, Topic
from penstock.store.topics import TopicStore

log = logging.getLogger(__name__)

KEPT = 1000
"""Tenants whose routes are kept."""


class Attribute(msgspec.Struct, frozen=True):
    """A message attribute, as filter policies see it."""

    type: str
    value: str


_attributes = msgspec.json.Decoder(dict[str, Attribute])


def read_attributes(text: str | None) -> dict[str, Attribute]:
    try:
        return _attributes.decode(text) if text is not None else {}
    except msgspec.DecodeError:
        raise Invalid("attributes must be an object of types and values", field="attributes") from None


class Subscriber:
    """A subscription, and what its attributes mean; each is read when it is first needed."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._policy_read: tuple[str | None, Mapping[str, object]] | None = None
        """The delivery policy in force, and the text of the topic's policy that went into it."""

    @cached_property
    def _policy(self) -> filters.Policy | None:
        text = self.subscription.attributes.get("FilterPolicy")
        if not text:
            return None
        scope = self.subscription.attributes.get("FilterPolicyScope", "MessageAttributes")
        return filters.parse(text, "body" if scope == "MessageBody" else "attributes")

    def wants(self, attributes: Mapping[str, Attribute], body: str) -> bool:
        try:
            policy = self._policy
        except PenstockError as error:
            # The doors check policies before they are kept. Should one not be readable any more, nothing matches it.
            log.warning(
                "a filter policy cannot be read", extra={"subscription": self.subscription.key, "error": str(error)}
            )
            return False
        return policy is None or policy.matches(attributes, body)

    @cached_property
    def dead_letter_queue(self) -> str | None:
        arn = _member(self.subscription.attributes.get("RedrivePolicy"), "deadLetterTargetArn")
        return arn.rpartition(":")[2] or None if isinstance(arn, str) else None

    def delays(self, topic: Topic | None) -> tuple[float, ...] | None:
        """Seconds before each retry, as the subscription asks for, or else its topic; None: the server's usual ones."""
        return delays_of(self._delivery_policy(topic).get("healthyRetryPolicy"))

    def content_type(self, topic: Topic | None) -> str | None:
        policy = self._delivery_policy(topic).get("requestPolicy")
        found = policy.get("headerContentType") if isinstance(policy, dict) else None
        return found if isinstance(found, str) and found.isprintable() else None

    def _delivery_policy(self, topic: Topic | None) -> Mapping[str, object]:
        of_topic = None if topic is None else topic.attributes.get("DeliveryPolicy")
        if self._policy_read is None or self._policy_read[0] != of_topic:
            own = self.subscription.attributes.get("DeliveryPolicy")
            self._policy_read = of_topic, delivery_policy(own, of_topic)
        return self._policy_read[1]

    @cached_property
    def endpoint_key(self) -> int:
        return endpoint_key(self.subscription.tenant, self.subscription.endpoint)


def endpoint_key(tenant: TenantId, endpoint: str) -> int:
    """A number for an endpoint of a tenant. What a URL asks of its endpoint makes it no other endpoint."""
    parts = urlsplit(endpoint)
    text = f"{tenant} {parts.scheme.lower()}://{parts.netloc.lower()}{parts.path}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def _member(text: str | None, name: str) -> object:
    try:
        document = json.loads(text or "{}")
    except ValueError:
        return None
    return document.get(name) if isinstance(document, dict) else None


class Subscribers:
    """Topics and subscriptions of one tenant, as of a version."""

    def __init__(self) -> None:
        self.version: int | None = None
        self._topics: dict[str, Topic] = {}
        self._names: dict[int, str] = {}
        self._routes: dict[int, Subscriber] = {}
        self._by_topic: dict[str, dict[int, Subscriber]] = {}
        self._patterns: Patterns[Subscriber] = Patterns()

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def of_topic(self, name: str) -> Iterable[Subscriber]:
        return self._by_topic.get(name, {}).values()

    def of_key(self, routing_key: str) -> Iterable[Subscriber]:
        return self._patterns.match(routing_key)

    def apply(self, changes: SubscriberChanges) -> None:
        if changes.whole:
            self.__init__()  # type: ignore[misc]
        for subscription_id in changes.gone_subscriptions:
            self._remove(subscription_id)
        for topic_id in changes.gone_topics:
            name = self._names.pop(topic_id, None)
            # Another may have the name by now.
            if name is not None and self._topics[name].id == topic_id:
                del self._topics[name]
                self._by_topic.pop(name, None)
        for topic in changes.topics:
            self._topics[topic.name] = topic
            self._names[topic.id] = topic.name
        for subscription in changes.subscriptions:
            self._remove(subscription.id)
            self._add(Subscriber(subscription))
        self.version = changes.version

    def _add(self, route: Subscriber) -> None:
        subscription = route.subscription
        self._routes[subscription.id] = route
        if subscription.pattern is not None:
            self._patterns.add(subscription.pattern, subscription.id, route)
        elif subscription.topic is not None:
            self._by_topic.setdefault(subscription.topic, {})[subscription.id] = route

    def _remove(self, subscription_id: int) -> None:
        route = self._routes.pop(subscription_id, None)
        if route is None:
            return
        subscription = route.subscription
        if subscription.pattern is not None:
            self._patterns.remove(subscription.pattern, subscription_id)
        elif subscription.topic is not None:
            self._by_topic.get(subscription.topic, {}).pop(subscription_id, None)


@dataclass(slots=True)
class _Kept:
    routes: Subscribers
    lock: asyncio.Lock


class SubscriberCache:
    def __init__(self, store: TopicStore) -> None:
        self._store = store
        self._kept: dict[TenantId, _Kept] = {}

    async def get(self, tenant: TenantId) -> Subscribers:
        """The routes as this node knows them, perhaps not of this moment."""
        kept = self._kept.get(tenant)
        if kept is not None and kept.routes.version is not None:
            return kept.routes
        return await self.refresh(tenant)

    async def refresh(self, tenant: TenantId) -> Subscribers:
        """The routes with every change that was committed before now."""
        kept = self._kept.get(tenant)
        if kept is None:
            if len(self._kept) >= KEPT:
                self._kept.pop(next(iter(self._kept)))
            kept = self._kept[tenant] = _Kept(Subscribers(), asyncio.Lock())
        async with kept.lock:
            kept.routes.apply(await self._store.routes(tenant, kept.routes.version))
        return kept.routes
