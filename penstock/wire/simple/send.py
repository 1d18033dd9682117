"""`/send`, `/send_batch` and the older `/enqueue`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from functools import lru_cache

import msgspec

from penstock import limits
from penstock.auth import Principal
from penstock.engine.checks import check_range, check_send
from penstock.engine.queues.messages import Messages
from penstock.errors import Invalid, InvalidName, PenstockError, QueueNotFound, TooLarge
from penstock.model import Scope, Send, Sent
from penstock.model.uuids import uuid_of
from penstock.wire.aws.checksums import body_md5
from penstock.wire.http.bodies import read_query
from penstock.wire.http.messages import Direct, Later, Refusal, Request, Response
from penstock.wire.simple import types as shapes
from penstock.wire.simple.faults import duplicate_message, invalid_request, problem_of
from penstock.wire.simple.queues import ImplicitQueues
from penstock.wire.simple.settings import SimpleSettings
from penstock.wire.simple.types import read

NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
DEDUP_ID = re.compile(r"[A-Za-z0-9]{1,128}")

_one = msgspec.json.Decoder(shapes.SendRequest)
_batch = msgspec.json.Decoder(shapes.RawBatch)
_encode = msgspec.json.Encoder().encode


class Sending:
    def __init__(self, messages: Messages, queues: ImplicitQueues, settings: SimpleSettings) -> None:
        self._messages = messages
        self._queues = queues
        self._settings = settings

    def send(self, request: Request) -> Awaitable[Response]:
        principal = request.principal
        entry = self._entry(principal, read(_one, request.body))
        known = self._queues.recent(entry.tenant, entry.queue) is not None
        if not known or not self._messages.whole:
            return Direct(self._send(principal, entry, known))

        def finish(results: Sequence[Sent | PenstockError]) -> Response | Awaitable[Response]:
            sent = results[0]
            if isinstance(sent, Sent):
                return _sent(entry, sent)
            if isinstance(sent, QueueNotFound):
                return self._send_again(principal, entry)
            raise sent

        return Later(self._messages.begin_send(entry), finish)

    def enqueue(self, request: Request) -> Awaitable[Response]:
        """The whole body is the message; the rest is in the query."""
        principal = request.principal
        try:
            query = read_query(shapes.EnqueueQuery, request.query)
            text = bytes(request.body).decode()
        except Invalid as error:
            raise invalid_request(error.message) from None
        except UnicodeDecodeError:
            raise invalid_request("the message is not valid UTF-8") from None
        new = shapes.SendRequest(queue_name=query.queue_name, message_body=text, priority=query.priority)
        entry = self._entry(principal, new)
        return self._send(principal, entry, self._queues.recent(entry.tenant, entry.queue) is not None)

    async def _send(self, principal: Principal, entry: Send, known: bool) -> Response:
        """`known`: whether the queue was seen a moment ago."""
        if not known:
            await self._prepare(principal, entry)
        try:
            return _sent(entry, await self._messages.send(entry))
        except QueueNotFound:
            return await self._send_again(principal, entry)

    async def _send_again(self, principal: Principal, entry: Send) -> Response:
        """Another protocol has dropped the queue a moment ago."""
        await self._queues.find_or_create(principal, entry.queue)
        return _sent(entry, await self._messages.send(entry))

    async def _prepare(self, principal: Principal, entry: Send) -> None:
        check_send(entry)  # what the engine would refuse creates no queue
        await self._queues.find_or_create(principal, entry.queue)

    async def send_batch(self, request: Request) -> Response:
        principal = request.principal
        given = read(_batch, request.body).messages
        check_range("messages", len(given), (1, shapes.MOST))
        entries: dict[int, Send] = {}
        failed: dict[int, Exception] = {}
        for index, raw in enumerate(given):
            try:
                entry = self._entry(principal, read(_one, bytes(raw)))
                if self._queues.recent(entry.tenant, entry.queue) is None:
                    await self._prepare(principal, entry)
                entries[index] = entry
            except (PenstockError, Refusal) as error:
                failed[index] = error
        answers = await self._messages.send_batch(list(entries.values()))
        successful = []
        for (index, entry), answer in zip(entries.items(), answers, strict=True):
            if isinstance(answer, PenstockError):
                failed[index] = answer
                if isinstance(answer, QueueNotFound):
                    self._queues.forget(entry.tenant, entry.queue)
            elif answer.duplicate:
                failed[index] = duplicate_message(entry.dedup_id)
            else:
                sequence = _sequence(answer)
                successful.append(shapes.SentEntry(index, uuid_of(answer.id), body_md5(entry.body), sequence))
        problems = [shapes.FailedEntry(index, problem_of(error)[1]) for index, error in sorted(failed.items())]
        return Response(200, _encode(shapes.SendBatchResponse(successful, problems)))

    def _entry(self, principal: Principal, new: shapes.SendRequest) -> Send:
        name, body = new.queue_name, new.message_body
        _check_standard_name(name)
        principal.require(Scope.SEND, name)
        if not body:
            raise invalid_request("message_body is required")
        most = self._settings.max_message_bytes
        # Four bytes are the most that a character takes.
        if len(body) > most or (4 * len(body) > most and len(body.encode(errors="replace")) > most):
            raise TooLarge(f"message_body is larger than {most} bytes", field="message_body")
        priority = self._settings.priority
        if new.priority is not None:
            priority = new.priority
            check_range("priority", priority, limits.PRIORITY)
        # None is the store's own default, and the cheaper way to ask for it.
        entry = Send(
            tenant=principal.tenant,
            queue=name,
            body=body,
            priority=None if priority == limits.DEFAULT_PRIORITY else priority,
        )
        if new.delay_seconds is not None:
            check_range("delay_seconds", new.delay_seconds, limits.DELAY_S)
            entry.delay_s = new.delay_seconds
        if new.message_retention_period is not None:
            check_range("message_retention_period", new.message_retention_period, limits.RETENTION_S)
            entry.retention_s = new.message_retention_period
        if new.message_deduplication_id is not None:
            _add_dedup(entry, new.message_deduplication_id)
        if new.message_deduplication_time_period is not None:
            period = new.message_deduplication_time_period
            check_range("message_deduplication_time_period", period, limits.DEDUP_WINDOW_S)
            entry.dedup_window_s = period
        if new.message_attributes:
            entry.attributes = _attributes(new.message_attributes)
        return entry


def _sent(entry: Send, sent: Sent) -> Response:
    if sent.duplicate:
        raise duplicate_message(entry.dedup_id)
    found = shapes.SendResponse(uuid_of(sent.id), body_md5(entry.body), _sequence(sent))
    return Response(200, _encode(found))


def _sequence(sent: Sent) -> int:
    """A queue that does not number its messages still has their ids, which rise as well."""
    return sent.id if sent.sequence is None else sent.sequence


@lru_cache(1024)
def _check_standard_name(name: str) -> None:
    if NAME.fullmatch(name) is not None:
        return
    if limits.QUEUE_NAME.fullmatch(name) is not None:
        text = "a FIFO queue cannot be sent to here: this protocol has no message groups"
        raise InvalidName(text, field="queue_name")
    raise InvalidName("queue_name must be 1 to 80 letters, digits, hyphens and underscores", field="queue_name")


def _add_dedup(entry: Send, dedup_id: str) -> None:
    if DEDUP_ID.fullmatch(dedup_id) is None:
        text = "message_deduplication_id must be 1 to 128 letters and digits"
        raise Invalid(text, field="message_deduplication_id")
    entry.dedup_id = dedup_id


def _attributes(given: dict[str, str]) -> str:
    field = "message_attributes"
    if len(given) > shapes.MOST:
        raise Invalid(f"{field} may have {shapes.MOST} entries", field=field)
    for name, value in given.items():
        if not shapes.ATTRIBUTE_NAME[0] <= len(name) <= shapes.ATTRIBUTE_NAME[1]:
            raise Invalid(f"a name in {field} must have 1 to {shapes.ATTRIBUTE_NAME[1]} characters", field=field)
        if len(value) > shapes.ATTRIBUTE_VALUE[1]:
            raise Invalid(f"a value in {field} may have {shapes.ATTRIBUTE_VALUE[1]} characters", field=field)
    # As every door stores them: SQS clients see attributes of type String.
    return _encode({name: {"type": "String", "value": value} for name, value in given.items()}).decode()
