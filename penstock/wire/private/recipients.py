"""Routes of recipients: they read messages, manage their queue and give out its other ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from penstock.engine import Engine
from penstock.engine.private import ids
from penstock.errors import Conflict, Forbidden, Invalid, MessageNotFound, ReceiptStale
from penstock.model import Message, Outcome
from penstock.model.private import LinkData, Party, PrivateRecord
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.openapi import Operation
from penstock.wire.private import types as shapes
from penstock.wire.private.signed import party_id, proof_of, proof_of_lookup

PATH = "/v1/private/recipients"
LARGE_BODY = 1_048_576

_key = msgspec.json.Decoder(shapes.GivenKey)
_keys = msgspec.json.Decoder(shapes.GivenKeys)
_link = msgspec.json.Decoder(shapes.GivenLink)
_service = msgspec.json.Decoder(shapes.GivenService)
_lookups = msgspec.json.Decoder(shapes.Lookups)
_encode = msgspec.json.Encoder().encode

Act = Callable[[PrivateRecord, Request], Awaitable[Response]]


class RecipientRoutes:
    def __init__(self, engine: Engine) -> None:
        self._private = engine.private
        self._messages = engine.private_messages

    def operations(self) -> list[Operation]:
        one = f"{PATH}/{{id}}"
        return [
            self._operation("GET", one, self._get, "The queue, as its recipient sees it", {200: shapes.PrivateQueue}),
            self._operation("DELETE", one, self._delete, "Delete the queue and its messages", {204: None}),
            Operation(
                method="POST", path=f"{PATH}/lookup", handler=self.lookup, tag="private queues", body=shapes.Lookups,
                summary="Several queues at once, each by a signed GET", answers={200: list[shapes.FoundRecipient]},
                body_bytes=LARGE_BODY,
            ),
            self._operation(
                "PUT", f"{one}/sender-key", self._secure, "Secure the queue with the sender's key; the first key wins",
                {204: None}, body=shapes.GivenKey, errors=(Conflict,),
            ),
            self._operation(
                "POST", f"{one}/notifier", self._add_notifier, "Give the queue a new notifier id",
                {201: shapes.CreatedNotifier}, body=shapes.GivenKey,
            ),
            self._operation("DELETE", f"{one}/notifier", self._delete_notifier, "End the notifier id", {204: None}),
            self._operation(
                "PUT", f"{one}/link", self._set_link, "Set the data of the short link; its fixed part is set once",
                {200: shapes.CreatedLink}, body=shapes.GivenLink, errors=(Conflict,), body_bytes=LARGE_BODY,
            ),
            self._operation("DELETE", f"{one}/link", self._delete_link, "Remove the short link", {204: None}),
            self._operation(
                "PUT", f"{one}/keys", self._set_keys, "Replace the recipient's keys", {204: None}, body=shapes.GivenKeys
            ),
            self._operation(
                "PUT", f"{one}/service", self._associate, "Give the queue to a service, or take it back", {204: None},
                body=shapes.GivenService,
            ),
            self._operation("POST", f"{one}/suspend", self._suspend, "Refuse further sends", {204: None}),
            self._operation("POST", f"{one}/resume", self._resume, "Accept sends again", {204: None}),
            self._operation("POST", f"{one}/touch", self._touch, "Note that the queue is in use", {204: None}),
            self._operation(
                "GET", f"{one}/messages", self._receive, "Receive messages", {200: list[shapes.PrivateMessage]},
                query=shapes.PrivateReceiveQuery, safe=False,
            ),
            self._operation(
                "DELETE", f"{one}/messages/{{receipt}}", self._delete_message, "Delete a received message", {204: None},
                errors=(MessageNotFound, ReceiptStale),
            ),
        ]  # fmt: skip

    def _operation(
        self, method: str, path: str, act: Act, summary: str, answers: dict[int, object], **more: object
    ) -> Operation:
        async def handler(request: Request) -> Response:
            record = await self._private.admit(Party.RECIPIENT, party_id(request), proof_of(request))
            return await act(record, request)

        errors = (Forbidden, *more.pop("errors", ()))  # type: ignore[misc]
        return Operation(
            method=method, path=path, handler=handler, signed=True, tag="private queues", summary=summary,
            answers=answers, errors=errors, **more,  # type: ignore[arg-type]
        )  # fmt: skip

    async def lookup(self, request: Request) -> Response:
        given = read_body(_lookups, request.body).requests
        wanted = [(ids.decode("id", each.id, ids.ID_BYTES), proof_of_lookup(PATH, each)) for each in given]
        answers = await self._private.admit_many(Party.RECIPIENT, wanted)
        return Response(
            200,
            _encode(
                [
                    shapes.FoundRecipient(each.id, None if isinstance(answer, Forbidden) else _shown(answer))
                    for each, answer in zip(given, answers, strict=True)
                ]
            ),
        )

    async def _get(self, record: PrivateRecord, request: Request) -> Response:
        return Response(200, _encode(_shown(record)))

    async def _delete(self, record: PrivateRecord, request: Request) -> Response:
        await self._messages.delete_queue(record)
        return NO_CONTENT

    async def _secure(self, record: PrivateRecord, request: Request) -> Response:
        await self._private.secure(record, _decoded(read_body(_key, request.body).key))
        return NO_CONTENT

    async def _add_notifier(self, record: PrivateRecord, request: Request) -> Response:
        changed = await self._private.add_notifier(record, _decoded(read_body(_key, request.body).key))
        assert changed.notifier_id is not None
        return Response(201, _encode(shapes.CreatedNotifier(ids.encode(changed.notifier_id))))

    async def _delete_notifier(self, record: PrivateRecord, request: Request) -> Response:
        if record.webhook_key is not None:
            await self._messages.set_webhook(record, None)
        await self._private.delete_notifier(record)
        return NO_CONTENT

    async def _set_link(self, record: PrivateRecord, request: Request) -> Response:
        given = read_body(_link, request.body)
        link_id = None if given.link_id is None else ids.decode("link_id", given.link_id, ids.ID_BYTES)
        data = LinkData(ids.decode_any("fixed", given.fixed), ids.decode_any("mutable", given.mutable))
        changed = await self._private.set_link(record, link_id, data)
        assert changed.link_id is not None
        return Response(200, _encode(shapes.CreatedLink(ids.encode(changed.link_id))))

    async def _delete_link(self, record: PrivateRecord, request: Request) -> Response:
        await self._private.delete_link(record)
        return NO_CONTENT

    async def _set_keys(self, record: PrivateRecord, request: Request) -> Response:
        await self._private.set_recipient_keys(record, [_decoded(key) for key in read_body(_keys, request.body).keys])
        return NO_CONTENT

    async def _associate(self, record: PrivateRecord, request: Request) -> Response:
        await self._private.associate(record, read_body(_service, request.body).service_id)
        return NO_CONTENT

    async def _suspend(self, record: PrivateRecord, request: Request) -> Response:
        await self._private.set_suspended(record, True)
        return NO_CONTENT

    async def _resume(self, record: PrivateRecord, request: Request) -> Response:
        await self._private.set_suspended(record, False)
        return NO_CONTENT

    async def _touch(self, record: PrivateRecord, request: Request) -> Response:
        await self._private.touch([record])
        return NO_CONTENT

    async def _receive(self, record: PrivateRecord, request: Request) -> Response:
        query = read_query(shapes.PrivateReceiveQuery, request.query)
        if query.wait:
            request.wait_s = query.wait
            request.if_stopped = Response(200, b"[]")
        found = await self._messages.receive(
            record, limit=query.max, wait_s=query.wait, visibility_timeout_s=query.visibility_timeout
        )
        return Response(200, _encode([_message(receipt, message) for receipt, message in found]))

    async def _delete_message(self, record: PrivateRecord, request: Request) -> Response:
        outcome = await self._messages.delete(record, request.arguments[1])
        if outcome is Outcome.ABSENT:
            raise MessageNotFound()
        if outcome is not Outcome.DONE:
            raise ReceiptStale()
        return NO_CONTENT


def _decoded(key: str) -> bytes:
    return ids.decode("key", key, ids.KEY_BYTES)


def _shown(record: PrivateRecord) -> shapes.PrivateQueue:
    return shapes.PrivateQueue(
        recipient_id=ids.encode(record.recipient_id),
        sender_id=ids.encode(record.sender_id),
        notifier_id=None if record.notifier_id is None else ids.encode(record.notifier_id),
        link_id=None if record.link_id is None else ids.encode(record.link_id),
        is_secured=record.sender_key is not None,
        has_webhook=record.webhook_key is not None,
        status=record.status,
        block_reason=record.block_reason,
        service_id=record.service_id,
        created_at=record.created_at,
    )


def _message(receipt: str, message: Message) -> shapes.PrivateMessage:
    return shapes.PrivateMessage(
        message=message.body, receipt=receipt, sent_at=message.sent_at, receives=message.receives
    )


def check_one(given: shapes.Block) -> tuple[Party, bytes]:
    """The one id a block names."""
    named = [
        (Party.RECIPIENT, "recipient_id", given.recipient_id),
        (Party.SENDER, "sender_id", given.sender_id),
    ]
    chosen = [(party, ids.decode(field, text, ids.ID_BYTES)) for party, field, text in named if text is not None]
    if len(chosen) != 1:
        raise Invalid("give one of recipient_id and sender_id", field="recipient_id")
    return chosen[0]
