"""The door of jobs.

Its paths and shapes are those that clients of OpenQueue know. Unlike the other JSON doors it answers 401 to a missing
or unknown token, as they expect, so its routes judge the Authorization header themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

from penstock.auth import Authenticator, Principal, digest
from penstock.engine import Engine
from penstock.errors import Forbidden, RateLimited
from penstock.wire.http.faults import json_fault
from penstock.wire.http.messages import Refusal, Request, Response
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
        self.operations = [*map(self._guarded, JobRoutes(engine).operations()), *self._own_operations()]

    def routes(self) -> list[Route]:
        routes = [operation.route(jobs_fault) for operation in self.operations]
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
            try:
                principal = self._authenticator.remembered(request.authorization)
            except Forbidden as error:
                raise _unknown(error) from None
            if principal is None or self._rates.enabled:
                return self._admit(request, principal, serve)
            request.principal = principal
            return serve(request)

        errors = (*operation.errors, RateLimited)
        return replace(operation, handler=handler, judges_token=True, errors=errors)

    def _admit_head(self, request: Request) -> Admission:
        """Ask for a token before a large body is read."""
        try:
            known = self._authenticator.remembered(request.authorization)
        except Forbidden as error:
            raise _unknown(error) from None
        return None if known is not None else self._look_up(request)

    async def _look_up(self, request: Request) -> None:
        try:
            await self._authenticator.principal(request.authorization)
        except Forbidden as error:
            raise _unknown(error) from None

    async def _admit(self, request: Request, principal: Principal | None, serve: Handler) -> Response:
        header = request.authorization
        if principal is None:
            try:
                principal = await self._authenticator.principal(header)
            except Forbidden as error:
                raise _unknown(error) from None
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


def jobs_fault(error: Exception, request_id: str) -> Response:
    answer = json_fault(error, request_id)
    if answer.status == 401:
        answer.headers += ((b"www-authenticate", b"Bearer"),)
    return answer


def _unknown(error: Forbidden) -> Refusal:
    return Refusal(401, "Unauthorized", error.message, field="authorization")
