"""The rules of jobs on SQLite, one function for each verb; `now` is in microseconds."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import uuid4

from penstock import limits
from penstock.model.jobs import (
    DEFAULT_BACKOFF,
    Backoff,
    Completion,
    Enqueued,
    Failed,
    Failure,
    Heartbeat,
    JobHandle,
    JobIds,
    JobOutcome,
    Leased,
    LeasedJob,
    LeaseRequest,
    NewJob,
)
from penstock.model.queues import utf8_bytes
from penstock.model.tenants import TenantId
from penstock.store.sqlite.moments import SECOND, maybe_micros, maybe_moment, moment
from penstock.store.sqlite.session import Session

READY, PROCESSING, DELAYED, DEAD, COMPLETED, CANCELLED = range(6)
RELEASED_AT_ONCE = 1000


def ids_of(session: Session) -> JobIds:
    return JobIds(session.value("job_salt"))


def find_queue(session: Session, tenant: TenantId, name: str) -> sqlite3.Row | None:
    return session.first("find_job_queue", tenant=tenant, name=name)


def make_queue(session: Session, tenant: TenantId, name: str, now: int) -> int:
    session.run("insert_job_queue", tenant=tenant, name=name, now=now)
    row = find_queue(session, tenant, name)
    assert row is not None
    return int(row["id"])


def enqueue_many(session: Session, entries: Sequence[NewJob], now: int) -> list[Enqueued]:
    ids = ids_of(session)
    return [_enqueue(session, entry, ids, now) for entry in entries]


def _enqueue(session: Session, entry: NewJob, ids: JobIds, now: int) -> Enqueued:
    queue = make_queue(session, entry.tenant, entry.queue, now)
    if entry.unique_key is not None:
        known = session.value("find_job_key", queue=queue, key=entry.unique_key, now=now)
        if known is not None:
            return Enqueued(ids.encode(queue, known), existing=True)
    number = session.value("next_job_number")
    if entry.unique_key is not None:
        ends = now + (3600 if entry.unique_s is None else entry.unique_s) * SECOND
        session.run("put_job_key", queue=queue, key=entry.unique_key, id=number, expires_at=ends)
    run_at = maybe_micros(entry.run_at)
    session.run(
        "insert_job",
        id=number,
        queue=queue,
        tenant=entry.tenant,
        state=DELAYED if run_at is not None and run_at > now else READY,
        priority=entry.priority,
        run_at=now if run_at is None else run_at,
        now=now,
        max_retries=entry.max_retries,
        backoff=json.dumps(asdict(entry.backoff)) if entry.backoff is not None else None,
        payload=entry.payload,
    )
    if entry.trace is not None:
        session.run("insert_job_trace", id=number, trace=entry.trace, now=now)
    for tag in entry.tags:
        session.run("insert_job_tag", tenant=entry.tenant, tag=tag, id=number, now=now)
    return Enqueued(ids.encode(queue, number))


def lease_many(session: Session, requests: Sequence[LeaseRequest], now: int) -> list[Leased]:
    ids = ids_of(session)
    return [_lease(session, request, ids, now) for request in requests]


def _lease(session: Session, request: LeaseRequest, ids: JobIds, now: int) -> Leased:
    queue = find_queue(session, request.tenant, request.queue)
    if queue is None:
        return Leased([])
    release_due(session, queue["id"], now, RELEASED_AT_ONCE)
    allowed, left, next_at = _allowed(session, queue, len(request.workers), now)
    found = session.all("ready_jobs", queue=queue["id"], limit=allowed) if allowed > 0 else []
    until = now + request.lease_s * SECOND
    jobs: list[LeasedJob] = []
    room = limits.ANSWER_BYTES
    for worker, row in zip(request.workers, found, strict=False):
        if room <= 0:
            break
        leased = session.first("lease_job", id=row["id"], until=until, token=str(uuid4()), worker=worker, now=now)
        assert leased is not None
        jobs.append(_leased(leased, request.queue, ids))
        room -= utf8_bytes(leased["payload"])
    if left is not None:
        session.run("fill_job_queue", id=queue["id"], left=left - len(jobs), now=now)
    if not jobs and next_at is None:
        next_at = session.value("next_job_at", queue=queue["id"], now=now)
    return Leased(jobs, None if jobs else maybe_moment(next_at))


def _allowed(session: Session, queue: sqlite3.Row, wanted: int, now: int) -> tuple[int, float | None, int | None]:
    """How many jobs may start, the starts left in the bucket, and when it holds one again if it holds none."""
    allowed, left, next_at = wanted, None, None
    if queue["concurrency"] is not None:
        allowed = min(allowed, queue["concurrency"] - session.value("count_running", queue=queue["id"]))
    if queue["rate"] is not None:
        full = queue["burst"] if queue["burst"] is not None else max(math.ceil(queue["rate"]), 1)
        left = float(full)
        if queue["starts_left"] is not None:
            left = min(full, queue["starts_left"] + queue["rate"] * max(now - queue["filled_at"], 0) / SECOND)
        allowed = min(allowed, math.floor(left))
        if left < 1:
            next_at = now + math.ceil((1 - left) / queue["rate"] * SECOND)
    return allowed, left, next_at


def _leased(row: sqlite3.Row, queue: str, ids: JobIds) -> LeasedJob:
    return LeasedJob(
        ids.encode(row["queue_id"], row["id"]),
        queue,
        row["lease_token"],
        moment(row["due_at"]),
        row["payload"],
        row["priority"],
        row["attempts"],
        row["retry_count"],
        row["max_retries"],
        row["lease_lost_count"],
        moment(row["run_at"]),
        moment(row["created_at"]),
        moment(row["started_at"]),
        moment(row["leased_at"]),
        row["worker"],
        row["error"],
    )


def release_due(session: Session, queue: int, now: int, limit: int) -> tuple[int, bool]:
    """Make due jobs ready, and recover those whose lease ran out; how many, and whether any became ready."""
    promoted = session.all("promote_jobs", queue=queue, now=now, limit=limit)
    lost = session.all("lost_jobs", queue=queue, now=now, limit=limit)
    revived = False
    for row in lost:
        state = READY if row["retry_count"] < row["max_retries"] else DEAD
        revived = revived or state == READY
        session.run("lose_job", id=row["id"], state=state, now=now)
        _note_attempt(session, row, "lost", "the lease ran out", now)
    return len(promoted) + len(lost), bool(promoted) or revived


def _note_attempt(session: Session, row: sqlite3.Row, outcome: str, error: str | None, now: int) -> None:
    session.run(
        "insert_attempt",
        id=row["id"],
        attempt=row["attempts"],
        started_at=row["leased_at"],
        now=now,
        worker=row["worker"],
        outcome=outcome,
        error=error,
    )


def _held(session: Session, handle: JobHandle, ids: JobIds) -> sqlite3.Row | JobOutcome:
    """The job under this lease, or why there is none."""
    name = ids.decode(handle.id)
    if name is None:
        return JobOutcome.ABSENT
    values: dict[str, Any] = {"tenant": handle.tenant, "queue": name[0], "id": name[1]}
    row = session.first("find_job", **values)
    if row is None:
        finished = session.first("find_finished_job", **values)
        return JobOutcome.ABSENT if finished is None else JobOutcome.STALE
    if row["state"] != PROCESSING or row["lease_token"] != handle.token.lower():
        return JobOutcome.STALE
    return row


def complete_many(session: Session, entries: Sequence[Completion], now: int) -> tuple[list[JobOutcome], list[int]]:
    """Outcomes, and the numbers of the jobs that are completed."""
    ids = ids_of(session)
    outcomes, done = [], []
    for entry in entries:
        row = _held(session, entry, ids)
        if isinstance(row, JobOutcome):
            outcomes.append(row)
            continue
        finish(session, row["id"], COMPLETED, now, entry.result)
        _note_attempt(session, row, "completed", None, now)
        outcomes.append(JobOutcome.DONE)
        done.append(int(row["id"]))
    return outcomes, done


def finish(session: Session, number: int, state: int, now: int, result: str | None = None) -> None:
    session.run("insert_finished_job", id=number, state=state, now=now, result=result)
    session.run("delete_job", id=number)


def fail_many(session: Session, entries: Sequence[Failure], now: int) -> list[Failed]:
    ids = ids_of(session)
    return [_fail(session, entry, ids, now) for entry in entries]


def _fail(session: Session, entry: Failure, ids: JobIds, now: int) -> Failed:
    row = _held(session, entry, ids)
    if isinstance(row, JobOutcome):
        return Failed(row)
    run_at, state, reason = None, DEAD, None
    if entry.retry and (row["retry_count"] < row["max_retries"] or not entry.counts):
        delay_s = entry.retry_after_s
        if delay_s is None:
            delay_s = _backoff(row).delay_s(row["retry_count"], entry.spread)
        run_at = now + int(delay_s * SECOND)
        state = DELAYED if run_at > now else READY
    else:
        reason = "it failed, and " + ("no retry is left" if entry.retry else "the worker asked for no retry")
    spent = int(entry.counts and state != DEAD)
    session.run(
        "fail_job", id=row["id"], state=state, error=entry.error, run_at=run_at, now=now, reason=reason, spent=spent
    )
    _note_attempt(session, row, "failed", entry.error, now)
    queue = session.value("job_queue_name", id=row["queue_id"])
    return Failed(JobOutcome.DONE, maybe_moment(run_at), queue)


def _backoff(row: sqlite3.Row) -> Backoff:
    if row["backoff"] is None:
        return DEFAULT_BACKOFF
    values = json.loads(row["backoff"])
    return Backoff(base_s=values["base_s"], cap_s=values["cap_s"], delays_s=tuple(values["delays_s"]))


def beat_many(session: Session, entries: Sequence[Heartbeat], now: int) -> list[JobOutcome]:
    ids = ids_of(session)
    outcomes = []
    for entry in entries:
        row = _held(session, entry, ids)
        if isinstance(row, JobOutcome):
            outcomes.append(row)
            continue
        until = now + entry.lease_s * SECOND
        session.run("beat_job", id=row["id"], until=until, progress=entry.progress, note=entry.note, now=now)
        outcomes.append(JobOutcome.DONE)
    return outcomes


def release_many(session: Session, handles: Sequence[JobHandle], now: int) -> None:
    ids = ids_of(session)
    for handle in handles:
        row = _held(session, handle, ids)
        if not isinstance(row, JobOutcome):
            session.run("release_job", id=row["id"], now=now)
