"""From a publish to what each subscriber is given: a message, an event, or a request to an endpoint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from uuid import uuid4

from penstock.clock import Clock
from penstock.engine.notices import Kind, Notice, Signed, Signer
from penstock.engine.routes import Attribute, Route, Routes, lane_of, read_attributes
from penstock.errors import Invalid, TopicNotFound
from penstock.model import Send
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
)

ACCOUNT = "000000000000"
SNS_AGENT = "Amazon Simple Notification Service Agent"
LONGEST_GROUP = 128


@dataclass(slots=True)
class Expanded:
    fanout: Fanout
    elsewhere: tuple[Subscription, ...]
    careful: bool
    """It goes to a FIFO queue, and may have to wait for whoever sends to the same group."""


class Expander:
    def __init__(self, signer: Signer, clock: Clock, base_url: str) -> None:
        self._signer = signer
        self._clock = clock
        self._base_url = base_url

    async def expand(self, publish: Publish, routes: Routes, version: int | None) -> Expanded:
        """All that the publish leads to. Raises `TopicNotFound` when the routes know no such topic."""
        topic = _topic(publish, routes)
        attributes = read_attributes(publish.attributes)
        found = _wanting(publish, routes, attributes)
        fanout = Fanout(
            tenant=publish.tenant,
            id=publish.id,
            topic_id=None if topic is None else topic.id,
            topic=publish.topic,
            routing_key=publish.routing_key,
            version=version,
            outbox_id=publish.outbox_id,
        )
        if topic is not None and topic.fifo and publish.outbox_id is None:
            _order(fanout, publish, topic)
        making = _Making(
            publish, topic, fanout, attributes, self._signer, self._clock, publish.base_url or self._base_url
        )
        elsewhere = []
        for route in found:
            if not await making.add(route):
                elsewhere.append(route.subscription)
        return Expanded(fanout, tuple(elsewhere), any(e.send.queue.endswith(".fifo") for e in fanout.queues))

    async def confirmation(
        self, subscription: Subscription, token: str, *, region: str, base_url: str | None
    ) -> Fanout:
        """The request that asks an endpoint whether it wants to be subscribed."""
        arn = topic_arn(region, subscription.topic or "")
        message = (
            f"You have chosen to subscribe to the topic {arn}.\n"
            "To confirm the subscription, visit the SubscribeURL included in this message."
        )
        notice = Notice(
            message_id=str(uuid4()),
            topic_arn=arn,
            message=message,
            sent_at=self._clock.now(),
            kind=Kind.SUBSCRIPTION,
            token=token,
        )
        signed = await self._signer.sign(notice, base_url or self._base_url)
        delivery = NewDelivery(
            subscription_id=subscription.id,
            subscription_key=subscription.key,
            endpoint=subscription.endpoint,
            lane=lane_of(subscription.tenant, subscription.endpoint),
            body=signed.envelope(f"{arn}:{subscription.key}"),
            headers=json.dumps(_sns_headers(Kind.SUBSCRIPTION, notice.message_id, arn, None)),
            confirms=True,
        )
        return Fanout(
            tenant=subscription.tenant,
            id=notice.message_id,
            topic_id=None,
            topic=subscription.topic,
            routing_key=None,
            version=None,
            webhooks=[delivery],
        )


def topic_arn(region: str, name: str) -> str:
    partition = "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
    return f"arn:{partition}:sns:{region}:{ACCOUNT}:{name}"


def _topic(publish: Publish, routes: Routes) -> Topic | None:
    if publish.topic is None:
        return None
    topic = routes.topic(publish.topic)
    if topic is None:
        raise TopicNotFound()
    return topic


def _wanting(publish: Publish, routes: Routes, attributes: dict[str, Attribute]) -> list[Route]:
    if publish.topic is not None:
        candidates = routes.of_topic(publish.topic)
    else:
        candidates = routes.of_key(publish.routing_key or "")
    return [
        route
        for route in candidates
        if route.subscription.confirmed
        and (publish.only is None or route.subscription.id in publish.only)
        and route.wants(attributes, publish.body)
    ]


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
        self._arn = topic_arn(publish.region, publish.topic or publish.routing_key or "")
        self._signed: dict[str, Signed] = {}
        self._size = _size(publish)

    async def add(self, route: Route) -> bool:
        """Whether this subscriber is one we can serve."""
        protocol = route.subscription.protocol
        if protocol == QUEUE_PROTOCOL:
            self._fanout.queues.append(await self._to_queue(route))
        elif protocol == STREAM_PROTOCOL:
            self._fanout.streams.append(await self._to_stream(route))
        elif protocol in WEB_PROTOCOLS:
            self._fanout.webhooks.append(await self._to_endpoint(route))
        else:
            return False
        return True

    async def _to_queue(self, route: Route) -> QueueDelivery:
        publish, subscription = self._publish, route.subscription
        raw = subscription.raw
        send = Send(
            tenant=publish.tenant,
            queue=subscription.target or "",
            body=publish.body_for(QUEUE_PROTOCOL) if raw else await self._envelope(subscription),
            json=publish.json if raw else True,
            delay_s=publish.delay_s,
            attributes=publish.attributes if raw else None,
            headers=publish.headers if raw else None,
            trace=publish.trace,
            size=self._size if raw else None,
        )
        if send.queue.endswith(".fifo"):
            send.group_id = publish.group_id or _group(publish.routing_key or publish.topic or "")
            send.dedup_id = self._fanout.dedup_id or publish.dedup_id or publish.id
        elif self._fanout.dedup_id is None:
            send.group_id = publish.group_id
        return QueueDelivery(subscription_id=subscription.id, send=send, dead_letter_queue=route.dead_letter_queue)

    async def _to_stream(self, route: Route) -> StreamDelivery:
        publish, subscription = self._publish, route.subscription
        body = publish.body_for(STREAM_PROTOCOL) if subscription.raw else await self._envelope(subscription)
        return StreamDelivery(
            stream=subscription.target or "", kind=publish.routing_key or publish.topic or "", body=body
        )

    async def _to_endpoint(self, route: Route) -> NewDelivery:
        publish, subscription = self._publish, route.subscription
        raw = subscription.raw
        body = publish.body_for(subscription.protocol) if raw else await self._envelope(subscription)
        return NewDelivery(
            subscription_id=subscription.id,
            subscription_key=subscription.key,
            endpoint=subscription.endpoint,
            lane=route.lane,
            body=body,
            headers=json.dumps(self._headers(route)),
            secret=subscription.secret,
            delays=route.delays,
            dead_letter_queue=route.dead_letter_queue,
        )

    def _headers(self, route: Route) -> dict[str, str]:
        publish, subscription = self._publish, route.subscription
        if subscription.pattern is not None and subscription.raw:
            return {
                "content-type": "application/json" if publish.json else "text/plain; charset=utf-8",
                "user-agent": "Penstock",
                "penstock-routing-key": publish.routing_key or "",
            }
        headers = _sns_headers(Kind.NOTIFICATION, publish.id, self._arn, f"{self._arn}:{subscription.key}")
        if route.content_type is not None:
            headers["content-type"] = route.content_type
        if subscription.raw:
            headers["x-amz-sns-rawdelivery"] = "true"
        return headers

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
        version = None if self._topic is None else self._topic.attributes.get("SignatureVersion")
        return Notice(
            message_id=self._publish.id,
            topic_arn=self._arn,
            message=body,
            sent_at=self._clock.now(),
            subject=self._publish.subject,
            attributes=self._attributes,
            sequence_number=self._sequence(),
            signature_version=version if version in ("1", "2") else "1",
        )


def sequence_text(sequence: int) -> str:
    """A sequence number as subscribers see it: always twenty digits, so that texts compare like numbers."""
    return str(10**19 + sequence)


def _sns_headers(kind: Kind, message_id: str, arn: str, subscription_arn: str | None) -> dict[str, str]:
    headers = {
        "content-type": "text/plain; charset=UTF-8",
        "user-agent": SNS_AGENT,
        "x-amz-sns-message-type": kind.value,
        "x-amz-sns-message-id": message_id,
        "x-amz-sns-topic-arn": arn,
    }
    if subscription_arn is not None:
        headers["x-amz-sns-subscription-arn"] = subscription_arn
    return headers


def _group(name: str) -> str:
    return name if len(name) <= LONGEST_GROUP else hashlib.sha256(name.encode()).hexdigest()


def _size(publish: Publish) -> int | None:
    """Attributes and headers count towards the size of a message."""
    if publish.attributes is None and publish.headers is None:
        return None
    parts = (publish.body, publish.attributes or "", publish.headers or "")
    return sum(len(part.encode()) for part in parts)
