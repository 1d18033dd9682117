"""Native REST: topics, which SNS clients use too, and all subscriptions to topics and patterns."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from penstock import limits
from penstock.engine import Engine
from penstock.errors import SubscriptionNotFound, TopicNotFound
from penstock.model import Scope
from penstock.model import topics as model
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.events import PublishedEvent, PublishEvent, as_published, body_of
from penstock.wire.rest.messages import BATCH_BODY
from penstock.wire.rest.types import Moment, NoQuery, Strict, path_number

_TOPICS = "/v1/topics"
_TOPIC = "/v1/topics/{name}"
_SUBSCRIPTIONS = "/v1/subscriptions"

_encode = msgspec.json.Encoder().encode


class NewTopic(Strict):
    name: Annotated[str, Meta(description="1 to 256 letters, digits, hyphens and underscores; .fifo may follow.")]


class Topic(Struct, kw_only=True):
    name: str
    fifo: bool
    created_at: Moment


class TopicsQuery(Strict):
    after: Annotated[str, Meta(description="Names after this one: the last name of the page before.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Subscription(Struct, kw_only=True):
    id: int
    topic: str | None
    pattern: Annotated[str | None, Meta(description="Of routing keys; null for subscriptions to a topic.")]
    protocol: str
    endpoint: str
    confirmed: bool
    created_at: Moment


class SubscriptionsQuery(Strict):
    topic: str | None = None
    pattern: str | None = None
    after: Annotated[int, Meta(ge=0, description="Ids after this one: the last of the page before.")] = 0
    limit: Annotated[int, Meta(ge=1, le=limits.SUBSCRIPTION_PAGE[1])] = 100


_new_topic = msgspec.json.Decoder(NewTopic)
_new_event = msgspec.json.Decoder(PublishEvent)


class TopicRoutes:
    def __init__(self, engine: Engine) -> None:
        self._topics = engine.topics

    def operations(self) -> list[Operation]:
        tag, read, manage = "topics", Scope.READ, Scope.MANAGE
        return [
            Operation(
                method="POST", path=_TOPICS, handler=self.create, tag=tag, scope=manage, summary="Create a topic",
                body=NewTopic, answers={201: Topic, 200: Topic},
            ),
            Operation(
                method="GET", path=_TOPICS, handler=self.list, tag=tag, scope=read, summary="List topics",
                query=TopicsQuery, answers={200: list[Topic]},
            ),
            Operation(
                method="DELETE", path=_TOPIC, handler=self.drop, tag=tag, scope=manage,
                summary="Delete a topic with its subscriptions", answers={204: None}, errors=(TopicNotFound,),
            ),
            Operation(
                method="POST", path=f"{_TOPIC}/messages", handler=self.publish, tag=tag, scope=Scope.SEND,
                summary="Publish to a topic", body=PublishEvent, answers={201: PublishedEvent},
                errors=(TopicNotFound,), body_bytes=BATCH_BODY,
            ),
            Operation(
                method="GET", path=_SUBSCRIPTIONS, handler=self.subscriptions, tag=tag, scope=read,
                summary="Subscriptions to topics and patterns", query=SubscriptionsQuery,
                answers={200: list[Subscription]},
            ),
            Operation(
                method="DELETE", path=f"{_SUBSCRIPTIONS}/{{id}}", handler=self.unsubscribe, tag=tag, scope=manage,
                summary="End a subscription", answers={204: None}, errors=(SubscriptionNotFound,),
            ),
        ]  # fmt: skip

    async def create(self, request: Request) -> Response:
        given = read_body(_new_topic, request.body)
        request.principal.require(Scope.MANAGE, given.name)
        topic, created = await self._topics.create(request.principal.tenant, given.name)
        return Response(201 if created else 200, _encode(_topic(topic)))

    async def list(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        query = read_query(TopicsQuery, request.query)
        found = await self._topics.list(request.principal.tenant, after=query.after, limit=query.limit)
        return Response(200, _encode([_topic(one) for one in found if request.principal.reaches(one.name)]))

    async def drop(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        if not await self._topics.delete(request.principal.tenant, name):
            raise TopicNotFound(f"Topic '{name}' does not exist", field="name")
        return NO_CONTENT

    async def publish(self, request: Request) -> Response:
        name = _name(request, Scope.SEND)
        event = read_body(_new_event, request.body)
        body, is_json, headers = body_of(event)
        publish = model.Publish(
            tenant=request.principal.tenant,
            topic=name,
            body=body,
            json=is_json,
            headers=headers,
            delay_s=event.delay,
            group_id=event.group_id,
            dedup_id=event.dedup_id,
        )
        return Response(201, _encode(as_published(await self._topics.publish(publish))))

    async def subscriptions(self, request: Request) -> Response:
        principal = request.principal
        principal.require(Scope.READ)
        query = read_query(SubscriptionsQuery, request.query)
        found = await self._topics.subscriptions(
            principal.tenant, topic=query.topic, pattern=query.pattern, every=True, after=query.after, limit=query.limit
        )
        return Response(200, _encode([_subscription(one) for one in found if principal.reaches(_source(one))]))

    async def unsubscribe(self, request: Request) -> Response:
        principal = request.principal
        principal.require(Scope.MANAGE)
        if request.query:
            read_query(NoQuery, request.query)
        number = path_number(request.arguments[0], "id")
        found = await self._topics.subscriptions(principal.tenant, every=True, after=number - 1, limit=1)
        if not found or found[0].id != number or not principal.reaches(_source(found[0])):
            raise SubscriptionNotFound(field="id")
        if await self._topics.unsubscribe(principal.tenant, found[0].key) is None:
            raise SubscriptionNotFound(field="id")
        return NO_CONTENT


def _name(request: Request, scope: Scope) -> str:
    if request.query:
        read_query(NoQuery, request.query)
    name = request.arguments[0]
    request.principal.require(scope, name)
    return name


def _source(subscription: model.Subscription) -> str:
    return subscription.topic or subscription.pattern or ""


def _topic(found: model.Topic) -> Topic:
    return Topic(name=found.name, fifo=found.fifo, created_at=found.created_at)


def _subscription(found: model.Subscription) -> Subscription:
    return Subscription(
        id=found.id,
        topic=found.topic,
        pattern=found.pattern,
        protocol=found.protocol,
        endpoint=found.endpoint,
        confirmed=found.confirmed,
        created_at=found.created_at,
    )
