"""Native REST: events by routing key, and who is subscribed to which."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock import limits
from penstock.auth import Principal
from penstock.engine import Engine
from penstock.engine.checks import check_name
from penstock.engine.streams.streams import check_stream
from penstock.engine.topics.filters import policy as filters
from penstock.engine.topics.routing_keys import check_pattern, check_routing_key
from penstock.engine.topics.webhooks import is_secret, new_secret
from penstock.errors import Forbidden, Invalid, PenstockError, SubscriptionNotFound, TopicNotFound
from penstock.model import Scope, TenantId
from penstock.model.arns import queue_arn
from penstock.model.topics import (
    QUEUE_PROTOCOL,
    STREAM_PROTOCOL,
    WEB_PROTOCOLS,
    NewSubscription,
    Publish,
    Published,
    Subscription,
)
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.messages import BATCH_BODY
from penstock.wire.rest.short_names import ShortNames
from penstock.wire.rest.types import Moment, NoQuery, Strict, path_number

REGION = "us-east-1"

_EVENT = "/v1/events/{routing_key}"
_SUBSCRIPTIONS = "/v1/events/{pattern}/subscriptions"
_OF_TOPIC = "/v1/topics/{name}/subscriptions"

_text = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode


class PublishEvent(Strict):
    message: Annotated[Raw, Meta(description="Any JSON value. A string is stored as plain text.")]
    headers: dict[str, Raw] | None = None
    delay: Annotated[int, Meta(description="Seconds before queues hand it out.")] | None = None
    group_id: Annotated[str, Meta(description="For FIFO queues; else the routing key.")] | None = None
    dedup_id: Annotated[str, Meta(description="For FIFO queues; else it is unique.")] | None = None


class EventMessage(Struct):
    queue_name: str
    id: int


class PublishedEvent(Struct):
    message_id: str
    queues_matched: int
    messages: list[EventMessage]
    deliveries: Annotated[int, Meta(description="Webhook deliveries that are now under way.")]


class NewEventSubscription(Strict):
    """A queue, a stream or an HTTP endpoint that wants the events of a pattern."""

    queue_name: str | None = None
    stream: str | None = None
    protocol: Literal["http", "https", "sqs", "stream"] | None = None
    endpoint: str | None = None
    envelope: Annotated[bool, Meta(description="Wrap events as SNS does.")] = False
    filter: Annotated[dict[str, Raw], Meta(description="A filter policy: which bodies are wanted.")] | None = None
    secret: Annotated[str, Meta(description="What webhooks are signed with; left out, one is made.")] | None = None


class EventSubscription(Struct, omit_defaults=True, kw_only=True):
    id: int
    topic: str | None = None
    pattern: str | None = None
    protocol: str
    endpoint: str
    queue_name: str | None = None
    stream: str | None = None
    envelope: bool
    filter: Raw | UnsetType = UNSET
    created_at: Moment
    secret: Annotated[str, Meta(description="Shown once, when the subscription is made.")] | UnsetType = UNSET
    warning: Annotated[str, Meta(description="Why deliveries to the endpoint will fail.")] | UnsetType = UNSET


class PageQuery(Strict):
    after: Annotated[int, Meta(ge=0, description="Ids after this one: the last of the page before.")] = 0
    limit: Annotated[int, Meta(ge=1, le=limits.SUBSCRIPTION_PAGE[1])] = 100


_new_event = msgspec.json.Decoder(PublishEvent)
_new_subscription = msgspec.json.Decoder(NewEventSubscription)


class EventRoutes:
    def __init__(self, engine: Engine, names: ShortNames) -> None:
        self._topics = engine.topics
        self._names = names
        self._webhooks = engine.webhooks

    def operations(self) -> list[Operation]:
        tag = "events"
        return [
            Operation(
                method="POST", path=_EVENT, handler=self.publish, tag=tag, scope=Scope.SEND,
                summary="Publish an event to all who subscribed to a fitting pattern", body=PublishEvent,
                answers={201: PublishedEvent}, body_bytes=BATCH_BODY,
            ),
            Operation(
                method="POST", path=_SUBSCRIPTIONS, handler=self.subscribe, tag=tag, scope=Scope.MANAGE,
                summary="Subscribe a queue, a stream or an endpoint", body=NewEventSubscription,
                answers={201: EventSubscription, 200: EventSubscription},
            ),
            Operation(
                method="GET", path=_SUBSCRIPTIONS, handler=self.list, tag=tag, scope=Scope.READ,
                summary="Subscriptions of a pattern", query=PageQuery, answers={200: list[EventSubscription]},
            ),
            Operation(
                method="DELETE", path=f"{_SUBSCRIPTIONS}/{{id}}", handler=self.unsubscribe, tag=tag,
                scope=Scope.MANAGE, summary="End a subscription", answers={204: None},
            ),
            Operation(
                method="GET", path="/v1/queues/{name}/subscriptions", handler=self.of_queue, tag=tag, scope=Scope.READ,
                summary="Event subscriptions of a queue", query=PageQuery, answers={200: list[EventSubscription]},
            ),
            Operation(
                method="POST", path=_OF_TOPIC, handler=self.subscribe_to_topic, tag="topics", scope=Scope.MANAGE,
                summary="Subscribe a queue, a stream or an endpoint to a topic", body=NewEventSubscription,
                answers={201: EventSubscription, 200: EventSubscription}, errors=(TopicNotFound,),
            ),
            Operation(
                method="GET", path=_OF_TOPIC, handler=self.list_of_topic, tag="topics", scope=Scope.READ,
                summary="Subscriptions of a topic", query=PageQuery, answers={200: list[EventSubscription]},
                errors=(TopicNotFound,),
            ),
        ]  # fmt: skip

    async def publish(self, request: Request) -> Response:
        key, principal = request.arguments[0], request.principal
        principal.require(Scope.SEND)
        if request.query:
            read_query(NoQuery, request.query)
        check_routing_key(key)
        principal.require(Scope.SEND, key)
        publish = _publish(principal.tenant, key, read_body(_new_event, request.body))
        publish.base_url = _base_url(request)
        return Response(201, _encode(as_published(await self._topics.publish(publish))))

    async def subscribe(self, request: Request) -> Response:
        pattern, principal = request.arguments[0], request.principal
        principal.require(Scope.MANAGE)
        if request.query:
            read_query(NoQuery, request.query)
        check_pattern(pattern)
        _require_pattern(principal, Scope.MANAGE, pattern)
        return await self._subscribe(request, pattern=pattern)

    async def subscribe_to_topic(self, request: Request) -> Response:
        name, principal = request.arguments[0], request.principal
        principal.require(Scope.MANAGE, name)
        if request.query:
            read_query(NoQuery, request.query)
        await self._topics.get(principal.tenant, name)
        return await self._subscribe(request, topic=name)

    async def _subscribe(self, request: Request, *, topic: str | None = None, pattern: str | None = None) -> Response:
        principal, given = request.principal, read_body(_new_subscription, request.body)
        if given.queue_name is not None:
            given.queue_name = await self._names.full(principal, given.queue_name)
        new = _new(principal.tenant, given, topic, pattern)
        if new.target is not None and not principal.reaches(new.target):
            raise Forbidden("this token has no access to that queue", field="queue_name")
        subscription, created = await self._topics.subscribe(new)
        shown = _shown(subscription, secret=created)
        if new.protocol in WEB_PROTOCOLS:
            shown.warning = self._webhooks.warning_about(new.endpoint) or UNSET
        return Response(201 if created else 200, _encode(shown))

    async def list(self, request: Request) -> Response:
        pattern, principal = request.arguments[0], request.principal
        principal.require(Scope.READ)
        check_pattern(pattern)
        _require_pattern(principal, Scope.READ, pattern)
        query = read_query(PageQuery, request.query)
        found = await self._topics.subscriptions(
            principal.tenant, pattern=pattern, after=query.after, limit=query.limit
        )
        return Response(200, _encode([_shown(each) for each in found]))

    async def list_of_topic(self, request: Request) -> Response:
        name, principal = request.arguments[0], request.principal
        principal.require(Scope.READ, name)
        query = read_query(PageQuery, request.query)
        await self._topics.get(principal.tenant, name)
        found = await self._topics.subscriptions(principal.tenant, topic=name, after=query.after, limit=query.limit)
        return Response(200, _encode([_shown(each) for each in found]))

    async def unsubscribe(self, request: Request) -> Response:
        pattern, principal = request.arguments[0], request.principal
        principal.require(Scope.MANAGE)
        if request.query:
            read_query(NoQuery, request.query)
        check_pattern(pattern)
        _require_pattern(principal, Scope.MANAGE, pattern)
        number = path_number(request.arguments[1], "id")
        found = await self._topics.subscriptions(principal.tenant, pattern=pattern, after=number - 1, limit=1)
        if not found or found[0].id != number:
            raise SubscriptionNotFound(field="id")
        if await self._topics.unsubscribe(principal.tenant, found[0].key) is None:
            raise SubscriptionNotFound(field="id")
        return NO_CONTENT

    async def of_queue(self, request: Request) -> Response:
        principal = request.principal
        check_name(request.arguments[0])
        name = await self._names.full(principal, request.arguments[0])
        principal.require(Scope.READ, name)
        query = read_query(PageQuery, request.query)
        found = await self._topics.subscriptions(principal.tenant, target=name, after=query.after, limit=query.limit)
        return Response(200, _encode([_shown(each) for each in found if each.pattern is not None]))


def _require_pattern(principal: Principal, scope: Scope, pattern: str) -> None:
    """The token must reach every routing key that fits the pattern, whatever stands for its wildcards."""
    for one in (pattern, pattern.replace("*", "any").replace("#", "any.any")):
        principal.require(scope, one)


def _base_url(request: Request) -> str | None:
    host = request.found.get(b"host")
    return f"http://{host.decode('latin-1')}" if host else None


def body_of(event: PublishEvent) -> tuple[str, bool, str | None]:
    """The body, whether it is JSON, and the headers."""
    raw = bytes(event.message)
    is_json = raw[0] != 0x22
    try:
        body = raw.decode() if is_json else _text.decode(raw)
        headers = _encode(event.headers).decode() if event.headers else None
    except (UnicodeDecodeError, msgspec.DecodeError):
        raise Invalid("message is not valid UTF-8", field="message") from None
    return body, is_json, headers


def _publish(tenant: TenantId, key: str, event: PublishEvent) -> Publish:
    body, is_json, headers = body_of(event)
    return Publish(
        tenant=tenant,
        routing_key=key,
        body=body,
        json=is_json,
        headers=headers,
        delay_s=event.delay,
        group_id=event.group_id,
        dedup_id=event.dedup_id,
    )


def as_published(published: Published) -> PublishedEvent:
    messages = [EventMessage(queue, number) for queue, number in published.sent]
    return PublishedEvent(published.id, len(messages), messages, published.deliveries)


def _new(tenant: TenantId, given: NewEventSubscription, topic: str | None, pattern: str | None) -> NewSubscription:
    protocol, endpoint, target = _receiver(given)
    attributes = {} if given.envelope else {"RawMessageDelivery": "true"}
    if given.filter is not None:
        attributes |= {"FilterPolicy": _policy(given.filter), "FilterPolicyScope": "MessageBody"}
    secret = None
    if protocol in WEB_PROTOCOLS:
        secret = new_secret() if given.secret is None else given.secret
        if not is_secret(secret):
            raise Invalid("secret must be whsec_ and 24 to 64 bytes in base64", field="secret")
    elif given.secret is not None:
        raise Invalid("only webhooks are signed", field="secret")
    if topic is not None and protocol == QUEUE_PROTOCOL:
        if endpoint.endswith(".fifo") and not topic.endswith(".fifo"):
            raise Invalid("a FIFO queue needs a FIFO topic", field="queue_name")
        # As SNS clients know it.
        endpoint = queue_arn(REGION, endpoint)
    return NewSubscription(
        tenant=tenant,
        topic=topic,
        pattern=pattern,
        protocol=protocol,
        endpoint=endpoint,
        target=target,
        attributes=attributes,
        secret=secret,
    )


def _receiver(given: NewEventSubscription) -> tuple[str, str, str | None]:
    """Protocol, endpoint and name of the one receiver that is given."""
    named = [name for name in ("queue_name", "stream", "endpoint") if getattr(given, name) is not None]
    if len(named) != 1:
        raise Invalid("give one of queue_name, stream and endpoint", field=named[-1] if named else "queue_name")
    if given.queue_name is not None:
        check_name(given.queue_name, "queue_name")
        return _agreed(given, QUEUE_PROTOCOL), given.queue_name, given.queue_name
    if given.stream is not None:
        check_stream(given.stream, "stream")
        return _agreed(given, STREAM_PROTOCOL), given.stream, given.stream
    assert given.endpoint is not None
    scheme = given.endpoint.partition("://")[0].lower()
    if scheme not in WEB_PROTOCOLS or not given.endpoint.isascii():
        raise Invalid("endpoint must be an http or https URL", field="endpoint")
    return _agreed(given, scheme), given.endpoint, None


def _agreed(given: NewEventSubscription, protocol: str) -> str:
    if given.protocol not in (None, protocol):
        raise Invalid(f"protocol must be {protocol} here, or left out", field="protocol")
    return protocol


def _policy(given: dict[str, Raw]) -> str:
    text = _encode(given).decode()
    try:
        filters.parse(text, "body")
    except PenstockError as error:
        error.field = "filter"
        raise
    # As short as it can be, and without what two ways of writing the same could differ in.
    return json.dumps(json.loads(text), separators=(",", ":"))


def _shown(subscription: Subscription, *, secret: bool = False) -> EventSubscription:
    policy = subscription.attributes.get("FilterPolicy")
    return EventSubscription(
        id=subscription.id,
        topic=subscription.topic,
        pattern=subscription.pattern,
        protocol=subscription.protocol,
        endpoint=subscription.endpoint,
        queue_name=subscription.target if subscription.protocol == QUEUE_PROTOCOL else None,
        stream=subscription.target if subscription.protocol == STREAM_PROTOCOL else None,
        envelope=not subscription.raw,
        filter=Raw(policy) if policy else UNSET,
        created_at=subscription.created_at,
        secret=subscription.secret if secret and subscription.secret else UNSET,
    )
