"""Lists of jobs on SQLite, and finding jobs by a value or a tag."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from time import monotonic

from penstock.model.jobs import FoundJobs, Job, JobFilter, JobIds, JobStatus, has_value
from penstock.model.tenants import TenantId
from penstock.store.sqlite.jobs import rules, waiting
from penstock.store.sqlite.moments import maybe_moment, moment
from penstock.store.sqlite.session import Session

STEP = 500
STATES = {
    JobStatus.PENDING: (rules.READY, rules.DELAYED),
    JobStatus.PROCESSING: (rules.PROCESSING,),
    JobStatus.DEAD: (rules.DEAD,),
    JobStatus.COMPLETED: (rules.COMPLETED,),
    JobStatus.CANCELLED: (rules.CANCELLED,),
}
STATUSES = {state: status for status, states in STATES.items() for state in states}
FINISHED = (rules.COMPLETED, rules.CANCELLED)
_LAST = 2**63 - 1

Found = tuple[sqlite3.Row, str]
"""The row of a job, and the name of its queue."""


def page(
    session: Session,
    tenant: TenantId,
    queue: str | None,
    statuses: Sequence[JobStatus],
    before: str | None,
    limit: int,
    offset: int,
) -> list[Job]:
    ids = rules.ids_of(session)
    found = _newest(session, tenant, queue, statuses, _number(ids, before), limit + offset)
    return [waiting.shown(session, job_of(row, name, ids), ids) for row, name in found[offset:]]


def find(
    session: Session, tenant: TenantId, wanted: JobFilter, before: str | None, limit: int, most_s: float
) -> FoundJobs:
    """Looks at one job after another, for `most_s` at most: a server on SQLite has few."""
    ids, end = rules.ids_of(session), monotonic() + most_s
    last, found = _number(ids, before), list[Found]()
    while True:
        if wanted.tag is None:
            step = _newest(session, tenant, wanted.queue, wanted.statuses, last, STEP)
            looked, last = len(step), step[-1][0]["id"] if step else last
        else:
            numbers = [
                int(row["job_id"])
                for row in session.all("tagged_jobs", tenant=tenant, tag=wanted.tag, before=last, limit=STEP)
            ]
            step = _named(session, tenant, wanted, numbers)
            looked, last = len(numbers), numbers[-1] if numbers else last
        found += [pair for pair in step if wanted.value is None or has_value(pair[0]["payload"], wanted.value)]
        if looked < STEP or len(found) >= limit or monotonic() > end:
            break
    jobs = [waiting.shown(session, job_of(row, name, ids), ids) for row, name in found[:limit]]
    if len(found) >= limit:
        return FoundJobs(jobs, jobs[-1].id)
    return FoundJobs(jobs, ids.encode(0, last) if looked == STEP else None)


def _newest(
    session: Session, tenant: TenantId, queue: str | None, statuses: Sequence[JobStatus], before: int, limit: int
) -> list[Found]:
    found: list[Found] = []
    for known in session.all("tenant_job_queues", tenant=tenant, name=queue):
        for state in (state for status in statuses for state in STATES.get(status, ())):
            query = "list_finished_jobs" if state in FINISHED else "list_jobs"
            rows = session.all(query, queue=known["id"], state=state, before=before, limit=limit)
            found += [(row, known["name"]) for row in rows]
    found.sort(key=lambda pair: -pair[0]["id"])
    return found[:limit]


def _named(session: Session, tenant: TenantId, wanted: JobFilter, numbers: Sequence[int]) -> list[Found]:
    """Those of the jobs that the filter is for."""
    states = [state for status in wanted.statuses for state in STATES.get(status, ())]
    queues = {row["id"]: row["name"] for row in session.all("tenant_job_queues", tenant=tenant, name=wanted.queue)}
    found: list[Found] = []
    for number in numbers:
        known = session.first("any_job", id=number)
        if known is None or known["state"] not in states or known["queue_id"] not in queues:
            continue
        query = "find_finished_job" if known["state"] in FINISHED else "find_job"
        row = session.first(query, tenant=tenant, queue=known["queue_id"], id=number)
        if row is not None:
            found.append((row, queues[known["queue_id"]]))
    return found


def _number(ids: JobIds, before: str | None) -> int:
    name = ids.decode(before) if before is not None else None
    return _LAST if before is None else name[1] if name is not None else 0


def job_of(row: sqlite3.Row, queue: str, ids: JobIds) -> Job:
    live = row["state"] < rules.COMPLETED
    status = STATUSES[row["state"]]
    return Job(
        id=ids.encode(row["queue_id"], row["id"]),
        tenant=TenantId(row["tenant_id"]),
        queue=queue,
        status=status,
        priority=row["priority"],
        payload=row["payload"],
        result=None if live else row["result"],
        error=row["error"],
        dead_reason=row["dead_reason"] if live else None,
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        attempts=row["attempts"],
        lease_lost_count=row["lease_lost_count"],
        progress=row["progress"],
        note=row["note"],
        worker=row["worker"],
        run_at=moment(row["run_at"]),
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"] if live else row["finished_at"]),
        started_at=maybe_moment(row["started_at"]),
        leased_at=maybe_moment(row["leased_at"]) if live else None,
        finished_at=maybe_moment(row["finished_at"]),
        lease_expires_at=moment(row["due_at"]) if status is JobStatus.PROCESSING else None,
    )
