"""DeleteMessage and ChangeMessageVisibility, alone and in batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from penstock.engine.queues import receipts
from penstock.engine.queues.messages import Messages
from penstock.errors import InvalidReceipt, PenstockError, QueueNotFound
from penstock.model import Handle, Outcome, Scope
from penstock.wire.aws.errors import AwsError, invalid_value, missing
from penstock.wire.aws.gateway import Begun, Call
from penstock.wire.sqs.batches import Entry, check_entries, failed_entry
from penstock.wire.sqs.errors import sqs_error, to_aws_error
from penstock.wire.sqs.names import queue_name
from penstock.wire.sqs.queue_cache import QueueCache
from penstock.wire.sqs.types import (
    ChangedBatch,
    ChangeEntry,
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    DeletedBatch,
    DeleteEntry,
    DeleteMessage,
    DeleteMessageBatch,
    DoneEntry,
    FailedEntry,
)

VISIBILITY_TIMEOUT_S = (0, 43_200)

Item = TypeVar("Item")


class Finishing:
    def __init__(self, messages: Messages, known: QueueCache) -> None:
        self._messages = messages
        self._known = known

    def begin_delete(self, call: Call, given: DeleteMessage) -> Begun | None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.RECEIVE, name)
        receipt = given.receipt_handle
        try:
            handle = _handle_of(call, name, receipt) if receipt else None
        except InvalidReceipt:
            handle = None
        if handle is None:
            return None

        def finish(results: Sequence[Outcome | PenstockError]) -> None:
            outcome = results[0]
            if isinstance(outcome, PenstockError):
                raise outcome
            error = _not_deleted(outcome, receipt)
            if error is not None:
                raise error

        return self._messages.begin_delete(handle), finish

    async def delete(self, call: Call, given: DeleteMessage) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.RECEIVE, name)
        handle = await self._handle(call, name, given.receipt_handle)
        error = _not_deleted(await self._messages.delete(handle), given.receipt_handle)
        if error is not None:
            raise error

    async def delete_batch(self, call: Call, given: DeleteMessageBatch) -> DeletedBatch:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.RECEIVE, name)
        entries = check_entries(call, given.entries, "DeleteMessageBatchRequestEntry")
        handles: list[Handle | AwsError] = []
        for position, entry in enumerate(entries, 1):
            handles.append(await self._try_handle(call, name, entry, f"DeleteMessageBatchRequestEntry.{position}"))
        good = [handle for handle in handles if isinstance(handle, Handle)]
        outcomes = iter(await self._messages.delete_batch(good) if good else ())
        errors = [
            _not_deleted(_good(next(outcomes)), entry.receipt_handle) if isinstance(handle, Handle) else handle
            for entry, handle in zip(entries, handles, strict=True)
        ]
        successful, failed = _sorted(entries, errors)
        return DeletedBatch(successful=successful, failed=failed)

    async def change(self, call: Call, given: ChangeMessageVisibility) -> None:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.RECEIVE, name)
        if given.receipt_handle and given.visibility_timeout is None:
            raise missing("VisibilityTimeout")
        handle = await self._handle(call, name, given.receipt_handle)
        timeout_s = _timeout(given.visibility_timeout, "VisibilityTimeout")
        outcome, _ = await self._messages.change_visibility(handle, timeout_s)
        error = _not_changed(outcome, given.receipt_handle)
        if error is not None:
            raise error

    async def change_batch(self, call: Call, given: ChangeMessageVisibilityBatch) -> ChangedBatch:
        name = queue_name(call, given.queue_url)
        call.principal.require(Scope.RECEIVE, name)
        entries = check_entries(call, given.entries, "ChangeMessageVisibilityBatchRequestEntry")
        changes: list[tuple[Handle, int] | AwsError] = []
        for position, entry in enumerate(entries, 1):
            changes.append(await self._try_change(call, name, entry, position))
        good = [change for change in changes if not isinstance(change, AwsError)]
        outcomes = iter(await self._messages.change_visibility_batch(good) if good else ())
        errors = [
            change if isinstance(change, AwsError) else _not_changed(_good(next(outcomes))[0], entry.receipt_handle)
            for entry, change in zip(entries, changes, strict=True)
        ]
        successful, failed = _sorted(entries, errors)
        return ChangedBatch(successful=successful, failed=failed)

    async def _try_change(
        self, call: Call, name: str, entry: ChangeEntry, position: int
    ) -> tuple[Handle, int] | AwsError:
        where = f"ChangeMessageVisibilityBatchRequestEntry.{position}"
        handle = await self._try_handle(call, name, entry, where)
        if isinstance(handle, AwsError):
            return handle
        try:
            return handle, _timeout(entry.visibility_timeout, f"{where}.VisibilityTimeout")
        except AwsError as error:
            return error

    async def _try_handle(
        self, call: Call, name: str, entry: DeleteEntry | ChangeEntry, where: str
    ) -> Handle | AwsError:
        try:
            return await self._handle(call, name, entry.receipt_handle, f"{where}.ReceiptHandle")
        except AwsError as error:
            return error

    async def _handle(self, call: Call, name: str, receipt: str | None, where: str = "ReceiptHandle") -> Handle:
        if not receipt:
            raise missing(where)
        try:
            return _handle_of(call, name, receipt)
        except InvalidReceipt:
            # Without its queue no handle is looked at; that one is missing is the first thing to say.
            await self._known.get(call.tenant, name)
            text = f'The input receipt handle "{receipt}" is not a valid receipt handle.'
            raise sqs_error("ReceiptHandleIsInvalid", text) from None


def _handle_of(call: Call, name: str, receipt: str) -> Handle:
    message_id, lease = receipts.decode(name, receipt)
    # On a standard queue of AWS every receipt of a message works, even while a later receive holds the message.
    return Handle(tenant=call.tenant, queue=name, id=message_id, lease=lease if name.endswith(".fifo") else None)


def _good(outcome: Item | PenstockError) -> Item:
    if isinstance(outcome, QueueNotFound):
        raise outcome
    if isinstance(outcome, PenstockError):
        raise to_aws_error(outcome)
    return outcome


def _sorted(
    entries: Sequence[Entry], errors: Sequence[AwsError | None]
) -> tuple[list[DoneEntry] | None, list[FailedEntry] | None]:
    pairs = list(zip(entries, errors, strict=True))
    done = [DoneEntry(id=entry.id or "") for entry, error in pairs if error is None]
    failed = [failed_entry(entry, error) for entry, error in pairs if error is not None]
    return done or None, failed or None


def _not_deleted(outcome: Outcome, receipt: str | None) -> AwsError | None:
    """Only FIFO queues answer that a receipt is late."""
    if outcome in (Outcome.EXPIRED, Outcome.STALE):
        return invalid_value(receipt, "ReceiptHandle", "The receipt handle has expired.")
    return None


def _not_changed(outcome: Outcome, receipt: str | None) -> AwsError | None:
    if outcome is Outcome.DONE:
        return None
    reason = "Message does not exist or is not available for visibility timeout change."
    return invalid_value(receipt, "ReceiptHandle", reason)


def _timeout(value: int | None, where: str) -> int:
    if value is None:
        raise missing(where)
    if value < VISIBILITY_TIMEOUT_S[0]:
        raise invalid_value(value, "VisibilityTimeout", "VisibilityTimeout must be an integer between 0 and 43200")
    if value > VISIBILITY_TIMEOUT_S[1]:
        reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"
        raise invalid_value(value, "VisibilityTimeout", reason)
    return value
