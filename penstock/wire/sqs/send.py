"""SendMessage and SendMessageBatch."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from penstock.engine.queues.messages import Messages
from penstock.errors import Invalid, PenstockError, QueueNotFound, TooLarge
from penstock.model import Queue, Scope
from penstock.model import Sent as Stored
from penstock.model.uuids import uuid_of
from penstock.wire.aws.checksums import body_md5
from penstock.wire.aws.errors import AwsError, invalid
from penstock.wire.aws.gateway import Begun, Call
from penstock.wire.sqs.batches import check_entries, failed_entry
from penstock.wire.sqs.errors import sqs_error, to_aws_error
from penstock.wire.sqs.message_checks import Checked, check_message, size_of
from penstock.wire.sqs.names import queue_name, sequence_number
from penstock.wire.sqs.queue_cache import QueueCache
from penstock.wire.sqs.types import FailedEntry, SendEntry, SendMessage, SendMessageBatch, Sent, SentBatch, SentEntry

BATCH_BYTES = 1_048_576
NO_DEDUP_ID = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
_ENTRY = "SendMessageBatchRequestEntry"


class Sending:
    def __init__(self, messages: Messages, known: QueueCache) -> None:
        self._messages = messages
        self._known = known

    def begin(self, call: Call, given: SendMessage) -> Begun | None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.SEND, name)
        checked = check_message(call, name, given)
        try:
            answer = self._messages.begin_send(checked.entry)
        except Invalid:
            return None

        def finish(results: Sequence[Stored | PenstockError]) -> Sent | Awaitable[Sent]:
            stored = results[0]
            if isinstance(stored, Invalid):
                return self._refuse(stored, call, name)
            if isinstance(stored, PenstockError):
                raise stored
            return _sent(checked, stored)

        return answer, finish

    async def send(self, call: Call, given: SendMessage) -> Sent:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.SEND, name)
        checked = check_message(call, name, given)
        try:
            return _sent(checked, await self._messages.send(checked.entry))
        except Invalid as error:
            return await self._refuse(error, call, name)

    async def _refuse(self, error: PenstockError, call: Call, name: str) -> Sent:
        raise await self._refusal(error, call, name) from None

    async def send_batch(self, call: Call, given: SendMessageBatch) -> SentBatch:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.SEND, name)
        entries = check_entries(call, given.entries, _ENTRY)
        queue = await self._known.get(call.tenant, name)
        if queue.fifo:
            _check_fifo(entries, queue)
        _check_total(entries)
        checked = [_checked(call, name, entry, position) for position, entry in enumerate(entries, 1)]
        good = [item.entry for item in checked if isinstance(item, Checked)]
        stored = iter(await self._messages.send_batch(good) if good else ())
        answers = []
        for entry, item in zip(entries, checked, strict=True):
            if isinstance(item, Checked):
                answers.append(await self._answer(call, entry, item, next(stored)))
            else:
                answers.append(failed_entry(entry, item))
        return SentBatch(
            successful=[answer for answer in answers if isinstance(answer, SentEntry)] or None,
            failed=[answer for answer in answers if isinstance(answer, FailedEntry)] or None,
        )

    async def _answer(
        self, call: Call, entry: SendEntry, checked: Checked, stored: Stored | PenstockError
    ) -> SentEntry | FailedEntry:
        if isinstance(stored, QueueNotFound):
            raise stored
        if isinstance(stored, PenstockError):
            return failed_entry(entry, await self._refusal(stored, call, checked.entry.queue))
        assert entry.id is not None
        return SentEntry(
            id=entry.id,
            md5_of_message_body=body_md5(checked.entry.body),
            md5_of_message_attributes=checked.attributes_md5,
            md5_of_message_system_attributes=checked.system_md5,
            message_id=uuid_of(stored.id),
            sequence_number=_sequence_number(checked, stored),
        )

    async def _refusal(self, error: PenstockError, call: Call, name: str) -> AwsError:
        """What the store has refused, in AWS's words."""
        if isinstance(error, TooLarge):
            most = (await self._known.get(call.tenant, name)).settings.max_message_bytes
            return invalid(f"One or more parameters are invalid. Reason: Message must be shorter than {most} bytes.")
        if error.field == "dedup_id":
            return invalid(NO_DEDUP_ID)
        return to_aws_error(error)


def _sent(checked: Checked, stored: Stored) -> Sent:
    return Sent(
        md5_of_message_body=body_md5(checked.entry.body),
        md5_of_message_attributes=checked.attributes_md5,
        md5_of_message_system_attributes=checked.system_md5,
        message_id=uuid_of(stored.id),
        sequence_number=_sequence_number(checked, stored),
    )


def _checked(call: Call, name: str, entry: SendEntry, position: int) -> Checked | AwsError:
    try:
        return check_message(call, name, entry, f"{_ENTRY}.{position}.MessageBody")
    except AwsError as error:
        return error


def _sequence_number(checked: Checked, stored: Stored) -> str | None:
    return sequence_number(stored.id) if checked.entry.queue.endswith(".fifo") else None


def _check_fifo(entries: Sequence[SendEntry], queue: Queue) -> None:
    """What a FIFO queue needs of every entry: without it nothing of the batch is sent."""
    for entry in entries:
        if not entry.message_deduplication_id and not queue.settings.content_dedup:
            raise invalid(NO_DEDUP_ID)
        if not entry.message_group_id:
            raise invalid("The request must contain the parameter MessageGroupId.")


def _check_total(entries: Sequence[SendEntry]) -> None:
    total = sum(map(size_of, entries))
    if total > BATCH_BYTES:
        text = f"Batch requests cannot be longer than {BATCH_BYTES} bytes. You have sent {total} bytes."
        raise sqs_error("BatchRequestTooLong", text)
