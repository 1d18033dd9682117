"""The door of the simple JSON protocol: its table of operations, and who may call them.

The queues are those of every other door. Only how they are called differs: the first use of a queue creates it, a
receipt handle alone names a message, and no token is needed where authentication is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import msgspec

from penstock.auth import Authenticator
from penstock.engine import Engine
from penstock.engine.checks import check_name
from penstock.errors import QueueNotFound
from penstock.model import QueueCounts, Scope
from penstock.wire.http.messages import JSON, Request, Response
from penstock.wire.http.router import Handler, Route
from penstock.wire.openapi import Operation
from penstock.wire.simple import types as shapes
from penstock.wire.simple.faults import SimpleFault, simple_fault
from penstock.wire.simple.finish import Finishing
from penstock.wire.simple.guard import Guard, check_type
from penstock.wire.simple.queues import ImplicitQueues
from penstock.wire.simple.receipts import QueueNames
from penstock.wire.simple.receive import Receiving
from penstock.wire.simple.send import Sending
from penstock.wire.simple.settings import SimpleSettings
from penstock.wire.simple.stats import stats_page
from penstock.wire.simple.types import read

OWNS = (
    "send", "send_batch", "receive", "delete", "change_visibility", "delete_all", "queue_length", "stats", "enqueue",
    "dequeue",
)  # fmt: skip
"""First segments of the paths that are this door's alone. `/queues` it shares with the door of jobs."""

ALL = "*"
_SENDING = {
    409: "DuplicateMessage: The deduplication id was used already.",
    413: "MessageSizeExceeded: The message is too large.",
    503: "QueueFull: The queue has reached its maximum length.",
}
_MATCHING = {404: "NotFound: No message matches the receipt handles."}
_READING = {
    400: "InvalidRequest: The JSON is malformed, or a field is missing. ValidationError: A value is not allowed."
}

_queue = msgspec.json.Decoder(shapes.QueueRequest)
_all = msgspec.json.Decoder(shapes.DeleteAllRequest)
_encode = msgspec.json.Encoder().encode


class SimpleDoor:
    def __init__(
        self,
        engine: Engine,
        authenticator: Authenticator,
        settings: SimpleSettings | None = None,
        *,
        version: str = "0",
    ) -> None:
        settings = settings or SimpleSettings()
        queues = ImplicitQueues(engine.queues, settings)
        names = QueueNames(engine.queues)
        self._engine = engine
        self._queues = engine.queues
        self._version = version
        self._guard = Guard(authenticator)
        self._health = Response(200, _encode(shapes.SimpleHealth("ok", version)))
        sending = Sending(engine.messages, queues, settings)
        receiving = Receiving(engine.messages, queues, names, settings)
        finishing = Finishing(engine.messages, names)
        self.operations = [
            *self._of_messages(sending, receiving, finishing, settings),
            *self._of_queues(settings),
            *self._of_operators(),
        ]
        self._paths = frozenset(operation.path for operation in self.operations)

    def routes(self) -> list[Route]:
        return [operation.route(simple_fault) for operation in self.operations]

    def _of_messages(
        self, sending: Sending, receiving: Receiving, finishing: Finishing, settings: SimpleSettings
    ) -> list[Operation]:
        small = settings.max_body_bytes
        receive = Operation(
            method="POST", path="/receive", handler=receiving.receive, tag="simple", scope=Scope.RECEIVE,
            summary="Receive messages, and wait for one when there is none", body=shapes.ReceiveRequest,
            answers={200: shapes.ReceiveResponse}, body_bytes=small,
        )  # fmt: skip
        return [
            self._json(operation, faults)
            for operation, faults in (
                (Operation(
                    method="POST", path="/send", handler=sending.send, tag="simple", scope=Scope.SEND,
                    summary="Send a message; the first one creates the queue", body=shapes.SendRequest,
                    answers={200: shapes.SendResponse}, body_bytes=settings.send_body_bytes,
                ), _SENDING),
                (Operation(
                    method="POST", path="/send_batch", handler=sending.send_batch, tag="simple", scope=Scope.SEND,
                    summary="Send up to 10 messages, to one queue or several", body=shapes.SendBatchRequest,
                    answers={200: shapes.SendBatchResponse}, body_bytes=settings.batch_body_bytes,
                ), {}),
                (receive, {}),
                (replace(receive, path="/dequeue", summary="Receive messages, as older clients call it"), {}),
                (Operation(
                    method="POST", path="/delete", handler=finishing.delete, tag="simple", scope=Scope.RECEIVE,
                    summary="Delete messages by their receipt handles", body=shapes.DeleteRequest,
                    answers={200: shapes.DeleteResponse}, body_bytes=small,
                ), _MATCHING),
                (Operation(
                    method="POST", path="/change_visibility", handler=finishing.change_visibility, tag="simple",
                    scope=Scope.RECEIVE, summary="Hide messages for longer, or release them",
                    body=shapes.ChangeVisibilityRequest, answers={200: shapes.ChangeVisibilityResponse},
                    body_bytes=small,
                ), _MATCHING),
            )
        ] + [
            self._guarded(Operation(
                method="POST", path="/enqueue", handler=sending.enqueue, tag="simple", scope=Scope.SEND,
                summary="Send the body as a message, as older clients do", query=shapes.EnqueueQuery,
                answers={200: shapes.SendResponse}, body_bytes=settings.max_message_bytes,
            ), _SENDING),
        ]  # fmt: skip

    def _of_queues(self, settings: SimpleSettings) -> list[Operation]:
        return [
            self._json(Operation(
                method="POST", path="/delete_all", handler=self.delete_all, tag="simple", scope=Scope.MANAGE,
                summary="Delete every message of a queue, or of all queues", body=shapes.DeleteAllRequest,
                answers={200: shapes.DeleteAllResponse}, body_bytes=settings.max_body_bytes,
            ), {}),
            self._json(Operation(
                method="POST", path="/queue_length", handler=self.queue_length, tag="simple", scope=Scope.READ,
                summary="How many messages a queue holds", body=shapes.QueueRequest,
                answers={200: shapes.QueueLength}, body_bytes=settings.max_body_bytes,
            ), {}),
            self._guarded(Operation(
                method="GET", path="/queues", handler=self.list_queues, tag="simple", scope=Scope.READ,
                summary="All queues, and how many messages they hold", answers={200: list[shapes.QueueLength]},
            ), {}),
        ]  # fmt: skip

    def _of_operators(self) -> list[Operation]:
        return [
            Operation(
                method="GET", path="/health", handler=self.health, tag="server", summary="The process runs",
                answers={200: shapes.SimpleHealth}, fault=SimpleFault,
            ),
            self._guarded(Operation(
                method="GET", path="/stats", handler=self.stats, tag="server", scope=Scope.READ,
                summary="Requests counted, as a page", answers={200: str}, media="text/html",
            ), {}),
        ]  # fmt: skip

    # Who may come in

    def _json(self, operation: Operation, faults: dict[int, str]) -> Operation:
        return self._guarded(operation, faults, json=True)

    def _guarded(self, operation: Operation, faults: dict[int, str], *, json: bool = False) -> Operation:
        serve, everyone, remembered = operation.handler, self._guard.everyone, self._guard.remembered

        def handler(request: Request) -> Response | Awaitable[Response]:
            principal = everyone or remembered(request)
            if json and request.found.get(b"content-type") != JSON:
                check_type(request)
            if principal is None:
                return self._admit(request, serve)
            request.principal = principal
            return serve(request)

        reads = operation.body is not None or operation.query is not None
        told = (_READING if reads else {}) | {403: "Forbidden: The token lacks a scope, or another site asks."} | faults
        return replace(operation, handler=handler, judges_token=True, fault=SimpleFault, faults=told)

    async def _admit(self, request: Request, serve: Handler) -> Response:
        request.principal = await self._guard.principal(request)
        answer = serve(request)
        return answer if isinstance(answer, Response) else await answer

    # Queues

    async def delete_all(self, request: Request) -> Response:
        name, principal = read(_all, request.body).queue_name, request.principal
        principal.require(Scope.MANAGE)
        if name == ALL:
            found = [item.queue for item in await self._counts(request)]
        else:
            check_name(name, "queue_name")
            principal.require(Scope.MANAGE, name)
            found = [name]
        deleted = await asyncio.gather(*(self._purge(request, queue) for queue in found))
        return Response(200, _encode(shapes.DeleteAllResponse("ok", sum(deleted))))

    async def _purge(self, request: Request, name: str) -> int:
        try:
            return await self._queues.purge(request.principal.tenant, name)
        except QueueNotFound:
            return 0

    async def queue_length(self, request: Request) -> Response:
        name = read(_queue, request.body).queue_name
        check_name(name, "queue_name")
        request.principal.require(Scope.READ, name)
        try:
            counts = await self._queues.counts(request.principal.tenant, name)
        except QueueNotFound:
            return Response(200, _encode(shapes.QueueLength(name, 0, 0)))
        return Response(200, _encode(_length(counts)))

    async def list_queues(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        return Response(200, _encode([_length(counts) for counts in await self._counts(request)]))

    async def _counts(self, request: Request) -> list[QueueCounts]:
        principal = request.principal
        found = await self._queues.all_counts(principal.tenant)
        return [counts for _, counts in found if principal.reaches(counts.queue)]

    # Operators

    def health(self, request: Request) -> Response:
        return self._health

    def stats(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        return stats_page(self._engine.metrics, self._paths, self._version)


def _length(counts: QueueCounts) -> shapes.QueueLength:
    return shapes.QueueLength(counts.queue, counts.visible, counts.in_flight)
