"""Receiving: release what has come due, put aside what was received too often, claim what is next."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock import limits
from penstock.errors import PenstockError
from penstock.limits import DEFAULT_PRIORITY
from penstock.model import Message, Receive, Received, TenantId
from penstock.model.queues import message_bytes
from penstock.store.rare_warnings import warn
from penstock.store.sqlite.moments import SECOND, maybe_moment, moment
from penstock.store.sqlite.queues.messages import each, remove
from penstock.store.sqlite.queues.moves import carry
from penstock.store.sqlite.session import BLOCKED, READY, QueueRow, Session

RELEASE_STEP = 1000
"""Due messages one receive releases at a time: a million delayed to one moment must not stop the others."""

SHUFFLE_WINDOW = 1000
"""A shuffled receive draws from this many of the next messages."""


@dataclass(slots=True)
class Policy:
    """What becomes of a message that was received `max_receives` times."""

    max_receives: int
    destination: QueueRow | None
    """None deletes it."""
    by_request: bool = False


def receive_many(session: Session, requests: Sequence[Receive], now: int) -> list[Received | PenstockError]:
    return each(requests, lambda request: _receive(session, request, now))


def _receive(session: Session, request: Receive, now: int) -> Received:
    queue = session.queue(request.tenant, request.queue)
    policy = _policy(session, queue, request)
    rows = _pick(session, queue, request, policy, now)
    if not rows:
        return Received([], maybe_moment(session.value("next_due", bin_id=queue.bin_id)))
    timeout_s = queue.visibility_timeout_s if request.visibility_timeout_s is None else request.visibility_timeout_s
    return Received(_claim(session, queue, rows, now, now + timeout_s * SECOND))


def peek(session: Session, tenant: TenantId, name: str, limit: int, now: int, shuffle: bool) -> list[Message]:
    """What a receive would hand out. `release` comes first, in a transaction of its own that may write."""
    queue = session.queue(tenant, name)
    messages: list[Message] = []
    size = 0
    for row in _peeked(session, queue, limit, now, shuffle):
        messages.append(_message(row, moment(row["visible_at"])))
        size += _bytes(row)
        if len(messages) >= limit or size >= limits.ANSWER_BYTES:
            break
    return messages


def _peeked(session: Session, queue: QueueRow, limit: int, now: int, shuffle: bool) -> Iterator[sqlite3.Row]:
    if not queue.fifo and shuffle:
        yield from _ready(session, queue, limit, shuffle, now)
    elif not queue.fifo:
        yield from session.each("ready_messages", bin_id=queue.bin_id, limit=limit, now=now)
    else:
        for group_id in _ready_groups(session, queue, limit, shuffle):
            members = session.each("group_messages", bin_id=queue.bin_id, group_id=group_id, limit=limit)
            yield from (row for row in members if row["expires_at"] > now)


def release(session: Session, queue: QueueRow, now: int) -> bool:
    """Bring due messages back into view, up to a step of them; True when more may be due."""
    if queue.bin_id in session.released:
        return False
    state = BLOCKED if queue.fifo else READY
    released = session.all("release_due", bin_id=queue.bin_id, state=state, now=now, limit=RELEASE_STEP)
    if queue.fifo:
        for row in released:
            session.touch(queue.bin_id, row["group_id"])
        session.settle()
    if len(released) == RELEASE_STEP:
        return True
    session.released.add(queue.bin_id)
    return False


def _policy(session: Session, queue: QueueRow, request: Receive) -> Policy | None:
    """The request's, else the queue's. A queue whose dead-letter queue is gone has none: nothing is lost."""
    named = request.dead_letter_queue
    destination = None if named is None else session.queue(request.tenant, named)
    if request.max_receives is not None:
        return Policy(request.max_receives, destination, by_request=True)
    if queue.max_receives is None or queue.dead_letter_queue_id in (None, queue.id):
        return None
    destination = session.queue_by_id(queue.dead_letter_queue_id or 0)
    return None if destination is None else Policy(queue.max_receives, destination)


def _pick(session: Session, queue: QueueRow, request: Receive, policy: Policy | None, now: int) -> list[sqlite3.Row]:
    """The next messages that may be claimed, once those that may not are out of the way."""
    pick = _pick_fifo if queue.fifo else _pick_standard
    more = True
    rows: list[sqlite3.Row] = []
    while more and len(rows) < request.limit and sum(map(_bytes, rows)) < limits.ANSWER_BYTES:
        more = release(session, queue, now)
        rows = pick(session, queue, request, policy, now)
    return rows


def _pick_standard(
    session: Session, queue: QueueRow, request: Receive, policy: Policy | None, now: int
) -> list[sqlite3.Row]:
    while True:
        rows = _ready(session, queue, request.limit, request.shuffle, now)
        if not _put_aside(session, queue, rows, policy, now):
            return rows


def _ready(session: Session, queue: QueueRow, limit: int, shuffle: bool, now: int) -> list[sqlite3.Row]:
    if shuffle:
        window = max(limit, SHUFFLE_WINDOW)
        found = session.each("ready_messages_shuffled", bin_id=queue.bin_id, limit=limit, window=window, now=now)
    else:
        found = session.each("ready_messages", bin_id=queue.bin_id, limit=limit, now=now)
    return _within(found, limits.ANSWER_BYTES)


def _within(found: Iterator[sqlite3.Row], room: int) -> list[sqlite3.Row]:
    """The rows up to the one that uses the room up. More rows are not read."""
    rows: list[sqlite3.Row] = []
    for row in found:
        rows.append(row)
        room -= _bytes(row)
        if room <= 0:
            break
    return rows


def _bytes(row: sqlite3.Row) -> int:
    return message_bytes(row["body"], row["attributes"], row["headers"])


def _pick_fifo(
    session: Session, queue: QueueRow, request: Receive, policy: Policy | None, now: int
) -> list[sqlite3.Row]:
    rows: list[sqlite3.Row] = []
    room = limits.ANSWER_BYTES
    for group_id in _ready_groups(session, queue, request.limit, request.shuffle):
        picked = _pick_group(session, queue, group_id, request.limit - len(rows), room, policy, now)
        rows += picked
        room -= sum(map(_bytes, picked))
        if len(rows) >= request.limit or room <= 0:
            break
    return rows


def _ready_groups(session: Session, queue: QueueRow, step: int, shuffle: bool) -> Iterator[str]:
    """Groups that may hand something out, by their oldest message; shuffled, those within the window."""
    after = 0
    step = SHUFFLE_WINDOW if shuffle else step
    while True:
        heads = session.all("ready_groups", bin_id=queue.bin_id, priority=DEFAULT_PRIORITY, after=after, limit=step)
        groups = [row["group_id"] for row in heads]
        if shuffle:
            random.shuffle(groups)
        yield from groups
        if len(heads) < step:
            return
        after = heads[-1]["rank"]


def _pick_group(
    session: Session, queue: QueueRow, group_id: str, limit: int, room: int, policy: Policy | None, now: int
) -> list[sqlite3.Row]:
    while True:
        found = session.each("group_messages", bin_id=queue.bin_id, group_id=group_id, limit=limit)
        rows = _within(found, room)
        if not _put_aside(session, queue, rows, policy, now):
            return rows


def _put_aside(session: Session, queue: QueueRow, rows: list[sqlite3.Row], policy: Policy | None, now: int) -> bool:
    """Clear the way of messages that must not be received; whether there were any."""
    found = False
    for row in rows:
        if row["expires_at"] <= now:
            remove(session, queue, row)
            found = True
        elif policy is not None and row["receives"] - row["receives_before"] >= policy.max_receives:
            _bury(session, queue, row, policy, now)
            found = True
    return found


def _bury(session: Session, queue: QueueRow, row: sqlite3.Row, policy: Policy, now: int) -> None:
    grave = policy.destination
    full = grave is not None and grave.max_length is not None and grave.total >= grave.max_length
    if grave is None or (policy.by_request and full):
        if grave is not None:
            text = "Dead-letter queue '%s' is full: messages of queue '%s' that were received too often are deleted"
            warn(text % (grave.name, queue.name))
        remove(session, queue, row)
    else:
        carry(session, row, queue, grave, now, reset=policy.by_request, source_id=queue.id)


def _claim(session: Session, queue: QueueRow, rows: list[sqlite3.Row], now: int, visible_at: int) -> list[Message]:
    messages = []
    if queue.fifo:
        _line_up(session, rows)
    if visible_at <= now:
        session.released.discard(queue.bin_id)
    session.run_many("claim_message", [{"id": row["id"], "now": now, "visible_at": visible_at} for row in rows])
    hidden_until, received_at = moment(visible_at), moment(now)
    for row in rows:
        if queue.fifo:
            session.touch(queue.bin_id, row["group_id"])
        message = _message(row, hidden_until)
        message.lease = row["lease"] + 1
        message.receives += 1
        message.first_received_at = message.first_received_at or received_at
        messages.append(message)
    # Later requests of the same call must find the groups as this one leaves them.
    session.settle()
    return messages


def _line_up(session: Session, rows: list[sqlite3.Row]) -> None:
    """What is received goes to the end of the line: should it come back, it is the turn of the other groups first."""
    last: int = session.value("next_message_ids", count=len(rows))
    for rank, row in enumerate(rows, last - len(rows) + 1):
        session.run("line_up", id=row["id"], rank=rank)


def _message(row: sqlite3.Row, visible_at: datetime) -> Message:
    return Message(
        row["id"], 0, row["body"], bool(row["json"]), row["priority"], row["receives"], moment(row["sent_at"]),
        maybe_moment(row["first_received_at"]), visible_at, row["group_id"], row["dedup_id"], row["attributes"],
        row["headers"], row["trace"], row["source"], row["sequence"],
    )  # fmt: skip
