"""Native routes for the outbox, for numbers that want no messages, and for the certificate of notices."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from penstock.engine import Engine
from penstock.errors import Forbidden
from penstock.model import Scope
from penstock.model.outbox import Channel, OutboxItem, RecordKind
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest.types import MAX_ID, Deleted, Moment, NoQuery, Strict

PEM = "application/x-pem-file"

_encode = msgspec.json.Encoder().encode
_OUTBOX = "/v1/outbox"


class OutboxQuery(Strict, kw_only=True):
    channel: Channel | None = None
    before: Annotated[int, Meta(ge=1, le=MAX_ID, description="Only items older than the one with this id.")] | None = (
        None
    )
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class OutboxEntry(Struct, kw_only=True):
    """Something that was not sent, and to whom."""

    id: int
    channel: Channel
    address: str
    message_id: str
    topic: str | None
    subject: str | None
    body: str
    attributes: dict[str, Any] | None
    created_at: Moment


class OptOut(Strict, kw_only=True):
    phone_number: Annotated[str, Meta(pattern=r"^\+[1-9][0-9]{3,14}$", description="In E.164 form.")]


_opt_out = msgspec.json.Decoder(OptOut)


class OutboxRoutes:
    def __init__(self, engine: Engine) -> None:
        self._outbox = engine.outbox
        self._records = engine.records
        self._signer = engine.signer

    def operations(self) -> list[Operation]:
        tag = "outbox"
        return [
            Operation(
                method="GET", path=_OUTBOX, handler=self.list, tag=tag, scope=Scope.READ,
                summary="What would have left the machine, newest first", query=OutboxQuery,
                answers={200: list[OutboxEntry]},
            ),
            Operation(
                method="DELETE", path=_OUTBOX, handler=self.clear, tag=tag, scope=Scope.MANAGE,
                summary="Empty the outbox", answers={200: Deleted},
            ),
            Operation(
                method="POST", path=f"{_OUTBOX}/opt-outs", handler=self.opt_out, tag=tag, scope=Scope.MANAGE,
                summary="A phone number wants no more text messages", body=OptOut, answers={204: None},
            ),
            Operation(
                method="GET", path="/v1/cert", handler=self.certificate, tag=tag,
                summary="The certificate that notices are verified with", answers={200: str}, media=PEM,
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        query = read_query(OutboxQuery, request.query)
        found = await self._outbox.list(
            request.principal.tenant, channel=query.channel, before=query.before, limit=query.limit
        )
        reaches = request.principal.reaches
        return Response(200, _encode([_shown(item) for item in found if reaches(item.topic or "")]))

    async def clear(self, request: Request) -> Response:
        _require_all(request)
        read_query(NoQuery, request.query)
        return Response(200, _encode(Deleted(await self._outbox.clear(request.principal.tenant))))

    async def opt_out(self, request: Request) -> Response:
        """At Amazon people do this by answering STOP."""
        _require_all(request)
        number = read_body(_opt_out, request.body).phone_number
        await self._records.add(request.principal.tenant, RecordKind.OPTED_OUT, number, {})
        return NO_CONTENT

    async def certificate(self, request: Request) -> Response:
        return Response(200, (await self._signer.certificate()).encode(), PEM.encode())


def _require_all(request: Request) -> None:
    """The outbox and the numbers that opted out belong to the whole tenant."""
    request.principal.require(Scope.MANAGE)
    if request.principal.queues != "*":
        raise Forbidden("this token cannot access the whole outbox")


def _shown(item: OutboxItem) -> OutboxEntry:
    return OutboxEntry(
        id=item.id,
        channel=item.channel,
        address=item.address,
        message_id=item.message_id,
        topic=item.topic,
        subject=item.subject,
        body=item.body,
        attributes=msgspec.json.decode(item.attributes) if item.attributes is not None else None,
        created_at=item.created_at,
    )
