"""Native REST: webhook deliveries, to look at, to try once more, and to forget."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from penstock.engine import Engine
from penstock.errors import DeliveryNotFound
from penstock.model import Scope
from penstock.model import topics as model
from penstock.model.topics import DeliveryState
from penstock.wire.http.bodies import read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.types import Moment, NoQuery, Strict, path_number

_DELIVERIES = "/v1/deliveries"
_DELIVERY = "/v1/deliveries/{id}"

_encode = msgspec.json.Encoder().encode


class DeliveryItem(Struct, kw_only=True):
    id: int
    state: str
    endpoint: str
    subscription_id: int
    message_id: str
    topic: str | None
    routing_key: str | None
    attempts: int
    created_at: Moment
    next_attempt_at: Annotated[Moment | None, Meta(description="null once it is finished.")]
    finished_at: Moment | None
    last_status: Annotated[int | None, Meta(description="What the endpoint answered last.")]
    last_error: str | None


class Delivery(DeliveryItem, kw_only=True):
    body: str


class DeliveryQuery(Strict):
    state: DeliveryState | None = None
    subscription: Annotated[int, Meta(description="Of this subscription only.")] | None = None
    before: Annotated[int, Meta(ge=1, description="Ids before this one: the last of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class DeliveryRoutes:
    def __init__(self, engine: Engine) -> None:
        self._webhooks = engine.webhooks
        self._topics = engine.topics

    def operations(self) -> list[Operation]:
        tag = "deliveries"
        return [
            Operation(
                method="GET", path=_DELIVERIES, handler=self.list, tag=tag, scope=Scope.READ,
                summary="Webhook deliveries, newest first", query=DeliveryQuery, answers={200: list[DeliveryItem]},
            ),
            Operation(
                method="GET", path=_DELIVERY, handler=self.get, tag=tag, scope=Scope.READ,
                summary="One delivery, with its body", answers={200: Delivery},
            ),
            Operation(
                method="POST", path=f"{_DELIVERY}/replay", handler=self.replay, tag=tag, scope=Scope.MANAGE,
                summary="Try a finished delivery once more, with all its retries", answers={202: Delivery},
            ),
            Operation(
                method="DELETE", path=_DELIVERY, handler=self.drop, tag=tag, scope=Scope.MANAGE,
                summary="Forget a delivery; one that is pending is not made", answers={204: None},
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        query = read_query(DeliveryQuery, request.query)
        found = await self._webhooks.list(
            request.principal.tenant,
            state=query.state,
            subscription_id=query.subscription,
            before=query.before,
            limit=query.limit,
        )
        return Response(200, _encode([_item(each) for each in found if request.principal.reaches(_source(each))]))

    async def get(self, request: Request) -> Response:
        return Response(200, _encode(_shown(await self._reach(request, Scope.READ))))

    async def _reach(self, request: Request, scope: Scope) -> model.Delivery:
        """The delivery, when the token reaches the topic or the routing key it comes from."""
        delivery = await self._webhooks.get(request.principal.tenant, _number(request, scope))
        if not request.principal.reaches(_source(delivery)):
            raise DeliveryNotFound(field="id")
        return delivery

    async def replay(self, request: Request) -> Response:
        found = await self._reach(request, Scope.MANAGE)
        delivery = await self._webhooks.replay(request.principal.tenant, found.id)
        self._topics.on_deliveries()
        return Response(202, _encode(_shown(delivery)))

    async def drop(self, request: Request) -> Response:
        found = await self._reach(request, Scope.MANAGE)
        if not await self._webhooks.drop(request.principal.tenant, found.id):
            raise DeliveryNotFound(field="id")
        return NO_CONTENT


def _source(delivery: model.Delivery) -> str:
    return delivery.topic or delivery.routing_key or ""


def _number(request: Request, scope: Scope) -> int:
    request.principal.require(scope)
    if request.query:
        read_query(NoQuery, request.query)
    return path_number(request.arguments[0], "id")


def _fields(delivery: model.Delivery) -> dict[str, object]:
    finished = delivery.finished_at is not None
    return {
        "id": delivery.id,
        "state": delivery.state.value,
        "endpoint": delivery.endpoint,
        "subscription_id": delivery.subscription_id,
        "message_id": delivery.message_id,
        "topic": delivery.topic,
        "routing_key": delivery.routing_key,
        "attempts": delivery.attempts,
        "created_at": delivery.created_at,
        "next_attempt_at": None if finished else delivery.due_at,
        "finished_at": delivery.finished_at,
        "last_status": delivery.last_status,
        "last_error": delivery.last_error,
    }


def _item(delivery: model.Delivery) -> DeliveryItem:
    return DeliveryItem(**_fields(delivery))  # type: ignore[arg-type]


def _shown(delivery: model.Delivery) -> Delivery:
    return Delivery(**_fields(delivery), body=delivery.body)  # type: ignore[arg-type]
