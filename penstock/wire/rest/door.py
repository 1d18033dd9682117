"""The native REST door: its table of operations, and what every server answers for its operators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from penstock.auth import Authenticator, Mode
from penstock.engine import Engine
from penstock.errors import Forbidden, PenstockError, QueueNotFound
from penstock.model import Scope
from penstock.wire import openapi, prometheus
from penstock.wire.http.faults import json_fault
from penstock.wire.http.messages import Request, Response
from penstock.wire.http.router import Route
from penstock.wire.openapi import Operation
from penstock.wire.rest.deliveries import DeliveryRoutes
from penstock.wire.rest.events import EventRoutes
from penstock.wire.rest.follow import FollowRoutes
from penstock.wire.rest.insights import InsightRoutes
from penstock.wire.rest.messages import MessageRoutes
from penstock.wire.rest.outbox import OutboxRoutes
from penstock.wire.rest.pipelines import PipelineRoutes
from penstock.wire.rest.queues import QueueRoutes
from penstock.wire.rest.schedules import ScheduleRoutes
from penstock.wire.rest.short_names import ShortNames
from penstock.wire.rest.status import StatusRoutes
from penstock.wire.rest.streams import StreamRoutes
from penstock.wire.rest.tenants import TenantRoutes
from penstock.wire.rest.topics import TopicRoutes
from penstock.wire.rest.types import Liveness, Status

OWNS = ("v1", "livez", "readyz", "metrics")
"""First segments of the paths that are this door's alone."""
READY_S = 2.0

_READY = Response(200, b'{"status":"ok"}')
_DEGRADED = Response(503, b'{"status":"degraded"}')

Peers = Callable[[], Awaitable[Iterable[bytes]]]
"""The numbers of the other processes of this server, as `prometheus.dump` gives them."""


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
        self._rendering = asyncio.Lock()
        self._alive = Response(200, msgspec.json.encode(Liveness("ok", version)))
        self._peers = peers
        self._others = others
        names = ShortNames(engine.queues)
        queues = [*QueueRoutes(engine, names).operations(), *MessageRoutes(engine, names).operations()]
        self.operations = [
            *(names.allow(each) if each.path.startswith("/v1/queues/{name}") else each for each in queues),
            *EventRoutes(engine, names).operations(),
            *DeliveryRoutes(engine).operations(),
            *OutboxRoutes(engine).operations(),
            *ScheduleRoutes(engine, names).operations(),
            *StreamRoutes(engine).operations(),
            *PipelineRoutes(engine).operations(),
            *InsightRoutes(engine).operations(),
            *FollowRoutes(engine).operations(),
            *TopicRoutes(engine).operations(),
            *TenantRoutes(engine).operations(),
            *StatusRoutes(engine).operations(),
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
                answers={200: Liveness},
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
        return self._alive

    async def readyz(self, request: Request) -> Response:
        asked = asyncio.ensure_future(self._engine.ping())
        # Not wait_for: a hanging database takes its time to be cancelled too, and the balancer wants an answer.
        await asyncio.wait([asked], timeout=READY_S)
        if not asked.done():
            asked.cancel()
            return _DEGRADED
        return _READY if asked.exception() is None else _DEGRADED

    async def metrics(self, request: Request) -> Response:
        names, viewer = await self._visible_names(request)
        tenants = await self._tenant_names()
        # One at a time, in a thread: with thousands of queues the text takes seconds to write.
        async with self._rendering:
            metrics = self._engine.metrics
            prometheus.note_pool(metrics, self._engine.store.pool_numbers())
            peers, values = await self._peers(), prometheus.copy(metrics)
            text = await asyncio.to_thread(
                prometheus.render, metrics, peers, names=names, viewer=viewer, tenants=tenants, values=values
            )
        return Response(200, text, prometheus.CONTENT_TYPE)

    async def _tenant_names(self) -> Mapping[str, str]:
        """By their ids, as labels have them. While the database is away, the metrics of new tenants show their ids."""
        gauges = self._engine.gauges
        counted = {labels[0] for labels in self._engine.metrics.sent.values}
        if not counted <= {str(number) for number in gauges.known_tenants}:
            with suppress(PenstockError):
                await gauges.tenants()
        return {str(number): name for number, name in gauges.known_tenants.items()}

    async def _visible_names(self, request: Request) -> tuple[bool, prometheus.Viewer | None]:
        """Whether the caller sees the names of all tenants; else, of a token that may read, what it sees.

        Operators see all names: administrators of the default tenant, tokens with the scope operator, and everyone
        where tokens are not verified.
        """
        if self._authenticator.mode is Mode.OPEN:
            return True, None
        try:
            principal = await self._authenticator.principal(request.authorization)
            if principal.sees_every_metric:
                return True, None
            principal.require(Scope.READ)
        except Forbidden:
            return False, None
        names = self._engine.gauges.known_tenants
        if principal.tenant not in names:
            names = await self._engine.gauges.tenants()
        return False, prometheus.Viewer(names[principal.tenant], principal) if principal.tenant in names else None


def rest_fault(error: Exception, request_id: str) -> Response:
    """A queue that does not exist is, unless said otherwise, the one the path names."""
    if isinstance(error, QueueNotFound) and error.field is None:
        error.field = "name"
    return json_fault(error, request_id)
