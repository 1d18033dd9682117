"""Messages that change queues: one by one as dead letters, in numbers by a move task."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import Conflict, MoveInProgress, PenstockError, TaskNotFound
from penstock.limits import DEFAULT_PRIORITY
from penstock.model import MoveState, MoveTask, TenantId
from penstock.store.sqlite.moments import SECOND, moment
from penstock.store.sqlite.queues.messages import rank
from penstock.store.sqlite.session import BLOCKED, READY, QueueRow, Session

STEP = 1000
"""Messages one task moves in one step at most."""


def carry(
    session: Session,
    row: sqlite3.Row,
    source: QueueRow,
    destination: QueueRow,
    now: int,
    *,
    reset: bool,
    source_id: int | None,
) -> None:
    """Put a message into another queue, ready there. It keeps its id, its place by age and its expiry."""
    group_id = row["group_id"] if row["group_id"] is not None or not destination.fifo else ""
    session.run(
        "move_message",
        id=row["id"],
        bin_id=destination.bin_id,
        state=BLOCKED if destination.fifo else READY,
        priority=DEFAULT_PRIORITY if destination.fifo else row["priority"],
        rank=rank(destination, row["id"]),
        now=now,
        reset=reset,
        source_id=source_id,
        group_id=group_id,
    )
    session.count(source.bin_id, total=-1)
    session.count(destination.bin_id, total=1)
    if source.fifo:
        session.touch(source.bin_id, row["group_id"])
    if destination.fifo:
        session.touch(destination.bin_id, group_id)


def start_move(
    session: Session, tenant: TenantId, source: str, destination: str | None, rate: int | None, now: int
) -> MoveTask:
    queue = session.queue(tenant, source)
    target = None if destination is None else session.queue(tenant, destination)
    if session.first("running_move", source_id=queue.id) is not None:
        raise MoveInProgress(f"A move task is already running for queue '{source}'")
    task_id = session.value(
        "insert_move",
        tenant=tenant,
        source_id=queue.id,
        destination_id=None if target is None else target.id,
        destination=destination,
        rate=rate,
        to_move=queue.total,
        now=now,
    )
    return _task(_get(session, tenant, task_id))


def cancel_move(session: Session, tenant: TenantId, task_id: int) -> MoveTask:
    row = _get(session, tenant, task_id)
    if row["state"] != MoveState.RUNNING:
        raise Conflict(f"Move task {task_id} is {row['state']}, not running")
    _step(session, row, MoveState.CANCELLED, moved=0, failure=None, stepped_at=row["stepped_at"])
    return _task(_get(session, tenant, task_id))


def list_moves(session: Session, tenant: TenantId, source: str, limit: int) -> list[MoveTask]:
    queue = session.queue(tenant, source)
    return [_task(row) for row in session.all("list_moves", source_id=queue.id, limit=limit)]


def run_moves(session: Session, now: int) -> tuple[int, list[tuple[TenantId, str]]]:
    moved = 0
    receivers: dict[tuple[TenantId, str], None] = {}
    for task in session.all("running_moves"):
        moved += _run(session, task, now, receivers)
    return moved, list(receivers)


def move_by_ids(
    session: Session, tenant: TenantId, source: str, ids: Sequence[int], destination: str | None, now: int
) -> tuple[int, list[tuple[TenantId, str]]]:
    queue = session.queue(tenant, source)
    target = None if destination is None else session.queue(tenant, destination)
    task = {"destination_id": None if target is None else target.id, "destination": destination}
    receivers: dict[tuple[TenantId, str], None] = {}
    moved = 0
    for message_id in sorted(set(ids)):
        row = session.first("movable_message", id=message_id, bin_id=queue.bin_id, now=now)
        if row is None:
            continue
        found = _destination(session, task, row)
        carry(session, row, queue, found, now, reset=True, source_id=None)
        receivers[found.tenant, found.name] = None
        moved += 1
    return moved, list(receivers)


def _run(session: Session, task: sqlite3.Row, now: int, receivers: dict[tuple[TenantId, str], None]) -> int:
    allowance, stepped_at = _allowance(task, now)
    if allowance <= 0:
        return 0
    source = session.queue(TenantId(task["tenant_id"]), task["source"])
    rows = session.all("movable_messages", bin_id=source.bin_id, now=now, limit=allowance + 1)
    state = MoveState.RUNNING if len(rows) > allowance else MoveState.COMPLETED
    moved, failure = 0, None
    try:
        for row in rows[:allowance]:
            destination = _destination(session, task, row)
            carry(session, row, source, destination, now, reset=True, source_id=None)
            receivers[destination.tenant, destination.name] = None
            moved += 1
    except PenstockError as error:
        state, failure = MoveState.FAILED, error.message
    _step(session, task, state, moved=moved, failure=failure, stepped_at=stepped_at)
    return moved


def _allowance(task: sqlite3.Row, now: int) -> tuple[int, int]:
    """How many messages the task may move now, and up to which moment that uses up its rate."""
    rate = task["rate"]
    if rate is None:
        return STEP, now
    earned = (now - task["stepped_at"]) * rate // SECOND
    if earned > STEP:
        return STEP, now
    # The fraction of a message that is left over counts for the next step.
    return earned, task["stepped_at"] + earned * SECOND // rate


def _destination(session: Session, task: sqlite3.Row | Mapping[str, Any], row: sqlite3.Row) -> QueueRow:
    if task["destination_id"] is not None:
        queue_id = task["destination_id"]
        gone = f"Queue '{task['destination']}' does not exist any more"
    else:
        queue_id = row["source_id"]
        gone = f"The queue message {row['id']} came from does not exist any more"
    if queue_id is None:
        raise Conflict(f"Message {row['id']} did not come from another queue")
    queue = session.queue_by_id(queue_id)
    if queue is None:
        raise Conflict(gone)
    return queue


def _step(
    session: Session, task: sqlite3.Row, state: MoveState, *, moved: int, failure: str | None, stepped_at: int
) -> None:
    session.run("step_move", id=task["id"], state=state, moved=moved, failure=failure, stepped_at=stepped_at)


def _get(session: Session, tenant: TenantId, task_id: int) -> sqlite3.Row:
    row = session.first("get_move", id=task_id, tenant=tenant)
    if row is None:
        raise TaskNotFound(f"Move task {task_id} does not exist")
    return row


def _task(row: sqlite3.Row) -> MoveTask:
    return MoveTask(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        source=row["source"],
        destination=row["destination"],
        rate=row["rate"],
        state=MoveState(row["state"]),
        moved=row["moved"],
        to_move=row["to_move"],
        failure=row["failure"],
        started_at=moment(row["started_at"]),
    )
