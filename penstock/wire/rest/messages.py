"""Native REST: messages. The first three handlers are the hot path."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Sequence

import msgspec
from msgspec import UNSET, Raw

from penstock import limits, model
from penstock.auth import Principal
from penstock.engine import Engine
from penstock.engine.checks import check_name, check_range
from penstock.engine.queues import receipts
from penstock.errors import (
    Forbidden,
    Invalid,
    InvalidReceipt,
    MessageNotFound,
    PenstockError,
    QueueNotFound,
    ReceiptStale,
)
from penstock.model import Handle, Outcome, Receive, Received, Scope, Send, Sent, TenantId
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.faults import status_of
from penstock.wire.http.messages import NO_CONTENT, Direct, Later, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.rest import types as shapes
from penstock.wire.rest.short_names import ShortNames
from penstock.wire.rest.types import path_number

BATCH_BODY = 16_777_216
"""Room for the largest message, escaped, or for a batch of usual ones."""

_new_message = msgspec.json.Decoder(shapes.NewMessage)
_new_messages = msgspec.json.Decoder(list[shapes.NewMessage])
_text = msgspec.json.Decoder(str)
_delete = msgspec.json.Decoder(shapes.DeleteMessages)
_change = msgspec.json.Decoder(shapes.ChangeVisibility)
_encode = msgspec.json.Encoder().encode

_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_ATTRIBUTE_TYPE = re.compile(r"(String|Number|Binary)(\.[A-Za-z0-9_.-]{1,240})?")
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)
_MESSAGES = "/v1/queues/{name}/messages"
_MESSAGE = "/v1/queues/{name}/messages/{id}"
_NOTHING = Response(200, b"[]")


class MessageRoutes:
    def __init__(self, engine: Engine, names: ShortNames) -> None:
        self._messages = engine.messages
        self._names = names

    def operations(self) -> list[Operation]:
        tag, receive = "messages", Scope.RECEIVE
        return [
            Operation(
                method="POST", path=_MESSAGES, handler=self.send, tag=tag, scope=Scope.SEND, query=shapes.SendQuery,
                summary="Send a message, or up to 1000 in an array", body=(shapes.NewMessage, list[shapes.NewMessage]),
                answers={201: (shapes.SentOne, shapes.SentMany)}, body_bytes=BATCH_BODY,
            ),
            Operation(
                method="GET", path=_MESSAGES, handler=self.receive, tag=tag, scope=receive, safe=False,
                summary="Receive messages", query=shapes.ReceiveQuery, answers={200: list[shapes.Message]},
            ),
            Operation(
                method="DELETE", path=_MESSAGES, handler=self.delete_many, tag=tag, scope=receive,
                summary="Delete messages", body=shapes.DeleteMessages, answers={200: shapes.DeletedMessages},
            ),
            Operation(
                method="DELETE", path=_MESSAGE, handler=self.delete, tag=tag, scope=receive,
                summary="Delete a message, by its id or by its receipt", query=shapes.ReceiptQuery, answers={204: None},
            ),
            Operation(
                method="PATCH", path=_MESSAGE, handler=self.change, tag=tag, scope=receive,
                summary="Hide a message for longer, or release it", body=shapes.ChangeVisibility,
                answers={200: shapes.VisibilityChanged},
            ),
            Operation(
                method="POST", path=f"{_MESSAGE}/archive", handler=self.archive, tag=tag, scope=receive,
                summary="Delete a message and keep a copy", query=shapes.ReceiptQuery, answers={204: None},
            ),
        ]  # fmt: skip

    # Send

    def send(self, request: Request) -> Awaitable[Response]:
        name, principal, body = request.arguments[0], request.principal, request.body
        principal.require(Scope.SEND, name)
        sync_commit = read_query(shapes.SendQuery, request.query).sync_commit if request.query else True
        if body[:1] == b"[" or body.lstrip()[:1] == b"[":
            many = read_body(_new_messages, body)
            check_range("body", len(many), limits.BATCH_ENTRIES)
            return self._send_many(principal, name, many, sync_commit)
        entry = _send(principal.tenant, name, read_body(_new_message, body), sync_commit)
        if self._messages.whole:
            return Later(self._messages.begin_send(entry), _sent_one)
        return Direct(self._send_one(entry))

    async def _send_one(self, entry: Send) -> Response:
        return _sent_one([await self._messages.send(entry)])

    async def _send_many(
        self, principal: Principal, name: str, many: list[shapes.NewMessage], sync_commit: bool
    ) -> Response:
        answers: list[Sent | PenstockError | None] = []
        entries: list[Send] = []
        for new in many:
            try:
                entries.append(_send(principal.tenant, name, new, sync_commit))
                answers.append(None)
            except PenstockError as error:
                answers.append(error)
        sent = await self._messages.send_batch(entries)
        if any(isinstance(answer, QueueNotFound) for answer in sent):
            # All go to one queue, so none was stored.
            full = await self._names.full(principal, name)
            if full != name:
                return await self._send_many(principal, full, many, sync_commit)
        results = iter(sent)
        return _sent_many([next(results) if answer is None else answer for answer in answers])

    # Receive

    def receive(self, request: Request) -> Awaitable[Response]:
        name, principal = request.arguments[0], request.principal
        principal.require(Scope.RECEIVE, name)
        query = read_query(shapes.ReceiveQuery, request.query)
        if query.peek:
            return self._peek(principal.tenant, name, query)
        if query.dead_letter_queue is not None:
            check_name(query.dead_letter_queue, "dead_letter_queue")
            if not principal.reaches(query.dead_letter_queue):
                raise Forbidden("this token has no access to that queue", field="dead_letter_queue")
        if query.wait:
            request.wait_s = query.wait
            request.if_stopped = _NOTHING
        wanted = Receive(
            tenant=principal.tenant,
            queue=name,
            limit=query.max,
            visibility_timeout_s=query.vt,
            max_receives=query.max_receives,
            dead_letter_queue=query.dead_letter_queue,
            shuffle=query.shuffle,
        )
        if query.wait or not self._messages.whole:
            return Direct(self._receive(wanted, query.wait))
        return Later(self._messages.begin_receive(wanted), lambda results: self._received(wanted, results[0]))

    async def _receive(self, wanted: Receive, wait_s: int) -> Response:
        try:
            found = await self._messages.receive(wanted, wait_s)
        except QueueNotFound as error:
            raise _of_field(error, wanted) from None
        return _found(wanted.queue, found)

    def _received(self, wanted: Receive, received: Received | PenstockError) -> Response | Awaitable[Response]:
        if isinstance(received, QueueNotFound):
            raise _of_field(received, wanted)
        if isinstance(received, PenstockError):
            raise received
        if received.crowded_out:
            return self._receive(wanted, 0)
        return _found(wanted.queue, received.messages)

    async def _peek(self, tenant: TenantId, name: str, query: shapes.ReceiveQuery) -> Response:
        found = await self._messages.peek(tenant, name, query.max, shuffle=query.shuffle)
        return Response(200, _encode([_message(name, message) for message in found]))

    # Delete, archive, hide

    def delete(self, request: Request) -> Awaitable[Response]:
        return Later(self._messages.begin_delete(_handle(request)), _deleted)

    async def archive(self, request: Request) -> Response:
        [outcome] = await self._messages.archive_batch([_handle(request)])
        if isinstance(outcome, PenstockError):
            raise outcome
        _check_outcome(outcome)
        return NO_CONTENT

    async def delete_many(self, request: Request) -> Response:
        name, principal = request.arguments[0], request.principal
        principal.require(Scope.RECEIVE, name)
        check_name(name)
        if request.query:
            read_query(shapes.NoQuery, request.query)
        handles = _handles(principal.tenant, name, read_body(_delete, request.body))
        outcomes = await self._messages.delete_batch(handles)
        failed = next((outcome for outcome in outcomes if isinstance(outcome, PenstockError)), None)
        if failed is not None:
            raise failed
        deleted = [handle.id for handle, outcome in zip(handles, outcomes, strict=True) if outcome is Outcome.DONE]
        return Response(200, _encode(shapes.DeletedMessages(deleted)))

    async def change(self, request: Request) -> Response:
        if request.query:
            read_query(shapes.NoQuery, request.query)
        body = read_body(_change, request.body)
        handle = _handle(request, body.receipt)
        outcome, visible_at = await self._messages.change_visibility(handle, body.vt)
        _check_outcome(outcome)
        return Response(200, _encode(shapes.VisibilityChanged(handle.id, visible_at)))


def _sent_one(results: Sequence[Sent | PenstockError]) -> Response:
    sent = results[0]
    if isinstance(sent, PenstockError):
        raise sent
    if sent.duplicate:
        return Response(201, b'{"id":%d,"duplicate":true}' % sent.id)
    return Response(201, b'{"id":%d}' % sent.id)


def _of_field(error: QueueNotFound, wanted: Receive) -> QueueNotFound:
    if error.queue == wanted.dead_letter_queue:
        error.field = "dead_letter_queue"
    return error


def _found(queue: str, messages: Sequence[model.Message]) -> Response:
    if not messages:
        return _NOTHING
    return Response(200, _encode([_message(queue, message) for message in messages]))


def _deleted(results: Sequence[Outcome | PenstockError]) -> Response:
    outcome = results[0]
    if isinstance(outcome, PenstockError):
        raise outcome
    if outcome is not Outcome.DONE:
        _check_outcome(outcome)
    return NO_CONTENT


def _send(tenant: TenantId, name: str, new: shapes.NewMessage, sync_commit: bool) -> Send:
    raw = bytes(new.message)
    json = raw[0] != 0x22
    try:
        body = raw.decode() if json else _text.decode(raw)
    except (UnicodeDecodeError, msgspec.DecodeError):
        raise Invalid("message is not valid UTF-8", field="message") from None
    entry = Send(
        tenant=tenant,
        queue=name,
        body=body,
        json=json,
        delay_s=new.delay,
        priority=new.priority,
        group_id=new.group_id,
        dedup_id=new.dedup_id,
        dedup_window_s=new.dedup_window,
        retention_s=new.retention,
        sync_commit=sync_commit and new.sync_commit,
    )
    if new.attributes or new.headers:
        _add_metadata(entry, new)
    return entry


def _add_metadata(entry: Send, new: shapes.NewMessage) -> None:
    """Attributes and headers count towards the size of a message, as Amazon counts attributes."""
    size = len(entry.body.encode(errors="replace"))
    if new.attributes:
        for name, attribute in new.attributes.items():
            _check_attribute(name, attribute)
        entry.attributes = _encode(new.attributes).decode()
        size += sum(len(f"{name}{item.type}{item.value}".encode()) for name, item in new.attributes.items())
    if new.headers:
        try:
            entry.headers = _encode(new.headers).decode()
        except UnicodeDecodeError:
            raise Invalid("headers are not valid UTF-8", field="headers") from None
        size += len(entry.headers.encode())
    entry.size = size


def _check_attribute(name: str, attribute: shapes.Attribute) -> None:
    field = f"attributes.{name}"
    if _ATTRIBUTE_NAME.fullmatch(name) is None:
        raise Invalid("an attribute name has 1 to 256 letters, digits, - _ and .", field="attributes")
    kind = _ATTRIBUTE_TYPE.fullmatch(attribute.type)
    if kind is None:
        raise Invalid(f"{field}.type must be String, Number or Binary, with an optional .suffix", field=f"{field}.type")
    if kind[1] == "Number" and _NUMBER.fullmatch(attribute.value) is None:
        raise Invalid(f"{field}.value is not a number", field=f"{field}.value")
    if kind[1] == "Binary":
        try:
            base64.b64decode(attribute.value, validate=True)
        except (binascii.Error, ValueError):
            raise Invalid(f"{field}.value is not base64", field=f"{field}.value") from None


def _sent_many(answers: Sequence[Sent | PenstockError]) -> Response:
    ids = [answer.id if isinstance(answer, Sent) else None for answer in answers]
    failures = [(index, answer) for index, answer in enumerate(answers) if isinstance(answer, PenstockError)]
    errors = [
        shapes.EntryError(
            index=index,
            error=error.message,
            code=type(error).__name__,
            field=f"[{index}].{error.field}" if error.field else None,
        )
        for index, error in failures
    ]
    if len(failures) < len(answers):
        return Response(201, _encode(shapes.SentMany(ids, errors)))
    nothing = shapes.SentNone(error=errors[0].error, code=errors[0].code, field=errors[0].field, errors=errors)
    return Response(status_of(failures[0][1]), _encode(nothing))


def _message(queue: str, message: model.Message) -> shapes.Message:
    return shapes.Message(
        id=message.id,
        message=Raw(message.body) if message.json else message.body,
        headers=Raw(message.headers) if message.headers is not None else None,
        attributes=Raw(message.attributes) if message.attributes is not None else UNSET,
        read_count=message.receives,
        enqueued_at=message.sent_at,
        first_received_at=message.first_received_at if message.first_received_at is not None else UNSET,
        visible_at=message.visible_at,
        priority=message.priority,
        group_id=message.group_id if message.group_id is not None else UNSET,
        dead_letter_source=message.dead_letter_source if message.dead_letter_source is not None else UNSET,
        receipt=receipts.encode(queue, message.id, message.lease) if message.lease else UNSET,
    )


def _handle(request: Request, receipt: str | None = None) -> Handle:
    """The message a path names: by its id, or by a receipt in the id's place, or by both."""
    name, text = request.arguments
    request.principal.require(Scope.RECEIVE, name)
    check_name(name)
    if request.query and receipt is None:
        receipt = read_query(shapes.ReceiptQuery, request.query).receipt
    lease: int | None = None
    if text.isdigit():
        message_id = path_number(text, "id")
    else:
        message_id, lease = _decode(name, text, "id")
    if receipt is not None:
        named, lease = _decode(name, receipt, "receipt")
        if named != message_id:
            raise InvalidReceipt("the receipt is that of another message", field="receipt")
    return Handle(tenant=request.principal.tenant, queue=name, id=message_id, lease=lease)


def _handles(tenant: TenantId, name: str, body: shapes.DeleteMessages) -> list[Handle]:
    handles = [Handle(tenant=tenant, queue=name, id=message_id) for message_id in body.ids]
    for index, receipt in enumerate(body.receipts):
        message_id, lease = _decode(name, receipt, f"receipts[{index}]")
        handles.append(Handle(tenant=tenant, queue=name, id=message_id, lease=lease))
    check_range("ids", len(handles), limits.BATCH_ENTRIES)
    return handles


def _decode(queue: str, receipt: str, field: str) -> tuple[int, int]:
    try:
        return receipts.decode(queue, receipt)
    except InvalidReceipt:
        raise InvalidReceipt(field=field) from None


def _check_outcome(outcome: Outcome) -> None:
    if outcome is Outcome.ABSENT:
        raise MessageNotFound(field="id")
    if outcome is Outcome.STALE:
        raise ReceiptStale(field="receipt")
    if outcome is Outcome.EXPIRED:
        raise ReceiptStale("the receipt has expired; in a FIFO queue it can change nothing any more", field="receipt")
