"""From a publish to what each subscriber is given: a message, an event, a request to an endpoint, an outbox item."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from time import monotonic
from uuid import uuid4

from penstock.clock import Clock
from penstock.engine.topics.notices import (
    Kind,
    Notice,
    Signed,
    Signer,
    confirmation,
    headers_of,
    signature_version_of,
)
from penstock.engine.topics.subscribers import Attribute, Subscriber, Subscribers, endpoint_key, read_attributes
from penstock.errors import Invalid, TopicNotFound
from penstock.model import Send
from penstock.model.arns import sns_arn, subscription_arn
from penstock.model.outbox import Channel, NewOutboxItem
from penstock.model.topics import (
    QUEUE_PROTOCOL,
    STREAM_PROTOCOL,
    WEB_PROTOCOLS,
    Fanout,
    NewDelivery,
    Publish,
    QueueDelivery,
    StreamDelivery,
    Subscription,
    Topic,
    sequence_text,
)
from penstock.model.traces import trace_of_publish
from penstock.tracing.context import context_of

LONGEST_GROUP = 128
TURN_S = 0.01
"""How long filters may be evaluated before other requests take a turn."""


@dataclass(slots=True)
class Expanded:
    fanout: Fanout
    careful: bool
    """It goes to a FIFO queue, and may have to wait for other senders to the same group."""


class Expander:
    def __init__(self, signer: Signer, clock: Clock, base_url: str) -> None:
        self._signer = signer
        self._clock = clock
        self._base_url = base_url

    async def expand(self, publish: Publish, routes: Subscribers, version: int | None) -> Expanded:
        """Everything the subscribers are given. Raises `TopicNotFound` when the topic is not known."""
        topic = _topic(publish, routes)
        attributes = read_attributes(publish.attributes)
        found = await _wanting(publish, routes, attributes)
        fanout = Fanout(
            tenant=publish.tenant,
            id=publish.id,
            topic_id=None if topic is None else topic.id,
            topic=publish.topic,
            routing_key=publish.routing_key,
            version=version,
            pending_id=publish.pending_id,
        )
        if topic is not None and topic.fifo and publish.pending_id is None:
            _order(fanout, publish, topic)
        making = _Making(
            publish, topic, fanout, attributes, self._signer, self._clock, publish.base_url or self._base_url
        )
        for route in found:
            await making.add(route)
        return Expanded(fanout, any(entry.send.queue.endswith(".fifo") for entry in fanout.queues))

    async def confirmation(
        self, kind: Kind, subscription: Subscription, topic: Topic, token: str, *, region: str, base_url: str | None
    ) -> Fanout:
        """The request that asks an endpoint to confirm its subscription, or tells it that the subscription ended."""
        topic_arn = sns_arn(region, topic.name)
        own_arn = subscription_arn(region, topic.name, subscription.key)
        version = signature_version_of(topic)
        notice = confirmation(kind, topic_arn, own_arn, token, self._clock.now(), version)
        signed = await self._signer.sign(notice, base_url or self._base_url)
        headers = headers_of(kind, notice.message_id, topic_arn, own_arn if kind is Kind.UNSUBSCRIPTION else None)
        delivery = NewDelivery(
            subscription_id=subscription.id,
            subscription_key=subscription.key,
            endpoint=subscription.endpoint,
            endpoint_key=endpoint_key(subscription.tenant, subscription.endpoint),
            body=signed.envelope(own_arn),
            headers=json.dumps(headers),
            confirms=True,
        )
        return Fanout(
            tenant=subscription.tenant,
            id=notice.message_id,
            topic_id=None,
            topic=topic.name,
            routing_key=None,
            version=None,
            webhooks=[delivery],
        )


def _topic(publish: Publish, routes: Subscribers) -> Topic | None:
    if publish.topic is None:
        return None
    topic = routes.topic(publish.topic)
    if topic is None:
        raise TopicNotFound(f"Topic '{publish.topic}' does not exist")
    return topic


async def _wanting(publish: Publish, routes: Subscribers, attributes: dict[str, Attribute]) -> list[Subscriber]:
    """The subscribers whose filters the publish passes. Other requests take turns with many or slow filters."""
    if publish.topic is not None:
        candidates = routes.of_topic(publish.topic)
    else:
        candidates = routes.of_key(publish.routing_key or "")
    found = []
    until = monotonic() + TURN_S
    for route in list(candidates):
        if not route.subscription.confirmed or (publish.only is not None and route.subscription.id not in publish.only):
            continue
        if route.wants(attributes, publish.body):
            found.append(route)
        if monotonic() > until:
            await asyncio.sleep(0)
            until = monotonic() + TURN_S
    return found


def _order(fanout: Fanout, publish: Publish, topic: Topic) -> None:
    """What a FIFO topic asks for: a group, and an id that tells a repetition."""
    if publish.group_id is None:
        raise Invalid("group_id is required on a FIFO topic", field="group_id")
    fanout.group_id = publish.group_id
    fanout.dedup_id = publish.dedup_id
    if fanout.dedup_id is None:
        if topic.attributes.get("ContentBasedDeduplication", "").lower() != "true":
            raise Invalid("dedup_id is required on a FIFO topic without content deduplication", field="dedup_id")
        fanout.dedup_id = hashlib.sha256(publish.body.encode()).hexdigest()
    if topic.attributes.get("FifoThroughputScope") == "MessageGroup":
        fanout.dedup_scope = publish.group_id
    # Only the store can number it, and only once it holds the group: until then this stands for the number.
    fanout.sequence_mark = f"#{uuid4().hex}#"


class _Making:
    """What the subscribers of one publish have in common is made once."""

    def __init__(
        self,
        publish: Publish,
        topic: Topic | None,
        fanout: Fanout,
        attributes: dict[str, Attribute],
        signer: Signer,
        clock: Clock,
        base_url: str,
    ) -> None:
        self._publish = publish
        self._topic = topic
        self._fanout = fanout
        self._attributes = attributes
        self._signer = signer
        self._clock = clock
        self._base_url = base_url
        self._arn = sns_arn(publish.region, publish.topic or publish.routing_key or "")
        self._signed: dict[str, Signed] = {}
        self._size = _size(publish)
        trace = context_of(publish.trace, publish.attributes, publish.headers)
        self._trace = None if trace is None else trace.traceparent

    async def add(self, route: Subscriber) -> None:
        protocol = route.subscription.protocol
        if protocol == QUEUE_PROTOCOL:
            self._fanout.queues.append(await self._to_queue(route))
        elif protocol == STREAM_PROTOCOL:
            self._fanout.streams.append(await self._to_stream(route))
        elif protocol in WEB_PROTOCOLS:
            self._fanout.webhooks.append(await self._to_endpoint(route))
        else:
            self._fanout.items.append(self._to_outbox(route.subscription))

    async def _to_queue(self, route: Subscriber) -> QueueDelivery:
        publish, subscription = self._publish, route.subscription
        raw = subscription.raw
        send = Send(
            tenant=subscription.target_tenant or publish.tenant,
            queue=subscription.target or "",
            body=publish.body_for(QUEUE_PROTOCOL) if raw else await self._envelope(subscription),
            json=publish.json if raw else True,
            delay_s=publish.delay_s,
            attributes=publish.attributes if raw else None,
            headers=publish.headers if raw else None,
            trace=publish.trace or trace_of_publish(publish.id),
            size=self._size if raw else None,
        )
        if send.queue.endswith(".fifo"):
            send.group_id = publish.group_id or _group(publish.routing_key or publish.topic or "")
            send.dedup_id = self._fanout.dedup_id or publish.dedup_id or publish.id
        elif self._fanout.dedup_id is None:
            send.group_id = publish.group_id
        return QueueDelivery(subscription_id=subscription.id, send=send, dead_letter_queue=route.dead_letter_queue)

    async def _to_stream(self, route: Subscriber) -> StreamDelivery:
        publish, subscription = self._publish, route.subscription
        body = publish.body_for(STREAM_PROTOCOL) if subscription.raw else await self._envelope(subscription)
        return StreamDelivery(
            stream=subscription.target or "",
            kind=publish.routing_key or publish.topic or "",
            body=body,
            trace=self._trace,
        )

    async def _to_endpoint(self, route: Subscriber) -> NewDelivery:
        publish, subscription = self._publish, route.subscription
        raw = subscription.raw
        body = publish.body_for(subscription.protocol) if raw else await self._envelope(subscription)
        return NewDelivery(
            subscription_id=subscription.id,
            subscription_key=subscription.key,
            endpoint=subscription.endpoint,
            endpoint_key=route.endpoint_key,
            body=body,
            headers=json.dumps(self._headers(route) | self._trace_header()),
            secret=subscription.secret,
            delays=route.delays(self._topic),
            dead_letter_queue=route.dead_letter_queue,
        )

    def _to_outbox(self, subscription: Subscription) -> NewOutboxItem:
        publish = self._publish
        return NewOutboxItem(
            tenant=publish.tenant,
            channel=Channel(subscription.protocol),
            address=subscription.endpoint,
            message_id=publish.id,
            topic=publish.topic,
            subject=publish.subject,
            body=publish.body_for(subscription.protocol),
            attributes=publish.attributes,
        )

    def _headers(self, route: Subscriber) -> dict[str, str]:
        publish, subscription = self._publish, route.subscription
        if subscription.pattern is not None and subscription.raw:
            return {
                "content-type": "application/json" if publish.json else "text/plain; charset=utf-8",
                "user-agent": "Penstock",
                "penstock-routing-key": publish.routing_key or "",
            }
        headers = headers_of(Kind.NOTIFICATION, publish.id, self._arn, f"{self._arn}:{subscription.key}")
        content_type = route.content_type(self._topic)
        if content_type is not None:
            headers["content-type"] = content_type
        if subscription.raw:
            headers["x-amz-sns-rawdelivery"] = "true"
        return headers

    def _trace_header(self) -> dict[str, str]:
        return {} if self._trace is None else {"traceparent": self._trace}

    async def _envelope(self, subscription: Subscription) -> str:
        body = self._publish.body_for(subscription.protocol)
        signed = self._signed.get(body)
        if signed is None:
            signed = self._signed[body] = await self._signer.sign(self._notice(body), self._base_url)
        return signed.envelope(f"{self._arn}:{subscription.key}")

    def _sequence(self) -> str | None:
        if self._publish.sequence is not None:
            return sequence_text(self._publish.sequence)
        return self._fanout.sequence_mark

    def _notice(self, body: str) -> Notice:
        return Notice(
            message_id=self._publish.id,
            topic_arn=self._arn,
            message=body,
            sent_at=self._clock.now(),
            subject=self._publish.subject,
            attributes=self._attributes,
            sequence_number=self._sequence(),
            signature_version=signature_version_of(self._topic),
        )


def _group(name: str) -> str:
    return name if len(name) <= LONGEST_GROUP else hashlib.sha256(name.encode()).hexdigest()


def _size(publish: Publish) -> int | None:
    """Attributes and headers count towards the size of a message."""
    if publish.attributes is None and publish.headers is None:
        return None
    parts = (publish.body, publish.attributes or "", publish.headers or "")
    return sum(len(part.encode()) for part in parts)
