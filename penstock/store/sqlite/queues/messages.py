"""Messages in and out of a queue: sent, deleted, archived, hidden for longer or released."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from penstock.errors import Invalid, PenstockError, QueueFull, TooLarge
from penstock.limits import DEFAULT_PRIORITY
from penstock.model import DedupScope, Handle, Outcome, Send, Sent
from penstock.store.sqlite.moments import SECOND, moment
from penstock.store.sqlite.session import BLOCKED, DELAYED, IN_FLIGHT, READY, QueueRow, Session

Entry = TypeVar("Entry")
Answer = TypeVar("Answer")

_LARGEST_ID = 2**63 - 1


def each(entries: Iterable[Entry], handle: Callable[[Entry], Answer]) -> list[Answer | PenstockError]:
    """The answer to each entry, or its error in its place. `handle` writes nothing before its last check."""
    answers: list[Answer | PenstockError] = []
    for entry in entries:
        try:
            answers.append(handle(entry))
        except PenstockError as error:
            answers.append(error)
        except UnicodeEncodeError:
            answers.append(Invalid("Text with a lone surrogate cannot be stored", field="message"))
    return answers


def send_many(session: Session, entries: Sequence[Send], now: int) -> list[Sent | PenstockError]:
    # Numbers of entries that fail stay unused: ids rise, they need not be without gaps.
    last: int = session.value("next_message_ids", count=len(entries))
    ids = iter(range(last - len(entries) + 1, last + 1))
    return each(entries, lambda entry: _send(session, entry, ids, now))


def _send(session: Session, entry: Send, ids: Iterator[int], now: int) -> Sent:
    message_id = next(ids)
    queue = session.queue(entry.tenant, entry.queue)
    _check_size(queue, entry)
    if queue.fifo and entry.group_id is None:
        raise Invalid("A FIFO queue needs a group id", field="group_id")
    dedup_id = _dedup_id(queue, entry)
    scope = (entry.group_id or "") if queue.dedup_scope == DedupScope.GROUP else ""
    if dedup_id is not None:
        first = session.value("find_dedup", bin_id=queue.bin_id, scope=scope, dedup_id=dedup_id, now=now)
        if first is not None:
            return Sent(first, duplicate=True)
    if queue.max_length is not None and queue.total >= queue.max_length:
        raise QueueFull(f"Queue '{queue.name}' has reached its maximum length of {queue.max_length}")
    sequence = session.next_sequence(queue)
    _insert(session, queue, entry, message_id, dedup_id, sequence, now)
    if dedup_id is not None:
        window = queue.dedup_window_s if entry.dedup_window_s is None else entry.dedup_window_s
        ends = now + window * SECOND
        session.run("insert_dedup", bin_id=queue.bin_id, scope=scope, dedup_id=dedup_id, id=message_id, expires_at=ends)
    return Sent(message_id, sequence=sequence)


def _check_size(queue: QueueRow, entry: Send) -> None:
    size = len(entry.body.encode()) if entry.size is None else entry.size
    if size > queue.max_message_bytes:
        raise TooLarge(f"The message has {size} bytes; the queue allows {queue.max_message_bytes}", field="message")


def _dedup_id(queue: QueueRow, entry: Send) -> str | None:
    if entry.dedup_id is not None or not queue.fifo:
        return entry.dedup_id
    if queue.content_dedup:
        return hashlib.sha256(entry.body.encode()).hexdigest()
    raise Invalid("A FIFO queue without content-based deduplication needs a deduplication id", field="dedup_id")


def _insert(
    session: Session,
    queue: QueueRow,
    entry: Send,
    message_id: int,
    dedup_id: str | None,
    sequence: int | None,
    now: int,
) -> None:
    delay_s = queue.delay_s if entry.delay_s is None else entry.delay_s
    retention_s = queue.retention_s if entry.retention_s is None else entry.retention_s
    session.run(
        "insert_message",
        id=message_id,
        bin_id=queue.bin_id,
        state=_first_state(session, queue, entry, delay_s),
        priority=DEFAULT_PRIORITY if queue.fifo or entry.priority is None else entry.priority,
        rank=rank(queue, message_id),
        visible_at=now + delay_s * SECOND,
        expires_at=now + retention_s * SECOND,
        now=now,
        json=entry.json,
        group_id=entry.group_id,
        dedup_id=dedup_id,
        trace=entry.trace,
        attributes=entry.attributes,
        headers=entry.headers,
        body=entry.body,
        sequence=sequence,
    )
    session.count(queue.bin_id, total=1, sent=1)


def _first_state(session: Session, queue: QueueRow, entry: Send, delay_s: int) -> int:
    if delay_s > 0:
        return DELAYED
    # The newest message of a group is its head only when it is alone.
    if queue.fifo and not session.value("group_is_empty", bin_id=queue.bin_id, group_id=entry.group_id):
        return BLOCKED
    return READY


def rank(queue: QueueRow, message_id: int) -> int:
    """The place of a message among those of its priority."""
    return -message_id if queue.lifo and not queue.fifo else message_id


def delete_many(
    session: Session, handles: Sequence[Handle], now: int, *, archive: bool = False
) -> list[Outcome | PenstockError]:
    return each(handles, lambda handle: _delete(session, handle, now, archive))


def _delete(session: Session, handle: Handle, now: int, archive: bool) -> Outcome:
    queue = session.queue(handle.tenant, handle.queue)
    if not (archive or queue.archive or queue.fifo) and _delete_unseen(session, queue, handle):
        return Outcome.DONE
    row = _locate(session, queue, handle)
    if row is None:
        return Outcome.ABSENT
    if refusal := _refusal(queue, row, handle, now):
        return refusal
    if archive or queue.archive:
        session.run("archive_message", id=handle.id, tenant=queue.tenant, queue=queue.name, now=now)
    remove(session, queue, row)
    return Outcome.DONE


def _delete_unseen(session: Session, queue: QueueRow, handle: Handle) -> bool:
    """Delete a message of which nothing must be known first but its lease; False: take a closer look."""
    if not 0 < handle.id <= _LARGEST_ID:
        return False
    if not session.run("delete_from_bin", id=handle.id, bin_id=queue.bin_id, lease=handle.lease).rowcount:
        return False
    session.count(queue.bin_id, total=-1)
    return True


def remove(session: Session, queue: QueueRow, row: sqlite3.Row) -> None:
    session.run("delete_message", id=row["id"])
    session.count(queue.bin_id, total=-1)
    if queue.fifo:
        session.touch(queue.bin_id, row["group_id"])


def change_visibility_many(
    session: Session, changes: Sequence[tuple[Handle, int]], now: int
) -> list[tuple[Outcome, datetime | None] | PenstockError]:
    return each(changes, lambda change: _change_visibility(session, change[0], change[1], now))


def _change_visibility(session: Session, handle: Handle, seconds: int, now: int) -> tuple[Outcome, datetime | None]:
    queue = session.queue(handle.tenant, handle.queue)
    row = _locate(session, queue, handle)
    # What was never received cannot be hidden, or released early.
    if row is None or row["receives"] == 0:
        return Outcome.ABSENT, None
    if refusal := _refusal(queue, row, handle, now):
        return refusal, None
    visible_at = now + max(seconds, 0) * SECOND
    free = BLOCKED if queue.fifo else READY
    session.run("hide_message", id=handle.id, state=IN_FLIGHT if seconds > 0 else free, visible_at=visible_at)
    if queue.fifo:
        session.touch(queue.bin_id, row["group_id"])
    return Outcome.DONE, moment(visible_at)


def _refusal(queue: QueueRow, row: sqlite3.Row, handle: Handle, now: int) -> Outcome | None:
    """Why the handle may not change the message, if so. Without a lease it always may."""
    if handle.lease is None:
        return None
    if handle.lease != row["lease"]:
        return Outcome.STALE
    # The group may be in other hands by now, and only one batch of it in flight.
    if queue.fifo and row["visible_at"] <= now:
        return Outcome.EXPIRED
    return None


def _locate(session: Session, queue: QueueRow, handle: Handle) -> sqlite3.Row | None:
    if not 0 < handle.id <= _LARGEST_ID:
        return None
    return session.first("locate_message", id=handle.id, bin_id=queue.bin_id)
