"""Topics: who is subscribed to what, what is published, and the deliveries that leave the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import uuid4

from penstock.model.outbox import NewOutboxItem
from penstock.model.queues import Send
from penstock.model.tenants import TenantId

QUEUE_PROTOCOL = "sqs"
STREAM_PROTOCOL = "stream"
WEB_PROTOCOLS = ("http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    id: int
    tenant: TenantId
    name: str
    fifo: bool
    attributes: dict[str, str]
    """As the doors call them: `DisplayName`, `Policy`, `ContentBasedDeduplication`, …"""
    tags: dict[str, str]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounts:
    """Subscriptions of a topic."""

    confirmed: int
    pending: int
    deleted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Someone who wants what is published: to one topic, or to routing keys that fit a pattern."""

    id: int
    key: str
    """A UUID: names it in the ARNs of the SNS door."""
    tenant: TenantId
    topic: str | None
    pattern: str | None
    protocol: str
    endpoint: str
    """As the subscriber gave it: an ARN, a URL, an address."""
    target: str | None
    """The name of the queue or stream that receives; None unless it is one."""
    target_tenant: TenantId | None
    """The tenant of the receiving queue, when the queue lies in another region than the topic."""
    attributes: dict[str, str]
    """`FilterPolicy`, `FilterPolicyScope`, `RawMessageDelivery`, `RedrivePolicy`, `DeliveryPolicy`, …"""
    confirmed: bool
    owner: str
    secret: str | None = field(repr=False)
    """What native webhooks are signed with."""
    created_at: datetime

    @property
    def raw(self) -> bool:
        """The body goes out as it was published, without an envelope."""
        return self.attributes.get("RawMessageDelivery", "").lower() == "true"


@dataclass(slots=True, kw_only=True)
class NewSubscription:
    tenant: TenantId
    topic: str | None = None
    pattern: str | None = None
    protocol: str
    endpoint: str
    target: str | None = None
    target_tenant: TenantId | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    confirmed: bool = True
    token_sha256: str | None = None
    """Of the token that confirms it, in hex."""
    owner: str = ""
    secret: str | None = field(default=None, repr=False)


@dataclass(slots=True, kw_only=True)
class Publish:
    """One message for everyone subscribed: to `topic`, or to the patterns that fit `routing_key`."""

    tenant: TenantId
    topic: str | None = None
    routing_key: str | None = None
    body: str
    json: bool = False
    bodies: Mapping[str, str] = field(default_factory=dict)
    """Bodies for particular protocols, instead of `body`."""
    subject: str | None = None
    attributes: str | None = None
    """As `Send.attributes`."""
    headers: str | None = None
    delay_s: int | None = None
    group_id: str | None = None
    dedup_id: str | None = None
    trace: str | None = None
    region: str = "us-east-1"
    """Of the ARNs in envelopes."""
    base_url: str | None = None
    """What links in envelopes begin with; None means the server's own address."""
    id: str = field(default_factory=lambda: str(uuid4()))
    only: frozenset[int] | None = None
    """Ids of the subscriptions that are meant; None means all."""
    pending_id: int | None = None
    """The row of a publish from SQL that this one finishes."""
    sequence: int | None = None
    """Of such a publish to a FIFO topic, which was numbered already."""

    def body_for(self, protocol: str) -> str:
        return self.bodies.get(protocol, self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    id: str
    sequence: int | None = None
    """Of FIFO topics."""
    duplicate: bool = False
    """Nothing was published: `id` and `sequence` are those of the earlier one with the same deduplication id."""
    sent: tuple[tuple[str, int], ...] = ()
    """The queues that received it, each with the id of its message."""
    deliveries: int = 0
    """Webhook deliveries that are now pending."""


def sequence_text(sequence: int) -> str:
    """A sequence number as subscribers see it: always twenty digits, so that texts compare like numbers."""
    return str(10**19 + sequence)


@dataclass(slots=True, kw_only=True)
class NewDelivery:
    """A request to be made to an endpoint."""

    subscription_id: int
    subscription_key: str
    endpoint: str
    endpoint_key: int
    """Deliveries with one key go to one endpoint: what limits and circuit breakers count by."""
    body: str
    headers: str
    """The headers of the request, as a JSON object of texts. Signatures that need the moment come later."""
    secret: str | None = field(default=None, repr=False)
    delays: tuple[float, ...] | None = None
    """Seconds before each retry; None means the server's usual ones."""
    dead_letter_queue: str | None = None
    confirms: bool = False
    """It asks the endpoint to confirm its subscription."""


@dataclass(slots=True, kw_only=True)
class QueueDelivery:
    """A message for a subscribed queue; when that queue cannot take it, for the dead-letter queue."""

    subscription_id: int
    send: Send
    dead_letter_queue: str | None = None


@dataclass(slots=True, kw_only=True)
class StreamDelivery:
    """An event for a subscribed stream."""

    stream: str
    kind: str
    body: str
    trace: str | None = None
    """A traceparent."""


@dataclass(slots=True, kw_only=True)
class Fanout:
    """A publish with everything its subscribers are given. The store takes it in one transaction."""

    tenant: TenantId
    id: str
    topic_id: int | None
    topic: str | None
    routing_key: str | None
    version: int | None
    """The version of the routes it was made with; the store refuses another. None: do not look."""
    group_id: str | None = None
    dedup_id: str | None = None
    dedup_scope: str = ""
    """The group, where deduplication ids need only be unique within one."""
    sequence_mark: str | None = None
    """A text in the bodies that stands for the sequence number, which only the store knows."""
    pending_id: int | None = None
    """As `Publish.pending_id`."""
    queues: list[QueueDelivery] = field(default_factory=list)
    streams: list[StreamDelivery] = field(default_factory=list)
    webhooks: list[NewDelivery] = field(default_factory=list)
    items: list[NewOutboxItem] = field(default_factory=list)
    """What would leave the machine by mail, telephone, …"""


class Stale:
    """What the store answers to a fan-out made with routes that have changed since."""


STALE = Stale()


@dataclass(slots=True, kw_only=True)
class SubscriberChanges:
    """What changed in a tenant's topics and subscriptions since a version."""

    version: int
    whole: bool
    """Everything there is; whatever else was known is gone."""
    topics: list[Topic]
    subscriptions: list[Subscription]
    gone_topics: list[int]
    gone_subscriptions: list[int]


class DeliveryState(StrEnum):
    PENDING = "pending"
    SENDING = "sending"
    """Claimed by a node, until its lease ends."""
    DELIVERED = "delivered"
    EXHAUSTED = "exhausted"
    """The last retry failed. It is kept for some time and can be replayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    id: int
    tenant: TenantId
    subscription_id: int
    subscription_key: str
    topic: str | None
    routing_key: str | None
    message_id: str
    endpoint: str
    endpoint_key: int
    body: str
    headers: str
    secret: str | None = field(repr=False)
    delays: tuple[float, ...] | None
    dead_letter_queue: str | None
    confirms: bool
    state: DeliveryState
    lease: int
    """Names the last claim; rises with each."""
    attempts: int
    created_at: datetime
    due_at: datetime
    """When it is tried next; while it is being sent, when the lease ends."""
    finished_at: datetime | None
    last_status: int | None
    last_error: str | None


@dataclass(slots=True, kw_only=True)
class Attempted:
    """What became of one attempt."""

    id: int
    lease: int
    delivered: bool
    retry_at: datetime | None
    """None with `delivered` False: there is no further attempt."""
    status: int | None = None
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """A publish from SQL that a server has yet to carry out: what a SQL function could not do itself."""

    id: int
    publish: Publish
