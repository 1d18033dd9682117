"""Native REST: schedules, and previews of them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from penstock.auth import Principal
from penstock.engine import Engine
from penstock.engine.checks import check_text
from penstock.engine.schedules.errors import ScheduleTextError
from penstock.engine.schedules.settings import timetable_of
from penstock.engine.schedules.timetable import ANCHOR, Timetable
from penstock.engine.schedules.zones import zone
from penstock.errors import Invalid, NotFound, QueueNotFound, StreamNotFound
from penstock.model import Scope
from penstock.model.schedules import Fired, Schedule, ScheduleStatus, TargetKind, TimetableKind
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest import schedule_types as shapes
from penstock.wire.rest.short_names import ShortNames
from penstock.wire.rest.types import NoQuery

SCHEDULE_BODY = 2_097_152
"""A message of the usual greatest size, escaped."""

_new = msgspec.json.Decoder(shapes.NewSchedule)
_put = msgspec.json.Decoder(shapes.PutSchedule)
_changed = msgspec.json.Decoder(shapes.ChangedSchedule)
_preview = msgspec.json.Decoder(shapes.NewPreview)
_text = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode

_SCHEDULES = "/v1/schedules"
_SCHEDULE = "/v1/schedules/{name}"
_EXPRESSION = ("cron", "every", "when", "fire_at", "timezone", "start_at")
_PLAIN = ("target", "priority", "group_id", "catchup", "catchup_limit", "failure_threshold")
_IN_SECONDS = {"delay": "delay_s", "jitter": "jitter_s"}


class ScheduleRoutes:
    def __init__(self, engine: Engine, names: ShortNames) -> None:
        self._schedules = engine.schedules
        self._names = names

    def operations(self) -> list[Operation]:
        tag, read, manage = "schedules", Scope.READ, Scope.MANAGE
        return [
            Operation(
                method="POST", path=_SCHEDULES, handler=self.create, tag=tag, scope=manage,
                summary="Create a schedule", body=shapes.NewSchedule, answers={201: shapes.Schedule},
                body_bytes=SCHEDULE_BODY,
            ),
            Operation(
                method="GET", path=_SCHEDULES, handler=self.list, tag=tag, scope=read, summary="List schedules",
                query=shapes.ScheduleQuery, answers={200: list[shapes.ScheduleItem]},
            ),
            Operation(
                method="GET", path=_SCHEDULE, handler=self.get, tag=tag, scope=read,
                summary="A schedule and its next fires", answers={200: shapes.Schedule},
            ),
            Operation(
                method="PUT", path=_SCHEDULE, handler=self.put, tag=tag, scope=manage,
                summary="Create a schedule, or make it as given", body=shapes.PutSchedule,
                answers={201: shapes.Schedule, 200: shapes.Schedule}, body_bytes=SCHEDULE_BODY,
            ),
            Operation(
                method="PATCH", path=_SCHEDULE, handler=self.change, tag=tag, scope=manage,
                summary="Change, pause or resume a schedule", body=shapes.ChangedSchedule,
                answers={200: shapes.Schedule}, body_bytes=SCHEDULE_BODY,
            ),
            Operation(
                method="DELETE", path=_SCHEDULE, handler=self.delete, tag=tag, scope=manage,
                summary="Delete a schedule, if it is there", answers={204: None},
            ),
            Operation(
                method="POST", path=f"{_SCHEDULE}/runs", handler=self.run, tag=tag, scope=manage,
                summary="Fire now, beside the timetable", answers={202: shapes.Run},
            ),
            Operation(
                method="POST", path="/v1/previews", handler=self.preview, tag=tag, scope=read,
                summary="What an expression means", body=shapes.NewPreview,
                answers={200: shapes.Preview, 400: shapes.Misread},
            ),
        ]  # fmt: skip

    async def create(self, request: Request) -> Response:
        body = read_body(_new, request.body)
        await self._name_target(request.principal, body, body.target_kind)
        _may_fire_at(request.principal, body.target)
        try:
            made = await self._schedules.create(request.principal.tenant, body.name, _given(body))
        except (Invalid, NotFound) as error:
            return _refused(error)
        place = f"{_SCHEDULES}/{made.name}".encode()
        return Response(201, _encode(self._shown(made)), headers=((b"location", place),))

    async def list(self, request: Request) -> Response:
        principal = request.principal
        principal.require(Scope.READ)
        query = read_query(shapes.ScheduleQuery, request.query)
        check_text("name_prefix", query.name_prefix)
        found = await self._schedules.list(
            principal.tenant,
            status=ScheduleStatus(query.status) if query.status else None,
            kind=TargetKind(query.target_kind) if query.target_kind else None,
            prefix=query.name_prefix,
        )
        reached = [schedule for schedule in found if principal.reaches(schedule.settings.target)]
        return Response(200, _encode([shapes.ScheduleItem(**_item(schedule)) for schedule in reached]))

    async def get(self, request: Request) -> Response:
        return Response(200, _encode(self._shown(await self._reached(request, Scope.READ))))

    async def put(self, request: Request) -> Response:
        body = read_body(_put, request.body)
        await self._name_target(request.principal, body, body.target_kind)
        _may_fire_at(request.principal, body.target)
        name = await self._mine(request)
        try:
            made, created = await self._schedules.put(request.principal.tenant, name, _given(body))
        except (Invalid, NotFound) as error:
            return _refused(error)
        return Response(201 if created else 200, _encode(self._shown(made)))

    async def change(self, request: Request) -> Response:
        body = read_body(_changed, request.body)
        found = await self._reached(request, Scope.MANAGE)
        kind = found.settings.target_kind if body.target_kind is UNSET else body.target_kind
        await self._name_target(request.principal, body, kind)
        _may_fire_at(request.principal, found.settings.target if body.target is UNSET else body.target)
        try:
            changed = await self._schedules.patch(request.principal.tenant, found.name, _given(body))
        except (Invalid, NotFound) as error:
            return _refused(error)
        return Response(200, _encode(self._shown(changed)))

    async def delete(self, request: Request) -> Response:
        name = await self._mine(request)
        await self._schedules.delete(request.principal.tenant, name)
        return NO_CONTENT

    async def run(self, request: Request) -> Response:
        found = await self._reached(request, Scope.MANAGE)
        _may_fire_at(request.principal, found.settings.target)
        return Response(202, _encode(_run(await self._schedules.run(request.principal.tenant, found.name))))

    async def preview(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        _no_query(request)
        body = read_body(_preview, request.body)
        try:
            table = self._schedules.preview(_given(body))
        except Invalid as error:
            return _refused(error)
        fires = self._schedules.next_fires(table, None if body.count is UNSET else body.count)
        there = zone(table.timezone)
        shown = shapes.Preview(
            **_canonical(table), next_fires=fires, next_fires_local=[fire.astimezone(there) for fire in fires]
        )
        return Response(200, _encode(shown))

    async def _name_target(
        self, principal: Principal, body: shapes.PutSchedule | shapes.ChangedSchedule, kind: str
    ) -> None:
        """A FIFO queue may be given by its short name; it is stored by its full one."""
        if kind == TargetKind.QUEUE and isinstance(body.target, str):
            body.target = await self._names.full(principal, body.target)

    async def _reached(self, request: Request, scope: Scope) -> Schedule:
        _no_query(request)
        request.principal.require(scope)
        found = await self._schedules.get(request.principal.tenant, request.arguments[0])
        request.principal.require(scope, found.settings.target)
        return found

    async def _mine(self, request: Request) -> str:
        """The name of the path, whose schedule, if there is one, this caller may change."""
        _no_query(request)
        request.principal.require(Scope.MANAGE)
        name = request.arguments[0]
        if request.principal.queues != "*":
            for found in await self._schedules.list(request.principal.tenant, prefix=name):
                if found.name == name:
                    request.principal.require(Scope.MANAGE, found.settings.target)
        return name

    def _shown(self, schedule: Schedule) -> shapes.Schedule:
        settings = schedule.settings
        return shapes.Schedule(
            **_item(schedule),
            message=Raw(settings.body) if settings.json else settings.body,
            headers=Raw(settings.headers) if settings.headers is not None else None,
            delay=settings.delay_s,
            priority=settings.priority,
            group_id=settings.group_id,
            catchup=settings.catchup,
            catchup_limit=settings.catchup_limit,
            jitter=settings.jitter_s,
            failure_threshold=settings.failure_threshold,
            next_fires=self._schedules.next_fires(schedule),
        )


def _no_query(request: Request) -> None:
    if request.query:
        read_query(NoQuery, request.query)


def _may_fire_at(principal: Principal, target: str) -> None:
    """Creating a schedule requires the scope to send."""
    principal.require(Scope.MANAGE, target)
    principal.require(Scope.SEND, target)


def _given(body: shapes.Expression) -> dict[str, Any]:
    """What a request says, in the engine's words."""
    given: dict[str, Any] = {}
    for name in body.__struct_fields__:
        value = getattr(body, name)
        if value is UNSET:
            continue
        if name in _EXPRESSION or name in _PLAIN:
            given[name] = value
        elif name in _IN_SECONDS:
            given[_IN_SECONDS[name]] = value
        elif name == "status":
            given["status"] = ScheduleStatus(value)
        elif name == "target_kind":
            given["target_kind"] = TargetKind(value)
        elif name == "message":
            given["body"], given["json"] = _message(value)
        elif name == "headers":
            given["headers"] = _headers(value)
    return given


def _message(raw: Raw) -> tuple[str, bool]:
    json = bytes(raw)[:1] != b'"'
    try:
        return (bytes(raw).decode() if json else _text.decode(raw)), json
    except (UnicodeDecodeError, msgspec.DecodeError):
        raise Invalid("message is not valid UTF-8", field="message") from None


def _headers(headers: dict[str, Raw] | None) -> str | None:
    if not headers:
        return None
    if "_schedule" in headers:
        raise Invalid("the header _schedule is written by the schedule itself", field="headers._schedule")
    try:
        return _encode(headers).decode()
    except UnicodeDecodeError:
        raise Invalid("headers are not valid UTF-8", field="headers") from None


def _refused(error: Invalid | NotFound) -> Response:
    """What could not be read is answered with what was understood of it; what is missing is the target."""
    cause = error.__cause__
    if isinstance(cause, ScheduleTextError):
        misread = shapes.Misread(
            error=error.message,
            code="Invalid",
            field=error.field,
            understood=cause.understood,
            not_understood=cause.rest,
            suggestion=cause.suggestion,
        )
        return Response(400, _encode(misread))
    if isinstance(error, QueueNotFound | StreamNotFound):
        error.field = "target"
    raise error


def _canonical(table: Timetable) -> dict[str, Any]:
    return {
        "cron": table.expression if table.kind is TimetableKind.CRON else None,
        "every": table.expression if table.kind is TimetableKind.EVERY else None,
        "fire_at": table.moment if table.kind is TimetableKind.ONCE else None,
        "timezone": table.timezone,
        "human_readable": table.sentence(),
    }


def _item(schedule: Schedule) -> dict[str, Any]:
    settings = schedule.settings
    return {
        **_canonical(timetable_of(settings)),
        "name": schedule.name,
        "status": schedule.status,
        "target_kind": settings.target_kind,
        "target": settings.target,
        "when": settings.given if settings.shape == "when" else None,
        "start_at": None if settings.anchor == ANCHOR else settings.anchor,
        "next_fire_at": schedule.next_fire_at,
        "last_fire_at": schedule.last_fire_at,
        "fires": schedule.fires,
        "consecutive_failures": schedule.consecutive_failures,
        "last_error": schedule.last_error,
        "created_at": schedule.created_at,
        "updated_at": schedule.updated_at,
    }


def _run(fired: Fired) -> shapes.Run:
    settings = fired.schedule.settings
    return shapes.Run(
        schedule=fired.schedule.name,
        target_kind=settings.target_kind,
        target=settings.target,
        scheduled_for=fired.times[0],
        out_of_band=True,
        msg_ids=list(fired.ids),
    )
