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

from penstock.engine import filters
from penstock.engine.retries import delays_of
from penstock.engine.routing import Patterns
from penstock.errors import Invalid, PenstockError
from penstock.model.tenants import TenantId
from penstock.model.topics import RouteChanges, Subscription, Topic
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


class Route:
    """A subscription, and what its attributes mean; each is read when it is first needed."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription

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

    @cached_property
    def delays(self) -> tuple[float, ...] | None:
        return delays_of(self.subscription.attributes.get("DeliveryPolicy"))

    @cached_property
    def content_type(self) -> str | None:
        policy = _member(self.subscription.attributes.get("DeliveryPolicy"), "requestPolicy")
        found = policy.get("headerContentType") if isinstance(policy, dict) else None
        return found if isinstance(found, str) and found.isprintable() else None

    @cached_property
    def lane(self) -> int:
        return lane_of(self.subscription.tenant, self.subscription.endpoint)


def lane_of(tenant: TenantId, endpoint: str) -> int:
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


class Routes:
    """Topics and subscriptions of one tenant, as of a version."""

    def __init__(self) -> None:
        self.version: int | None = None
        self._topics: dict[str, Topic] = {}
        self._names: dict[int, str] = {}
        self._routes: dict[int, Route] = {}
        self._by_topic: dict[str, dict[int, Route]] = {}
        self._patterns: Patterns[Route] = Patterns()

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def of_topic(self, name: str) -> Iterable[Route]:
        return self._by_topic.get(name, {}).values()

    def of_key(self, routing_key: str) -> Iterable[Route]:
        return self._patterns.match(routing_key)

    def apply(self, changes: RouteChanges) -> None:
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
            self._add(Route(subscription))
        self.version = changes.version

    def _add(self, route: Route) -> None:
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
    routes: Routes
    lock: asyncio.Lock


class RouteCache:
    def __init__(self, store: TopicStore) -> None:
        self._store = store
        self._kept: dict[TenantId, _Kept] = {}

    async def get(self, tenant: TenantId) -> Routes:
        """The routes as this node knows them, perhaps not of this moment."""
        kept = self._kept.get(tenant)
        if kept is not None and kept.routes.version is not None:
            return kept.routes
        return await self.refresh(tenant)

    async def refresh(self, tenant: TenantId) -> Routes:
        """The routes with every change that was committed before now."""
        kept = self._kept.get(tenant)
        if kept is None:
            if len(self._kept) >= KEPT:
                self._kept.pop(next(iter(self._kept)))
            kept = self._kept[tenant] = _Kept(Routes(), asyncio.Lock())
        async with kept.lock:
            kept.routes.apply(await self._store.routes(tenant, kept.routes.version))
        return kept.routes
