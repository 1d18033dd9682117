"""The door of private queues: `/v1/private`.

Creating, blocking and counting queues requires a token, as in the native REST API. Everything else is
addressed by an id and proved by a signature; the Authorization header does not matter there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from penstock.engine import Engine
from penstock.engine.private import ids
from penstock.errors import Conflict, Forbidden, NotFound, PenstockError, QueueFull, TooLarge
from penstock.model import Scope
from penstock.model.private import Party, PrivateRecord, ServiceSummary
from penstock.wire.http.bodies import read_body, read_query
from penstock.wire.http.faults import json_fault
from penstock.wire.http.messages import NO_CONTENT, Request, Response
from penstock.wire.http.router import Route
from penstock.wire.openapi import Operation
from penstock.wire.private import types as shapes
from penstock.wire.private.recipients import LARGE_BODY, RecipientRoutes, check_one
from penstock.wire.private.signed import SIGNATURE, party_id, proof_of, proof_of_lookup

SENDERS = "/v1/private/senders"
NOTIFIERS = "/v1/private/notifiers"
MESSAGE_BODY = 16_777_216
"""Room for the largest message, escaped."""

_new = msgspec.json.Decoder(shapes.NewPrivateQueues)
_key = msgspec.json.Decoder(shapes.GivenKey)
_message = msgspec.json.Decoder(shapes.NewPrivateMessage)
_webhook = msgspec.json.Decoder(shapes.GivenWebhook)
_lookups = msgspec.json.Decoder(shapes.Lookups)
_block = msgspec.json.Decoder(shapes.Block)
_new_service = msgspec.json.Decoder(shapes.NewService)
_encode = msgspec.json.Encoder().encode

_TAG = "private queues"
_PARTIES = {"recipients": Party.RECIPIENT, "senders": Party.SENDER, "notifiers": Party.NOTIFIER}


class PrivateDoor:
    def __init__(self, engine: Engine) -> None:
        self._private = engine.private
        self._messages = engine.private_messages
        self.operations = [
            *self._operator_operations(),
            *RecipientRoutes(engine).operations(),
            *self._sender_operations(),
            *self._notifier_operations(),
            Operation(
                method="GET", path="/v1/private/links/{id}", handler=self.link, tag=_TAG,
                summary="The data of a short link", answers={200: shapes.LinkData}, errors=(Forbidden,),
            ),
        ]  # fmt: skip

    def routes(self) -> list[Route]:
        routes = [operation.route(json_fault) for operation in self.operations]
        for operation, route in zip(self.operations, routes, strict=True):
            if operation.signed:
                route.admit = self._admit_head
        return routes

    async def _admit_head(self, request: Request) -> Response | None:
        """Before a large body is read. A signature covers the body: whether it is good does not show before."""
        if request.header(SIGNATURE) is not None:
            return None
        try:
            await self._private.admit(_PARTIES[request.path.split("/")[3]], party_id(request), None)
        except PenstockError as error:
            return json_fault(error, request.request_id)
        return None

    def _operator_operations(self) -> list[Operation]:
        return [
            Operation(
                method="POST", path="/v1/private/queues", handler=self.create, tag=_TAG, scope=Scope.MANAGE,
                summary="Create private queues", body=shapes.NewPrivateQueues,
                answers={201: shapes.CreatedPrivateQueues}, body_bytes=LARGE_BODY,
            ),
            Operation(
                method="POST", path="/v1/private/block", handler=self.block, tag=_TAG, scope=Scope.ADMIN,
                summary="Block a queue for a reason, or lift the block", body=shapes.Block, answers={204: None},
                errors=(NotFound,),
            ),
            Operation(
                method="GET", path="/v1/private/counts", handler=self.counts, tag=_TAG, scope=Scope.ADMIN,
                summary="How many private queues, notifiers, links and services there are",
                answers={200: shapes.Counts},
            ),
            Operation(
                method="POST", path="/v1/private/services", handler=self.service, tag=_TAG, scope=Scope.MANAGE,
                summary="The service of a certificate, made when there is none", body=shapes.NewService,
                answers={200: shapes.Service},
            ),
            Operation(
                method="GET", path="/v1/private/services/{id}", handler=self.service_summary, tag=_TAG,
                scope=Scope.READ, summary="How many queues a service has, and their hash",
                answers={200: shapes.Service}, errors=(NotFound,),
            ),
        ]  # fmt: skip

    def _sender_operations(self) -> list[Operation]:
        one = f"{SENDERS}/{{id}}"
        return [
            Operation(
                method="GET", path=one, handler=self._admitted(Party.SENDER, self._sender), signed=True, tag=_TAG,
                summary="The queue, as its sender sees it", answers={200: shapes.PrivateQueueSender},
                errors=(Forbidden,),
            ),
            Operation(
                method="POST", path=f"{SENDERS}/lookup", handler=self.lookup_senders, tag=_TAG, body=shapes.Lookups,
                summary="Several queues at once, each by a signed GET", answers={200: list[shapes.FoundSender]},
                body_bytes=LARGE_BODY,
            ),
            Operation(
                method="PUT", path=f"{one}/key", handler=self.secure, signed=True, tag=_TAG, body=shapes.GivenKey,
                summary="Secure the queue with the sender's own key; the first key wins", answers={204: None},
                errors=(Forbidden,),
            ),
            Operation(
                method="POST", path=f"{one}/messages", handler=self.send, signed=True, tag=_TAG,
                summary="Send a message", body=shapes.NewPrivateMessage, answers={201: None},
                errors=(Forbidden, Conflict, QueueFull, TooLarge), body_bytes=MESSAGE_BODY,
            ),
        ]  # fmt: skip

    def _notifier_operations(self) -> list[Operation]:
        one = f"{NOTIFIERS}/{{id}}"
        return [
            Operation(
                method="GET", path=one, handler=self._admitted(Party.NOTIFIER, self._waiting), signed=True, tag=_TAG,
                summary="Whether a message waits; with wait, as soon as one does", query=shapes.NotifierQuery,
                answers={200: shapes.Waiting}, errors=(Forbidden, Conflict),
            ),
            Operation(
                method="POST", path=f"{NOTIFIERS}/lookup", handler=self.lookup_notifiers, tag=_TAG, body=shapes.Lookups,
                summary="Which of several notifier ids exist, each by a signed GET",
                answers={200: list[shapes.FoundNotifier]}, body_bytes=LARGE_BODY,
            ),
            Operation(
                method="PUT", path=f"{one}/webhook", handler=self._admitted(Party.NOTIFIER, self._set_webhook),
                signed=True, tag=_TAG, summary="Tell an endpoint whenever a message is sent", body=shapes.GivenWebhook,
                answers={200: shapes.CreatedWebhook}, errors=(Forbidden,),
            ),
            Operation(
                method="DELETE", path=f"{one}/webhook", handler=self._admitted(Party.NOTIFIER, self._end_webhook),
                signed=True, tag=_TAG, summary="Tell the endpoint nothing more", answers={204: None},
                errors=(Forbidden,),
            ),
        ]  # fmt: skip

    def _admitted(
        self, party: Party, act: Callable[[PrivateRecord, Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handler(request: Request) -> Response:
            return await act(await self._private.admit(party, party_id(request), proof_of(request)), request)

        return handler

    # Operators

    async def create(self, request: Request) -> Response:
        request.principal.require(Scope.MANAGE)
        given = read_body(_new, request.body).queues
        keys = [(_decoded(each.recipient_key), each.sender_key and _decoded(each.sender_key)) for each in given]
        made = await self._private.create_many([(recipient, sender or None) for recipient, sender in keys])
        shown = [shapes.CreatedPrivateQueue(ids.encode(each.recipient_id), ids.encode(each.sender_id)) for each in made]
        return Response(201, _encode(shapes.CreatedPrivateQueues(shown)))

    async def block(self, request: Request) -> Response:
        request.principal.require(Scope.ADMIN)
        given = read_body(_block, request.body)
        party, party_id = check_one(given)
        await self._private.block(party, party_id, given.reason)
        return NO_CONTENT

    async def counts(self, request: Request) -> Response:
        request.principal.require(Scope.ADMIN)
        read_query(shapes.NoQuery, request.query)
        found = await self._private.counts()
        return Response(200, _encode(found))

    async def service(self, request: Request) -> Response:
        request.principal.require(Scope.MANAGE)
        given = read_body(_new_service, request.body)
        fingerprint = ids.decode("fingerprint", given.fingerprint, ids.FINGERPRINT_BYTES)
        return Response(200, _encode(_service(await self._private.service(fingerprint))))

    async def service_summary(self, request: Request) -> Response:
        request.principal.require(Scope.READ)
        text = request.arguments[0]
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise NotFound("the service does not exist", field="id")
        return Response(200, _encode(_service(await self._private.service_summary(int(text)))))

    # Senders

    async def _sender(self, record: PrivateRecord, request: Request) -> Response:
        return Response(200, _encode(_as_sender(record)))

    async def lookup_senders(self, request: Request) -> Response:
        found = await self._lookup(Party.SENDER, SENDERS, request)
        shown = [shapes.FoundSender(text, None if record is None else _as_sender(record)) for text, record in found]
        return Response(200, _encode(shown))

    async def secure(self, request: Request) -> Response:
        sender_id = party_id(request)
        key = _decoded(read_body(_key, request.body).key)
        await self._private.secure_as_sender(sender_id, key, proof_of(request))
        return NO_CONTENT

    async def send(self, request: Request) -> Response:
        proof = proof_of(request)
        record = await self._private.admit(Party.SENDER, party_id(request), proof)
        given = read_body(_message, request.body)
        # Before the queue is secured anyone may send, so a signature there proves nothing and marks nothing.
        await self._messages.send(record, given.message, proof if record.sender_key else None, given.delay)
        return Response(201)

    # Notifiers and links

    async def _waiting(self, record: PrivateRecord, request: Request) -> Response:
        query = read_query(shapes.NotifierQuery, request.query)
        if query.wait:
            request.wait_s = query.wait
            request.if_stopped = Response(200, b'{"waiting":false}')
        return Response(200, _encode(shapes.Waiting(await self._messages.is_waiting(record, query.wait))))

    async def lookup_notifiers(self, request: Request) -> Response:
        found = await self._lookup(Party.NOTIFIER, NOTIFIERS, request)
        return Response(200, _encode([shapes.FoundNotifier(text, record is not None) for text, record in found]))

    async def _set_webhook(self, record: PrivateRecord, request: Request) -> Response:
        secret = await self._messages.set_webhook(record, read_body(_webhook, request.body).url)
        assert secret is not None
        return Response(200, _encode(shapes.CreatedWebhook(secret)))

    async def _end_webhook(self, record: PrivateRecord, request: Request) -> Response:
        await self._messages.set_webhook(record, None)
        return NO_CONTENT

    async def link(self, request: Request) -> Response:
        data = await self._private.link_data(party_id(request))
        return Response(200, _encode(shapes.LinkData(ids.encode(data.fixed), ids.encode(data.mutable))))

    async def _lookup(self, party: Party, path: str, request: Request) -> list[tuple[str, PrivateRecord | None]]:
        given = read_body(_lookups, request.body).requests
        wanted = [(ids.decode("id", each.id, ids.ID_BYTES), proof_of_lookup(path, each)) for each in given]
        answers = await self._private.admit_many(party, wanted)
        return [
            (each.id, None if isinstance(answer, Forbidden) else answer)
            for each, answer in zip(given, answers, strict=True)
        ]


def _decoded(key: str) -> bytes:
    return ids.decode("key", key, ids.KEY_BYTES)


def _as_sender(record: PrivateRecord) -> shapes.PrivateQueueSender:
    return shapes.PrivateQueueSender(is_secured=record.sender_key is not None, status=record.status)


def _service(found: ServiceSummary) -> shapes.Service:
    return shapes.Service(service_id=found.id, queues=found.queues, hash=found.hash)
