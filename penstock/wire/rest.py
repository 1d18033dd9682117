"""The native REST door: its table of operations, and what every server answers for its operators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec

from penstock.auth import Authenticator, Mode
from penstock.engine import Engine
from penstock.errors import Forbidden, QueueNotFound
from penstock.model import Scope
from penstock.wire import metrics, openapi
from penstock.wire.faults import json_fault
from penstock.wire.http import TEXT, Request, Response, Route
from penstock.wire.openapi import Operation
from penstock.wire.rest_deliveries import DeliveryRoutes
from penstock.wire.rest_events import EventRoutes
from penstock.wire.rest_insights import InsightRoutes
from penstock.wire.rest_messages import MessageRoutes
from penstock.wire.rest_outbox import OutboxRoutes
from penstock.wire.rest_pipelines import PipelineRoutes
from penstock.wire.rest_queues import QueueRoutes
from penstock.wire.rest_schedules import ScheduleRoutes
from penstock.wire.rest_streams import StreamRoutes
from penstock.wire.rest_types import Status

OWNS = ("v1", "livez", "readyz", "metrics")
"""First segments of the paths that are this door's alone."""
READY_S = 2.0

Peers = Callable[[], Awaitable[Iterable[bytes]]]
"""The numbers of the other processes of this server, as `metrics.dump` gives them."""

_ALIVE = Response(200, b'{"status":"ok"}')
_DEGRADED = Response(503, b'{"status":"degraded"}')


async def _alone() -> Iterable[bytes]:
    return ()


class Rest:
    """Serve with `Router(rest.routes(), OWNS)`."""

    def __init__(
        self,
        engine: Engine,
        authenticator: Authenticator,
        *,
        version: str = "0",
        peers: Peers = _alone,
        others: Sequence[Operation] = (),
    ) -> None:
        """`others` are served by the other JSON doors, and stand in the document."""
        self._engine = engine
        self._authenticator = authenticator
        self._version = version
        self._peers = peers
        self._others = others
        self.operations = [
            *QueueRoutes(engine).operations(),
            *MessageRoutes(engine).operations(),
            *EventRoutes(engine).operations(),
            *DeliveryRoutes(engine).operations(),
            *OutboxRoutes(engine).operations(),
            *ScheduleRoutes(engine).operations(),
            *StreamRoutes(engine).operations(),
            *PipelineRoutes(engine).operations(),
            *InsightRoutes(engine).operations(),
            *self._own_operations(),
        ]

    def routes(self) -> list[Route]:
        return [operation.route(rest_fault) for operation in self.operations]

    @cached_property
    def document(self) -> dict[str, Any]:
        return openapi.document([*self.operations, *self._others], title="Penstock", version=self._version)

    @cached_property
    def _document_bytes(self) -> bytes:
        return msgspec.json.encode(self.document)

    def _own_operations(self) -> list[Operation]:
        tag = "server"
        return [
            Operation(
                method="GET", path="/v1/openapi.json", handler=self.openapi, tag=tag, summary="This document",
                answers={200: dict[str, Any]},
            ),
            Operation(
                method="GET", path="/livez", handler=self.livez, tag=tag, summary="The process runs",
                answers={200: Status},
            ),
            Operation(
                method="GET", path="/readyz", handler=self.readyz, tag=tag, summary="The database answers",
                answers={200: Status, 503: Status},
            ),
            Operation(
                method="GET", path="/metrics", handler=self.metrics, tag=tag, summary="Numbers for Prometheus",
                answers={200: str}, media="text/plain",
            ),
        ]  # fmt: skip

    def openapi(self, request: Request) -> Response:
        return Response(200, self._document_bytes)

    def livez(self, request: Request) -> Response:
        return _ALIVE

    async def readyz(self, request: Request) -> Response:
        asked = asyncio.ensure_future(self._engine.ping())
        # Not wait_for: a hanging database takes its time to be cancelled too, and the balancer wants an answer.
        await asyncio.wait([asked], timeout=READY_S)
        if not asked.done():
            asked.cancel()
            return _DEGRADED
        return _ALIVE if asked.exception() is None else _DEGRADED

    async def metrics(self, request: Request) -> Response:
        metrics.note_pool(self._engine.insights, self._engine.store.pool_numbers())
        text = metrics.render(self._engine.insights, await self._peers(), names=await self._may_see_names(request))
        return Response(200, text, TEXT)

    async def _may_see_names(self, request: Request) -> bool:
        """Names are their tenants' business; an admin sees all of them, and so does everyone at home."""
        if self._authenticator.mode is Mode.OPEN:
            return True
        try:
            principal = await self._authenticator.principal(request.authorization)
            principal.require(Scope.ADMIN)
        except Forbidden:
            return False
        return True


def rest_fault(error: Exception, request_id: str) -> Response:
    """A queue that does not exist is, unless said otherwise, the one the path names."""
    if isinstance(error, QueueNotFound) and error.field is None:
        error.field = "name"
    return json_fault(error, request_id)
