"""`/receive`, which older clients call `/dequeue`."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import lru_cache

import msgspec
from msgspec import UNSET, Struct

from penstock import limits
from penstock.auth import Principal
from penstock.engine.checks import check_name, check_range
from penstock.engine.queues.messages import Messages
from penstock.errors import Forbidden, Invalid, PenstockError, QueueNotFound
from penstock.model import Message, Queue, Receive, Received, Scope
from penstock.model.uuids import uuid_of
from penstock.wire.aws.checksums import body_md5
from penstock.wire.http.bodies import REMEMBERED_BYTES
from penstock.wire.http.messages import Direct, Later, Request, Response
from penstock.wire.simple import receipts
from penstock.wire.simple import types as shapes
from penstock.wire.simple.queues import ImplicitQueues
from penstock.wire.simple.settings import SimpleSettings
from penstock.wire.simple.types import read


class Kept(Struct):
    """An attribute as every door stores it; a Binary one in base64."""

    value: str


_wanted = msgspec.json.Decoder(shapes.ReceiveRequest)
_kept = msgspec.json.Decoder(dict[str, Kept])
_encode = msgspec.json.Encoder().encode
_NOTHING = Response(200, b'{"messages":[]}')


class Receiving:
    def __init__(
        self, messages: Messages, queues: ImplicitQueues, names: receipts.QueueNames, settings: SimpleSettings
    ) -> None:
        self._messages = messages
        self._queues = queues
        self._names = names
        self._settings = settings

    def receive(self, request: Request) -> Awaitable[Response]:
        body = request.body
        # Workers that poll send the same few bodies over and over.
        given = _remembered(body) if len(body) <= REMEMBERED_BYTES and type(body) is bytes else _read(body)
        principal = request.principal
        principal.require(Scope.RECEIVE, given.queue_name)
        wait_s = self._settings.wait_s if given.wait_time_seconds is None else given.wait_time_seconds
        if given.peek:
            return self._peek(principal, given)
        if wait_s:
            request.wait_s = wait_s
            request.if_stopped = _NOTHING
        queue = self._queues.recent(principal.tenant, given.queue_name)
        if queue is None or wait_s or given.dead_letter_queue_name is not None or not self._messages.whole:
            return Direct(self._receive(principal, given, wait_s, queue))
        return self._begin(principal, given, queue)

    def _begin(self, principal: Principal, given: shapes.ReceiveRequest, queue: Queue) -> Later:
        def finish(results: Sequence[Received | PenstockError]) -> Response | Awaitable[Response]:
            received = results[0]
            if isinstance(received, Received):
                if received.crowded_out:
                    return self._receive(principal, given, 0, queue)
                return self._found(principal, queue, received.messages)
            if isinstance(received, QueueNotFound):
                return self._receive(principal, given, 0, None)
            raise received

        return Later(self._messages.begin_receive(self._wanted(principal, given, queue)), finish)

    async def _receive(
        self, principal: Principal, given: shapes.ReceiveRequest, wait_s: int, queue: Queue | None
    ) -> Response:
        """`queue` is what was known of it a moment ago."""
        name, dead_letters = given.queue_name, given.dead_letter_queue_name
        if queue is None:
            queue = await self._queues.find_or_create(principal, name)
        if dead_letters is not None:
            await self._prepare_dead_letters(principal, dead_letters)
        wanted = self._wanted(principal, given, queue)
        try:
            found = await self._messages.receive(wanted, wait_s)
        except QueueNotFound:  # another protocol has dropped one of the two a moment ago
            queue = await self._queues.find_or_create(principal, name)
            if dead_letters is not None:
                await self._queues.find_or_create(principal, dead_letters)
            found = await self._messages.receive(wanted, wait_s)
        return self._found(principal, queue, found)

    def _wanted(self, principal: Principal, given: shapes.ReceiveRequest, queue: Queue) -> Receive:
        return Receive(
            tenant=principal.tenant,
            queue=given.queue_name,
            limit=given.max_number_of_messages or 1,
            visibility_timeout_s=given.visibility_timeout,
            max_receives=self._max_receives(given, queue),
            dead_letter_queue=given.dead_letter_queue_name,
            shuffle=bool(given.shuffle),
        )

    def _found(self, principal: Principal, queue: Queue, messages: Sequence[Message]) -> Response:
        if not messages:
            return _NOTHING
        self._names.see(principal.tenant, queue.name)
        return _answer(queue, messages)

    async def _prepare_dead_letters(self, principal: Principal, dead_letters: str) -> None:
        if not principal.reaches(dead_letters):
            raise Forbidden("this token has no access to that queue", field="dead_letter_queue_name")
        if self._queues.recent(principal.tenant, dead_letters) is None:
            await self._queues.find_or_create(principal, dead_letters)

    def _max_receives(self, given: shapes.ReceiveRequest, queue: Queue) -> int | None:
        """The default deletes poison, so a queue that others made, or gave rules for poison, is left to its own."""
        if given.max_receives is not None:
            return given.max_receives
        own = not queue.implicit or queue.settings.max_receives is not None
        return None if own and given.dead_letter_queue_name is None else self._settings.max_receives

    async def _peek(self, principal: Principal, given: shapes.ReceiveRequest) -> Response:
        try:
            queue = self._queues.recent(principal.tenant, given.queue_name)
            if queue is None:
                queue = await self._queues.find(principal.tenant, given.queue_name)
            found = await self._messages.peek(principal.tenant, given.queue_name, 1, shuffle=bool(given.shuffle))
        except QueueNotFound:
            return _NOTHING
        return _answer(queue, found)


def _read(body: bytes | bytearray) -> shapes.ReceiveRequest:
    given: shapes.ReceiveRequest = read(_wanted, body)
    check_name(given.queue_name, "queue_name")
    if given.visibility_timeout is not None:
        check_range("visibility_timeout", given.visibility_timeout, limits.VISIBILITY_TIMEOUT_S)
    if given.wait_time_seconds is not None:
        check_range("wait_time_seconds", given.wait_time_seconds, limits.RECEIVE_WAIT_S)
    if given.max_number_of_messages is not None:
        check_range("max_number_of_messages", given.max_number_of_messages, (1, shapes.MOST))
    if given.max_receives is not None:
        check_range("max_receives", given.max_receives, shapes.MAX_RECEIVES)
    dead_letters = given.dead_letter_queue_name
    if dead_letters is not None:
        check_name(dead_letters, "dead_letter_queue_name")
        if dead_letters == given.queue_name:
            raise Invalid("dead_letter_queue_name must differ from queue_name", field="dead_letter_queue_name")
        if given.peek:
            text = "peek cannot be combined with dead_letter_queue_name"
            raise Invalid(text, field="dead_letter_queue_name")
    return given


_remembered = lru_cache(512)(_read)


def _answer(queue: Queue, messages: Sequence[Message]) -> Response:
    return Response(200, _encode(shapes.ReceiveResponse([shown(queue, message) for message in messages])))


def shown(queue: Queue, message: Message) -> shapes.ReceivedMessage:
    first = message.first_received_at
    return shapes.ReceivedMessage(
        message_id=uuid_of(message.id),
        receipt_handle=receipts.encode(queue.name, message) if message.lease else UNSET,
        message_body=message.body,
        md5_of_message_body=body_md5(message.body),
        priority=message.priority,
        approximate_receive_count=message.receives,
        approximate_first_receive_timestamp=UNSET if first is None else int(first.timestamp()),
        sent_timestamp=int(message.sent_at.timestamp()),
        sequence_number=message.sequence or (0 if queue.implicit else message.id),
        message_attributes=UNSET if message.attributes is None else _attributes(message.attributes),
    )


def _attributes(stored: str) -> dict[str, str]:
    return {name: kept.value for name, kept in _kept.decode(stored).items()}
