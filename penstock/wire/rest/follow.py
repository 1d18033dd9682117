"""Native REST: the timeline of one message, job, event, delivery, publish or trace."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from penstock.engine import Engine
from penstock.model import Scope
from penstock.model.follow import TrailKind
from penstock.wire.http.bodies import read_query
from penstock.wire.http.messages import Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.types import Moment, Strict

_encode = msgspec.json.Encoder().encode


class FollowQuery(Strict, kw_only=True):
    id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description="Id of a message, job, event, delivery or publish, or a trace id. A number can be narrowed:"
            " `message:12`, `delivery:12`, `event:12` or `event:STREAM/12`.",
        ),
    ]


class TrailStep(Struct, kw_only=True):
    at: Annotated[Moment, Meta(description="Null for what is so now.")] | None
    kind: TrailKind
    id: str
    where: Annotated[str, Meta(description="Queue, stream, topic or routing key.")]
    what: str
    detail: str


class Trail(Struct, kw_only=True):
    id: str
    steps: Annotated[list[TrailStep], Meta(description="Oldest first; what is so now comes last.")]
    traces: Annotated[list[str], Meta(description="Trace ids that connect the steps.")]
    complete: Annotated[bool, Meta(description="False when there was more than an answer holds.")]


class FollowRoutes:
    def __init__(self, engine: Engine) -> None:
        self._follow = engine.follow

    def operations(self) -> list[Operation]:
        return [
            Operation(
                method="GET", path="/v1/follow", handler=self.show, tag="follow", scope=Scope.READ,
                summary="Timeline of one thing across queues, jobs, streams and webhooks", query=FollowQuery,
                answers={200: Trail},
            ),
        ]  # fmt: skip

    async def show(self, request: Request) -> Response:
        query = read_query(FollowQuery, request.query)
        principal = request.principal
        principal.require(Scope.READ)
        found = await self._follow.trail(principal.tenant, query.id, principal.reaches)
        steps = [
            TrailStep(at=step.at, kind=step.kind, id=step.id, where=step.where, what=step.what, detail=step.detail)
            for step in found.steps
        ]
        trail = Trail(id=found.asked, steps=steps, traces=list(found.traces), complete=found.complete)
        return Response(200, _encode(trail))
