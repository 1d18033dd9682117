"""Jobs that wait for others, on SQLite; `now` is in microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from penstock.errors import Conflict, JobNotFound
from penstock.model.jobs import Enqueued, Job, JobIds, NewJob, edges, with_edges
from penstock.model.tenants import TenantId
from penstock.store.sqlite.jobs import rules
from penstock.store.sqlite.moments import micros
from penstock.store.sqlite.session import Session

NEVER = micros(datetime(9000, 1, 1, tzinfo=UTC))
"""The due_at of a job that waits for others: the end of the calendar."""
CANCELLED = "a job that this one comes after was cancelled"


def hold(session: Session, entries: Sequence[NewJob], made: Sequence[Enqueued], ids: JobIds, now: int) -> None:
    """Make new jobs wait for what they come after."""
    for position, after in edges(entries):
        if made[position].existing:
            continue
        after_id = after if isinstance(after, str) else made[after].id
        state, name = _state(session, entries[position].tenant, after_id, ids)
        own = ids.decode(made[position].id)
        assert own is not None
        session.run(
            "insert_edge",
            queue=own[0],
            id=own[1],
            after_queue=name[0],
            after=name[1],
            done=int(state == rules.COMPLETED),
            now=now,
        )
        session.run("hold_job", id=own[1], due_at=NEVER)


def _state(session: Session, tenant: TenantId, job_id: str, ids: JobIds) -> tuple[int, tuple[int, int]]:
    name = ids.decode(job_id)
    if name is not None:
        for query in ("find_job", "find_finished_job"):
            row = session.first(query, tenant=tenant, queue=name[0], id=name[1])
            if row is not None and row["state"] == rules.CANCELLED:
                raise Conflict(f"after: job {job_id} is cancelled")
            if row is not None:
                return row["state"], name
    raise JobNotFound(f"after: job {job_id} does not exist")


def release(session: Session, number: int, now: int) -> list[tuple[TenantId, str]]:
    """This job is completed: what waited for nothing else is ready; its queues."""
    ready = []
    for row in session.all("meet_edges", id=number):
        if session.run("release_held_job", id=row["job_id"], due_at=NEVER, now=now).rowcount:
            queue = session.first("job_queue", id=row["queue_id"])
            assert queue is not None
            ready.append((TenantId(queue["tenant_id"]), str(queue["name"])))
    return ready


def cancel(session: Session, numbers: Sequence[int], now: int) -> int:
    """These jobs will never be completed: cancel all that wait for them, and all that wait for those."""
    waiting, count = list(numbers), 0
    while waiting:
        for row in session.all("meet_edges", id=waiting.pop()):
            if session.run("note_job_error", id=row["job_id"], error=CANCELLED).rowcount:
                rules.finish(session, row["job_id"], rules.CANCELLED, now)
                waiting.append(row["job_id"])
                count += 1
    return count


def shown(session: Session, job: Job, ids: JobIds) -> Job:
    """The job, with what it comes after and its tags."""
    name = ids.decode(job.id)
    assert name is not None
    tags = tuple(row["tag"] for row in session.all("list_job_tags", id=name[1]))
    job = replace(job, tags=tags) if tags else job
    found = session.all("list_edges", id=name[1])
    if not found:
        return job
    return with_edges(job, [(ids.encode(row["after_queue_id"], row["after_id"]), bool(row["done"])) for row in found])
