"""ReceiveMessage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime

from msgspec import json

from penstock.engine.queues import receipts
from penstock.engine.queues.messages import Messages
from penstock.errors import PenstockError
from penstock.model import Message, Receive, Scope
from penstock.model import Received as Claimed
from penstock.model.arns import queue_arn
from penstock.model.traces import begun_by_publish
from penstock.model.uuids import uuid_of
from penstock.wire.aws.checksums import attributes_md5, body_md5
from penstock.wire.aws.errors import invalid_value
from penstock.wire.aws.gateway import Begun, Call
from penstock.wire.sqs.attributes import READABLE
from penstock.wire.sqs.errors import sqs_error
from penstock.wire.sqs.in_flight_limit import InFlightLimit
from penstock.wire.sqs.message_checks import KeptAttribute
from penstock.wire.sqs.names import queue_name, sender_id, sequence_number
from penstock.wire.sqs.queue_cache import QueueCache
from penstock.wire.sqs.receive_attempts import Attempts
from penstock.wire.sqs.types import AttributeOut, Received, ReceiveMessage
from penstock.wire.sqs.types import Message as MessageOut

MOST = 10
WAIT_S = (0, 20)
VISIBILITY_TIMEOUT_S = (0, 43_200)

_kept = json.Decoder(dict[str, KeptAttribute])
_NOTHING = Received()

Reading = Callable[[Call, str, Message], str | None]


def _milliseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


SYSTEM: dict[str, Reading] = {
    "SenderId": lambda call, queue, message: sender_id(call.tenant),
    "SentTimestamp": lambda call, queue, message: _milliseconds(message.sent_at),
    "ApproximateReceiveCount": lambda call, queue, message: str(message.receives),
    "ApproximateFirstReceiveTimestamp": lambda call, queue, message: (
        _milliseconds(message.first_received_at) if message.first_received_at is not None else None
    ),
    "SequenceNumber": lambda call, queue, message: sequence_number(message.id) if queue.endswith(".fifo") else None,
    "MessageDeduplicationId": lambda call, queue, message: message.dedup_id if queue.endswith(".fifo") else None,
    "MessageGroupId": lambda call, queue, message: message.group_id,
    "AWSTraceHeader": lambda call, queue, message: None if begun_by_publish(message.trace) else message.trace,
    "DeadLetterQueueSourceArn": lambda call, queue, message: (
        queue_arn(call.region, message.dead_letter_source) if message.dead_letter_source is not None else None
    ),
}
"""The system attributes of a message, and how each is read."""


class Receiving:
    def __init__(
        self, messages: Messages, known: QueueCache, attempts: Attempts, in_flight_limit: InFlightLimit | None
    ) -> None:
        self._messages = messages
        self._known = known
        self._attempts = attempts
        self._in_flight_limit = in_flight_limit

    def begin(self, call: Call, given: ReceiveMessage) -> Begun | None:
        if self._in_flight_limit is not None or given.receive_request_attempt_id is not None:
            return None
        name, limit = _name_and_limit(call, given)
        wait_s = given.wait_time_seconds
        if wait_s is None:
            queue = self._known.recent(call.tenant, name)
            wait_s = queue.settings.receive_wait_s if queue is not None else None
        if wait_s != 0:
            return None
        system = _system_names(given)
        wanted = Receive(tenant=call.tenant, queue=name, limit=limit, visibility_timeout_s=given.visibility_timeout)

        def finish(results: Sequence[Claimed | PenstockError]) -> Received | Awaitable[Received]:
            claimed = results[0]
            if isinstance(claimed, PenstockError):
                raise claimed
            if claimed.crowded_out:
                return self.receive(call, given)
            return _received(call, given, name, system, claimed.messages)

        return self._messages.begin_receive(wanted), finish

    async def receive(self, call: Call, given: ReceiveMessage) -> Received:
        name, limit = _name_and_limit(call, given)
        wait_s = given.wait_time_seconds
        if wait_s is None:
            queue = self._known.recent(call.tenant, name) or await self._known.get(call.tenant, name)
            wait_s = queue.settings.receive_wait_s
        else:
            _check("WaitTimeSeconds", wait_s, WAIT_S)
        system = _system_names(given)
        wanted = Receive(tenant=call.tenant, queue=name, limit=limit, visibility_timeout_s=given.visibility_timeout)
        return _received(call, given, name, system, await self._claim(call, given, wanted, wait_s))

    async def _claim(self, call: Call, given: ReceiveMessage, wanted: Receive, wait_s: int) -> list[Message]:
        if given.receive_request_attempt_id is not None:
            again = await self._attempts.repeat(wanted, given.receive_request_attempt_id)
            if again is not None:
                return again
        if self._in_flight_limit is not None and await self._in_flight_limit.full(
            wanted.tenant, wanted.queue, polls=wait_s > 0
        ):
            return []
        if wait_s:
            call.request.wait_s = wait_s
            call.request.if_stopped = call.answer(_NOTHING)
        found = await self._messages.receive(wanted, wait_s)
        if given.receive_request_attempt_id is not None and found:
            self._attempts.remember(wanted, given.receive_request_attempt_id, found)
        return found


def _name_and_limit(call: Call, given: ReceiveMessage) -> tuple[str, int]:
    name = queue_name(call, given.queue_url)
    call.principal.require(Scope.RECEIVE, name)
    limit = 1 if given.max_number_of_messages is None else given.max_number_of_messages
    if not 1 <= limit <= MOST:
        raise invalid_value(limit, "MaxNumberOfMessages", f"Must be between 1 and {MOST}, if provided.")
    if given.visibility_timeout is not None:
        _check("VisibilityTimeout", given.visibility_timeout, VISIBILITY_TIMEOUT_S)
    return name, limit


def _received(
    call: Call, given: ReceiveMessage, name: str, system: Iterable[str], found: Sequence[Message]
) -> Received:
    if not found:
        return _NOTHING
    users = _user_names(given.message_attribute_names)
    return Received(messages=[_message(call, name, message, system, users) for message in found])


def _check(parameter: str, value: int, bounds: tuple[int, int]) -> None:
    if not bounds[0] <= value <= bounds[1]:
        raise invalid_value(value, parameter, f"Must be >= {bounds[0]} and <= {bounds[1]}, if provided.")


def _system_names(given: ReceiveMessage) -> Iterable[str]:
    if given.attribute_names is None and given.message_system_attribute_names is None:
        return ()
    asked = {*(given.attribute_names or ()), *(given.message_system_attribute_names or ())}
    if "All" in asked:
        return SYSTEM
    for name in asked:
        # The older parameter shares its names with the attributes of queues, so those pass and mean nothing.
        if name not in SYSTEM and name not in READABLE:
            raise sqs_error("InvalidAttributeName", f"Unknown Attribute {name}.")
    return [name for name in SYSTEM if name in asked]


class _Names:
    """Which attributes of the user's own were asked for: by name, by prefix, or all."""

    __slots__ = ("_exact", "_prefixes")

    def __init__(self, asked: Iterable[str]) -> None:
        self._exact = frozenset(asked)
        everything = not self._exact.isdisjoint(("All", ".*", "*"))
        self._prefixes = ("",) if everything else tuple(name[:-2] for name in self._exact if name.endswith(".*"))

    def __contains__(self, name: str) -> bool:
        return name in self._exact or name.startswith(self._prefixes)


def _user_names(asked: list[str] | None) -> _Names | None:
    return _Names(asked) if asked else None


def _message(call: Call, queue: str, message: Message, system: Iterable[str], users: _Names | None) -> MessageOut:
    out = MessageOut(
        message_id=uuid_of(message.id),
        receipt_handle=receipts.encode_plain(queue, message.id, message.lease),
        md5_of_body=body_md5(message.body),
        body=message.body,
    )
    if system:
        read = ((name, SYSTEM[name](call, queue, message)) for name in system)
        out.attributes = {name: value for name, value in read if value is not None} or None
    if users is not None and message.attributes is not None:
        _add_attributes(out, message.attributes, users)
    return out


def _add_attributes(out: MessageOut, stored: str, users: _Names) -> None:
    chosen = {name: attribute for name, attribute in _kept.decode(stored).items() if name in users}
    if not chosen:
        return
    plain = [(name, attribute.type, attribute.plain) for name, attribute in chosen.items()]
    out.md5_of_message_attributes = attributes_md5(plain)
    out.message_attributes = {
        name: AttributeOut(data_type=kind, binary_value=value)
        if isinstance(value, bytes)
        else AttributeOut(data_type=kind, string_value=value)
        for name, kind, value in plain
    }
