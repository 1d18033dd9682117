"""FIFO queues by their short names: a caller may leave the suffix `.fifo` out.

The full name is the one that is stored, and the only one at the other doors. A queue of exactly the given name comes
first, so a short name means a FIFO queue only while no standard queue has that name.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from time import monotonic

from penstock import limits
from penstock.auth import Principal
from penstock.engine.queues.queues import Queues
from penstock.errors import QueueNotFound
from penstock.model import TenantId
from penstock.wire.http.messages import Direct, Later, Request, Rescue, Response
from penstock.wire.http.router import Handler
from penstock.wire.openapi import Operation

SUFFIX = ".fifo"
KEEP_S = 2.0
"""How long a short name is remembered: a standard queue of that name, created elsewhere, may go unnoticed so long."""
MOST = 10_000


class ShortNames:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._known: dict[tuple[TenantId, str], float] = {}

    def allow(self, operation: Operation) -> Operation:
        """The same operation, on a path whose first argument is a queue, also by the queue's short name."""
        serve = operation.handler

        async def rescue(request: Request, error: QueueNotFound) -> Response:
            # Nothing was changed, so the request may be served again.
            name = request.arguments[0]
            if f"'{name}'" not in error.message or not await self._find(request.principal, name):
                raise error
            request.arguments[0] = name + SUFFIX
            return await _awaited(serve(request))

        def handler(request: Request) -> Response | Awaitable[Response]:
            name, principal = request.arguments[0], request.principal
            if self._known and self._remembers(principal, name):
                request.arguments[0] = name + SUFFIX
            elif principal.queues != "*" and not principal.reaches(name) and principal.reaches(name + SUFFIX):
                return self._serve_resolved(request, serve)
            answer = serve(request)
            if isinstance(answer, Direct | Later):
                answer.rescue = rescue
                return answer
            return answer if isinstance(answer, Response) else _serve(request, answer, rescue)

        return replace(operation, handler=handler)

    async def full(self, principal: Principal, name: str) -> str:
        """The name of the queue that `name` stands for; `name` itself when there is none."""
        if limits.QUEUE_NAME.fullmatch(name + SUFFIX) is None:
            return name
        try:
            await self._queues.get(principal.tenant, name)
        except QueueNotFound:
            if await self._find(principal, name):
                return name + SUFFIX
        return name

    def forget(self, tenant: TenantId, name: str) -> None:
        self._known.pop((tenant, name), None)

    def _remembers(self, principal: Principal, name: str) -> bool:
        until = self._known.get((principal.tenant, name))
        return until is not None and until > monotonic() and principal.reaches(name + SUFFIX)

    async def _find(self, principal: Principal, name: str) -> bool:
        """Whether there is a FIFO queue of that short name within the caller's reach."""
        full = name + SUFFIX
        if limits.QUEUE_NAME.fullmatch(full) is None or not principal.reaches(full):
            return False
        try:
            await self._queues.get(principal.tenant, full)
        except QueueNotFound:
            return False
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[principal.tenant, name] = monotonic() + KEEP_S
        return True

    async def _serve_resolved(self, request: Request, serve: Handler) -> Response:
        request.arguments[0] = await self.full(request.principal, request.arguments[0])
        return await _awaited(serve(request))


async def _awaited(answer: Response | Awaitable[Response]) -> Response:
    return answer if isinstance(answer, Response) else await answer


async def _serve(request: Request, answer: Awaitable[Response], rescue: Rescue) -> Response:
    try:
        return await answer
    except QueueNotFound as error:
        return await rescue(request, error)
