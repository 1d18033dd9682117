"""Native REST: queues, and the way back from a dead-letter queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec

from penstock.auth import Principal
from penstock.engine import Engine
from penstock.engine.checks import check_text
from penstock.errors import Forbidden, Invalid, PenstockError, QueueExists, QueueNotFound, TaskNotFound
from penstock.model import MoveTask, Queue, QueueCounts, Scope
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest import types as shapes
from penstock.wire.rest.short_names import SUFFIX, ShortNames
from penstock.wire.rest.types import path_number

_new_queue = msgspec.json.Decoder(shapes.NewQueue)
_changed_queue = msgspec.json.Decoder(shapes.ChangedQueue)
_redrive = msgspec.json.Decoder(shapes.Redrive)
_encode = msgspec.json.Encoder().encode

_QUEUES = "/v1/queues"
_QUEUE = "/v1/queues/{name}"


class QueueRoutes:
    def __init__(self, engine: Engine, names: ShortNames) -> None:
        self._queues = engine.queues
        self._names = names
        self._clock = engine.clock

    def operations(self) -> list[Operation]:
        tag, read, manage = "queues", Scope.READ, Scope.MANAGE
        task = shapes.RedriveTask
        return [
            Operation(
                method="POST", path=_QUEUES, handler=self.create, tag=tag, scope=manage, summary="Create a queue",
                body=shapes.NewQueue, answers={201: shapes.Queue, 200: shapes.Queue},
            ),
            Operation(
                method="GET", path=_QUEUES, handler=self.list, tag=tag, scope=read, summary="List queues",
                query=shapes.ListQuery, answers={200: list[shapes.QueueItem]},
            ),
            Operation(
                method="GET", path=_QUEUE, handler=self.metrics, tag=tag, scope=read,
                summary="How full a queue is, and its settings", answers={200: shapes.QueueMetrics},
            ),
            Operation(
                method="PATCH", path=_QUEUE, handler=self.change, tag=tag, scope=manage,
                summary="Change settings", body=shapes.ChangedQueue, answers={200: shapes.Queue},
            ),
            Operation(
                method="DELETE", path=_QUEUE, handler=self.drop, tag=tag, scope=manage,
                summary="Delete a queue with its messages", answers={204: None},
            ),
            Operation(
                method="POST", path=f"{_QUEUE}/purge", handler=self.purge, tag=tag, scope=manage,
                summary="Delete all messages", answers={200: shapes.Deleted},
            ),
            Operation(
                method="GET", path=f"{_QUEUE}/sources", handler=self.sources, tag="dead letters", scope=read,
                summary="Queues whose dead letters come here", answers={200: list[str]},
            ),
            Operation(
                method="POST", path=f"{_QUEUE}/redrive", handler=self.redrive, tag="dead letters", scope=manage,
                summary="Send dead letters back", body=shapes.Redrive, body_required=False,
                answers={202: task, 200: shapes.Redriven},
            ),
            Operation(
                method="GET", path=f"{_QUEUE}/redrive", handler=self.redrives, tag="dead letters", scope=read,
                summary="Recent redrives", answers={200: list[task]},  # type: ignore[valid-type]
            ),
            Operation(
                method="DELETE", path=f"{_QUEUE}/redrive/{{task_id}}", handler=self.cancel_redrive, scope=manage,
                tag="dead letters", summary="Stop a redrive", answers={200: task},
            ),
        ]  # fmt: skip

    async def create(self, request: Request) -> Response:
        body = read_body(_new_queue, request.body)
        name, principal = body.name, request.principal
        if body.fifo is False and name.endswith(SUFFIX):
            raise Invalid("fifo and the name disagree: a name that ends in .fifo is that of a FIFO queue", field="fifo")
        if body.fifo is True and not name.endswith(SUFFIX):
            name = await self._free_name(principal, name)
        principal.require(Scope.MANAGE, name)
        given = await self._given(body, principal)
        # A client that asks for a FIFO queue in so many words need not know deduplication ids.
        defaults = {"content_dedup": True} if body.fifo is True else None
        try:
            queue, created = await self._queues.create(principal.tenant, name, given, defaults=defaults)
        except PenstockError as error:
            raise _in_wire_names(error, given) from None
        self._names.forget(principal.tenant, name)
        return Response(201 if created else 200, _encode(_queue(queue)))

    async def _free_name(self, principal: Principal, name: str) -> str:
        """The full name of a new FIFO queue, whose short name must not be that of another queue."""
        full = name + SUFFIX
        principal.require(Scope.MANAGE, full)
        try:
            await self._queues.get(principal.tenant, name)
        except QueueNotFound:
            return full
        raise QueueExists(f"Queue '{name}' already exists and is not a FIFO queue", field="fifo")

    async def _given(self, body: shapes.Settings, principal: Principal) -> dict[str, Any]:
        given = shapes.settings_given(body)
        target = given.get("dead_letter_queue")
        if target is not None:
            target = given["dead_letter_queue"] = await self._names.full(principal, target)
            if not principal.reaches(target):
                raise Forbidden("this token has no access to that queue", field="dead_letter_queue")
        return given

    async def list(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        query = read_query(shapes.ListQuery, request.query)
        check_text("prefix", query.prefix)
        check_text("after", query.after)
        found = await self._queues.list(
            request.principal.tenant, prefix=query.prefix, after=query.after, limit=query.limit
        )
        return Response(200, _encode([_item(queue) for queue in found if request.principal.reaches(queue.name)]))

    async def metrics(self, request: Request) -> Response:
        name, tenant = _name(request, Scope.READ), request.principal.tenant
        queue = await self._queues.get(tenant, name)
        counts = await self._queues.counts(tenant, name)
        return Response(200, _encode(_metrics(queue, counts, self._clock.now())))

    async def change(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        given = await self._given(read_body(_changed_queue, request.body), request.principal)
        try:
            queue = await self._queues.update(request.principal.tenant, name, given)
        except PenstockError as error:
            raise _in_wire_names(error, given) from None
        return Response(200, _encode(_queue(queue)))

    async def drop(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        if not await self._queues.drop(request.principal.tenant, name):
            raise QueueNotFound(name)
        return NO_CONTENT

    async def purge(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        deleted = await self._queues.purge(request.principal.tenant, name)
        return Response(200, _encode(shapes.Deleted(deleted)))

    async def sources(self, request: Request) -> Response:
        name = _name(request, Scope.READ)
        found = await self._queues.dead_letter_sources(request.principal.tenant, name)
        return Response(200, _encode([source for source in found if request.principal.reaches(source)]))

    async def redrive(self, request: Request) -> Response:
        name = _name(request, Scope.MANAGE)
        body = read_body(_redrive, request.body or b"{}")
        if body.destination is not None:
            body.destination = await self._names.full(request.principal, body.destination)
            request.principal.require(Scope.MANAGE, body.destination)
        if body.ids is not None and body.rate is not None:
            raise Invalid("rate cannot be given with ids: they are moved at once", field="rate")
        try:
            if body.ids is not None:
                moved = await self._queues.move(request.principal.tenant, name, body.ids, body.destination)
                return Response(200, _encode(shapes.Redriven(moved)))
            task = await self._queues.start_move(request.principal.tenant, name, body.destination, body.rate)
        except QueueNotFound as error:
            raise _about(error, "destination", body.destination) from None
        return Response(202, _encode(_task(task)))

    async def redrives(self, request: Request) -> Response:
        found = await self._queues.list_moves(request.principal.tenant, _name(request, Scope.READ))
        return Response(200, _encode([_task(task) for task in found]))

    async def cancel_redrive(self, request: Request) -> Response:
        name, tenant = _name(request, Scope.MANAGE), request.principal.tenant
        task_id = path_number(request.arguments[1], "task_id")
        if all(task.id != task_id for task in await self._queues.list_moves(tenant, name, 1000)):
            raise TaskNotFound(field="task_id")
        return Response(200, _encode(_task(await self._queues.cancel_move(tenant, task_id))))


def _name(request: Request, scope: Scope) -> str:
    if request.query:
        read_query(shapes.NoQuery, request.query)
    name = request.arguments[0]
    request.principal.require(scope, name)
    return name


def _in_wire_names(error: PenstockError, given: Mapping[str, Any]) -> PenstockError:
    """The engine's settings carry their unit; on the wire they do not."""
    if isinstance(error, QueueNotFound):
        return _about(error, "dead_letter_queue", given.get("dead_letter_queue"))
    if error.field in shapes.WIRE_NAMES:
        error.message = error.message.replace(error.field, shapes.WIRE_NAMES[error.field])
        error.field = shapes.WIRE_NAMES[error.field]
    return error


def _about(error: QueueNotFound, field: str, name: str | None) -> QueueNotFound:
    """Of two queues a request names, point at the missing one."""
    if name is not None and f"'{name}'" in error.message:
        error.field = field
    return error


def _item(queue: Queue) -> shapes.QueueItem:
    return shapes.QueueItem(name=queue.name, fifo=queue.fifo, created_at=queue.created_at)


def _queue(queue: Queue) -> shapes.Queue:
    return shapes.Queue(name=queue.name, fifo=queue.fifo, created_at=queue.created_at, settings=_settings(queue))


def _settings(queue: Queue) -> shapes.QueueSettings:
    have = asdict(queue.settings)
    fields = shapes.QueueSettings.__struct_fields__
    return shapes.QueueSettings(**{name: have[shapes.ENGINE_NAMES.get(name, name)] for name in fields})


def _metrics(queue: Queue, counts: QueueCounts, now: datetime) -> shapes.QueueMetrics:
    return shapes.QueueMetrics(
        queue_name=queue.name,
        queue_length=counts.total,
        queue_visible_length=counts.visible,
        newest_msg_age_sec=_age(counts.newest_sent_at, now),
        oldest_msg_age_sec=_age(counts.oldest_sent_at, now),
        total_messages=counts.sent,
        scrape_time=now,
        visible=counts.visible,
        in_flight=counts.in_flight,
        delayed=counts.delayed,
        fifo=queue.fifo,
        created_at=queue.created_at,
        settings=_settings(queue),
    )


def _age(moment: datetime | None, now: datetime) -> int | None:
    return max(int((now - moment).total_seconds()), 0) if moment is not None else None


def _task(task: MoveTask) -> shapes.RedriveTask:
    return shapes.RedriveTask(
        id=task.id,
        source=task.source,
        destination=task.destination,
        rate=task.rate,
        state=task.state,
        moved=task.moved,
        to_move=task.to_move,
        failure=task.failure,
        started_at=task.started_at,
    )
