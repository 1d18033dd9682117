"""The door of jobs.

Its routes are at `/v1/jobs` and `/v1/job-queues`, and at the paths that clients of OpenQueue know. They judge the
Authorization header themselves, since requests are counted against the rate limits of a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import replace

from penstock.auth import Authenticator, Principal, digest
from penstock.engine import Engine
from penstock.errors import RateLimited
from penstock.wire.http.faults import json_fault
from penstock.wire.http.messages import Request, Response
from penstock.wire.http.router import Admission, Handler, Route
from penstock.wire.jobs.routes import JobRoutes
from penstock.wire.jobs.types import Health
from penstock.wire.openapi import Operation

_READY = Response(200, b'{"status":"ok"}')
_DEGRADED = Response(503, b'{"status":"degraded"}')

OWNS = ("jobs", "queues", "health", "ready")
"""First segments of the paths that are this door's alone."""
READY_S = 2.0


class JobsDoor:
    def __init__(self, engine: Engine, authenticator: Authenticator, *, health: bool = True) -> None:
        """`health` False: another door serves `/health`, and says more."""
        self._engine = engine
        self._serves_health = health
        self._rates = engine.rates
        self._authenticator = authenticator
        self.operations = [*map(self._guarded, _everywhere(JobRoutes(engine).operations())), *self._own_operations()]

    def routes(self) -> list[Route]:
        routes = [operation.route(json_fault) for operation in self.operations]
        for route in routes:
            route.admit = self._admit_head
        return routes

    def _own_operations(self) -> list[Operation]:
        tag = "server"
        health = Operation(
            method="GET", path="/health", handler=self.health, tag=tag, summary="The process runs",
            answers={200: Health},
        )  # fmt: skip
        ready = Operation(
            method="GET", path="/ready", handler=self.ready, tag=tag, summary="The database answers",
            answers={200: Health, 503: Health},
        )  # fmt: skip
        return [health, ready] if self._serves_health else [ready]

    # Who may come in

    def _guarded(self, operation: Operation) -> Operation:
        serve = operation.handler

        def handler(request: Request) -> Response | Awaitable[Response]:
            principal = self._authenticator.remembered(request.authorization)
            if principal is None or self._rates.enabled:
                return self._admit(request, principal, serve)
            request.principal = principal
            return serve(request)

        errors = (*operation.errors, RateLimited)
        return replace(operation, handler=handler, judges_token=True, errors=errors)

    def _admit_head(self, request: Request) -> Admission:
        """Ask for a token before a large body is read."""
        known = self._authenticator.remembered(request.authorization)
        return None if known is not None else self._look_up(request)

    async def _look_up(self, request: Request) -> None:
        await self._authenticator.principal(request.authorization)

    async def _admit(self, request: Request, principal: Principal | None, serve: Handler) -> Response:
        header = request.authorization
        if principal is None:
            principal = await self._authenticator.principal(header)
        if self._rates.enabled:
            await self._rates.admit(principal.tenant, _rate_name(principal, header or ""))
        request.principal = principal
        answer = serve(request)
        return answer if isinstance(answer, Response) else await answer

    # Operators

    def health(self, request: Request) -> Response:
        return _READY

    async def ready(self, request: Request) -> Response:
        asked = asyncio.ensure_future(self._engine.ping())
        # Not wait_for: a hanging database takes its time to be cancelled too, and the balancer wants an answer.
        await asyncio.wait([asked], timeout=READY_S)
        if not asked.done():
            asked.cancel()
            return _DEGRADED
        return _READY if asked.exception() is None else _DEGRADED


def _rate_name(principal: Principal, header: str) -> str:
    """What tells tokens apart. The header itself does not: extra spaces would make it another."""
    if principal.token is not None:
        return str(principal.token)
    return digest(" ".join(header.split())).hex()[:24]


OPENQUEUE_PATHS = {
    "/v1/jobs": "/jobs",
    "/v1/job-queues/{queue}": "/queues/{queue}",
    "/v1/job-queues": "/dashboard/queues",
}
"""By the beginning of a path, what stands in its place for clients of OpenQueue."""


def _everywhere(operations: Iterable[Operation]) -> Iterator[Operation]:
    for operation in operations:
        yield operation
        begin = next(begin for begin in OPENQUEUE_PATHS if operation.path.startswith(begin))
        path = operation.path.replace(begin, OPENQUEUE_PATHS[begin], 1)
        yield replace(operation, path=path, tag="OpenQueue", id_prefix="openqueue_")
