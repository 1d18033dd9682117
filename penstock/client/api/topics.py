"""Topics, events by routing key, subscriptions to both, deliveries to endpoints, and the outbox."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from penstock.client.api import requests
from penstock.client.api.requests import Answered, given, read_as, read_each, segment
from penstock.client.exchange import Call


class PublishOptions(TypedDict, total=False):
    headers: Mapping[str, Any]
    delay: int
    group_id: str
    dedup_id: str


class SubscriptionOptions(TypedDict, total=False):
    """One of `queue_name`, `stream` and `endpoint` is required."""

    queue_name: str
    stream: str
    endpoint: str
    protocol: Literal["http", "https", "sqs", "stream"]
    envelope: bool
    filter: Mapping[str, Any]
    secret: str


class Topic(Answered, frozen=True, kw_only=True):
    name: str
    fifo: bool
    created_at: datetime


class EventMessage(Answered, frozen=True, kw_only=True):
    queue_name: str
    id: int


class PublishedEvent(Answered, frozen=True, kw_only=True):
    """The messages that queues received, and the number of deliveries to endpoints that are now pending."""

    message_id: str
    queues_matched: int
    messages: list[EventMessage]
    deliveries: int


class EventSubscription(Answered, frozen=True, kw_only=True):
    id: int
    topic: str | None = None
    pattern: str | None = None
    protocol: str
    endpoint: str
    queue_name: str | None = None
    stream: str | None = None
    envelope: bool
    filter: dict[str, Any] | None = None
    created_at: datetime
    secret: str | None = None
    """Signs the requests to the endpoint. Only the answer to the creation has it."""
    warning: str | None = None


class Subscription(Answered, frozen=True, kw_only=True):
    id: int
    topic: str | None
    pattern: str | None
    protocol: str
    endpoint: str
    confirmed: bool
    created_at: datetime


class DeliveryItem(Answered, frozen=True, kw_only=True):
    id: int
    state: str
    endpoint: str
    subscription_id: int
    message_id: str
    topic: str | None
    routing_key: str | None
    attempts: int
    created_at: datetime
    next_attempt_at: datetime | None
    finished_at: datetime | None
    last_status: int | None
    last_error: str | None


class Delivery(DeliveryItem, frozen=True, kw_only=True):
    body: str


class OutboxEntry(Answered, frozen=True, kw_only=True):
    id: int
    channel: str
    address: str
    message_id: str
    topic: str | None
    subject: str | None
    body: str
    attributes: dict[str, Any] | None
    created_at: datetime


# Topics


def create(name: str) -> Call[Topic]:
    return Call(requests.post("/v1/topics", {"name": name}), read_as(Topic))


def list_topics(*, after: str = "", limit: int = 100) -> Call[list[Topic]]:
    return Call(requests.get("/v1/topics", {"after": after or None, "limit": limit}), read_each(Topic))


def delete(name: str) -> Call[None]:
    """Delete a topic with its subscriptions."""
    return Call(requests.delete(_topic(name)), requests.nothing)


def publish(name: str, message: Any, **options: Unpack[PublishOptions]) -> Call[PublishedEvent]:
    """Publish a message, which is any JSON value, to a topic."""
    body = {"message": message, **options}
    return Call(requests.post(f"{_topic(name)}/messages", body, repeatable=False), read_as(PublishedEvent))


def subscribe(name: str, **options: Unpack[SubscriptionOptions]) -> Call[EventSubscription]:
    """Subscribe a queue, a stream or an HTTP endpoint to a topic."""
    return Call(requests.post(f"{_topic(name)}/subscriptions", options), read_as(EventSubscription))


# Events by routing key


def publish_event(routing_key: str, message: Any, **options: Unpack[PublishOptions]) -> Call[PublishedEvent]:
    """Publish to everyone subscribed to a pattern that matches the routing key."""
    body = {"message": message, **options}
    return Call(requests.post(_event(routing_key), body, repeatable=False), read_as(PublishedEvent))


def subscribe_pattern(pattern: str, **options: Unpack[SubscriptionOptions]) -> Call[EventSubscription]:
    """Subscribe a queue, a stream or an HTTP endpoint to routing keys such as `orders.*`."""
    return Call(requests.post(f"{_event(pattern)}/subscriptions", options), read_as(EventSubscription))


# Subscriptions


def topic_subscriptions(name: str, *, after: int = 0, limit: int = 100) -> Call[list[EventSubscription]]:
    """Subscriptions of a topic, by id."""
    query = {"after": after or None, "limit": limit}
    return Call(requests.get(f"{_topic(name)}/subscriptions", query), read_each(EventSubscription))


def pattern_subscriptions(pattern: str, *, after: int = 0, limit: int = 100) -> Call[list[EventSubscription]]:
    """Subscriptions of exactly this pattern, by id."""
    query = {"after": after or None, "limit": limit}
    return Call(requests.get(f"{_event(pattern)}/subscriptions", query), read_each(EventSubscription))


def subscriptions(
    *, topic: str | None = None, pattern: str | None = None, after: int = 0, limit: int = 100
) -> Call[list[Subscription]]:
    """Subscriptions to topics and patterns, by id."""
    query = {"topic": topic, "pattern": pattern, "after": after or None, "limit": limit}
    return Call(requests.get("/v1/subscriptions", query), read_each(Subscription))


def unsubscribe(subscription_id: int) -> Call[None]:
    return Call(requests.delete(f"/v1/subscriptions/{segment(subscription_id)}"), requests.nothing)


# Deliveries to endpoints


def deliveries(
    *, state: str | None = None, subscription: int | None = None, before: int | None = None, limit: int = 100
) -> Call[list[DeliveryItem]]:
    """Deliveries to endpoints, newest first."""
    query = {"state": state, "subscription": subscription, "before": before, "limit": limit}
    return Call(requests.get("/v1/deliveries", query), read_each(DeliveryItem))


def delivery(delivery_id: int) -> Call[Delivery]:
    return Call(requests.get(_delivery(delivery_id)), read_as(Delivery))


def replay_delivery(delivery_id: int) -> Call[Delivery]:
    """Send a finished delivery again, with all its retries."""
    return Call(requests.post(f"{_delivery(delivery_id)}/replay", repeatable=False), read_as(Delivery))


def delete_delivery(delivery_id: int) -> Call[None]:
    return Call(requests.delete(_delivery(delivery_id)), requests.nothing)


# The outbox


def outbox(*, channel: str | None = None, before: int | None = None, limit: int = 100) -> Call[list[OutboxEntry]]:
    """Text messages, emails and push notifications that were not sent, newest first."""
    return Call(
        requests.get("/v1/outbox", {"channel": channel, "before": before, "limit": limit}), read_each(OutboxEntry)
    )


def clear_outbox() -> Call[int]:
    """Empty the outbox; the number of entries deleted."""
    return Call(requests.delete("/v1/outbox"), lambda found: int(found["deleted"]))


def opt_out(phone_number: str) -> Call[None]:
    """Send this phone number no further messages."""
    return Call(requests.post("/v1/outbox/opt-outs", given(phone_number=phone_number)), requests.nothing)


def _topic(name: str) -> str:
    return f"/v1/topics/{segment(name)}"


def _event(routing_key: str) -> str:
    return f"/v1/events/{segment(routing_key)}"


def _delivery(delivery_id: int) -> str:
    return f"/v1/deliveries/{segment(delivery_id)}"
