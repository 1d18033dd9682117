"""Native REST: the state of the caller's tenant at a glance, and what looks wrong in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from penstock.auth import Principal
from penstock.engine import Engine
from penstock.engine.insights import status as model
from penstock.model import Scope
from penstock.wire.http.bodies import read_query
from penstock.wire.http.messages import Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.types import Moment, Strict

_encode = msgspec.json.Encoder().encode

Seconds = Annotated[float, Meta(description="Seconds.")]


class QueueStatus(Struct, kw_only=True):
    queue: str
    visible: int
    in_flight: int
    delayed: int
    sent: Annotated[int, Meta(description="Messages that were ever sent.")]
    oldest_age: Annotated[float | None, Meta(description="Age of the oldest message in seconds.")]
    dead_letters: Annotated[bool, Meta(description="Other queues send their dead letters here.")]


class JobQueueStatus(Struct, kw_only=True):
    queue: str
    pending: int
    processing: int
    dead: int
    oldest_wait: Annotated[float | None, Meta(description="How long a ready job has waited, in seconds.")]


class ConsumerStatus(Struct, kw_only=True):
    stream: str
    consumer: str
    pending: int
    lag: Seconds


class EndpointStatus(Struct, kw_only=True):
    endpoint: str
    pending: int
    failing: Annotated[int, Meta(description="Unfinished deliveries that failed at least twice.")]
    exhausted: int
    last_error: str | None


class ScheduleStatus(Struct, kw_only=True):
    schedule: str
    status: str
    overdue: Seconds
    consecutive_failures: int
    last_error: str | None


class Problem(Struct, kw_only=True):
    kind: str
    name: str
    problem: str


class Overview(Struct, kw_only=True):
    at: Moment
    queues: list[QueueStatus]
    jobs: list[JobQueueStatus]
    consumers: list[ConsumerStatus]
    endpoints: list[EndpointStatus]
    schedules: list[ScheduleStatus]
    problems: list[Problem]


class StatusQuery(Strict):
    stuck_after: Annotated[int, Meta(ge=1, le=31_536_000, description="Seconds after which a wait is a problem.")] = (
        model.STUCK_S
    )


class StatusRoutes:
    def __init__(self, engine: Engine) -> None:
        self._overview = engine.overview

    def operations(self) -> list[Operation]:
        return [
            Operation(
                method="GET", path="/v1/status", handler=self.status, tag="server", scope=Scope.READ,
                summary="The state of everything, and what looks wrong", query=StatusQuery, answers={200: Overview},
            )
        ]  # fmt: skip

    async def status(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        query = read_query(StatusQuery, request.query)
        found = _within_reach(await self._overview.status(request.principal.tenant), request.principal)
        return Response(200, _encode(_shown(found, model.problems(found, query.stuck_after))))


def _within_reach(found: model.Status, principal: Principal) -> model.Status:
    """A token for some queues sees those, and nothing of endpoints and schedules, which have other names."""
    if principal.queues == "*":
        return found
    return model.Status(
        at=found.at,
        queues=[one for one in found.queues if principal.reaches(one.name)],
        jobs=[one for one in found.jobs if principal.reaches(one.name)],
        consumers=[one for one in found.consumers if principal.reaches(one.stream)],
        endpoints=(),
        schedules=(),
    )


def _shown(found: model.Status, problems: Iterable[model.Problem]) -> Overview:
    return Overview(
        at=found.at,
        queues=[
            QueueStatus(
                queue=one.name,
                visible=one.visible,
                in_flight=one.in_flight,
                delayed=one.delayed,
                sent=one.sent,
                oldest_age=_rounded(one.oldest_s),
                dead_letters=one.holds_dead_letters,
            )
            for one in found.queues
        ],
        jobs=[
            JobQueueStatus(
                queue=one.name,
                pending=one.pending,
                processing=one.processing,
                dead=one.dead,
                oldest_wait=_rounded(one.wait_s),
            )
            for one in found.jobs
        ],
        consumers=[
            ConsumerStatus(stream=one.stream, consumer=one.consumer, pending=one.pending, lag=round(one.lag_s, 3))
            for one in found.consumers
        ],
        endpoints=[
            EndpointStatus(
                endpoint=one.endpoint,
                pending=one.pending,
                failing=one.failing,
                exhausted=one.exhausted,
                last_error=one.last_error,
            )
            for one in found.endpoints
        ],
        schedules=[
            ScheduleStatus(
                schedule=one.name,
                status=one.status,
                overdue=round(one.due_s, 3),
                consecutive_failures=one.failures,
                last_error=one.last_error,
            )
            for one in found.schedules
        ],
        problems=[Problem(kind=one.kind, name=one.name, problem=one.problem) for one in problems],
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
