"""Jobs on SQLite: each verb is one transaction on the writer's thread; the rules are in `rules`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from penstock import limits as bounds
from penstock.errors import JobNotFound
from penstock.model.jobs import (
    Attempt,
    AttemptOutcome,
    Completion,
    Enqueued,
    Failed,
    Failure,
    FoundJobs,
    Heartbeat,
    Job,
    JobCounts,
    JobFilter,
    JobHandle,
    JobLimits,
    JobOutcome,
    JobStatus,
    Leased,
    LeaseRequest,
    NewJob,
    running_attempt,
)
from penstock.model.tenants import TenantId
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.jobs import rules, search, waiting
from penstock.store.sqlite.jobs.search import STATES, STATUSES
from penstock.store.sqlite.moments import maybe_moment, micros, moment
from penstock.store.sqlite.session import Session
from penstock.store.sqlite.tenants.audit import note_act
from penstock.store.sqlite.tenants.rate_limits import forget_buckets

SEARCH_S = 0.2
"""A search that a person waits for ends then, and can be continued."""
LONG_SEARCH_S = 30.0


class SqliteJobs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def enqueue_many(self, entries: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        return await self._database.write(lambda s: _enqueue(s, entries, micros(now)))

    async def lease_many(self, requests: Sequence[LeaseRequest], now: datetime) -> list[Leased]:
        return await self._database.write(lambda s: rules.lease_many(s, requests, micros(now)))

    async def complete_many(
        self, entries: Sequence[Completion], now: datetime
    ) -> tuple[list[JobOutcome], list[tuple[TenantId, str]]]:
        return await self._database.write(lambda s: _complete(s, entries, micros(now)))

    async def fail_many(self, entries: Sequence[Failure], now: datetime) -> list[Failed]:
        return await self._database.write(lambda s: rules.fail_many(s, entries, micros(now)))

    async def beat_many(self, entries: Sequence[Heartbeat], now: datetime) -> list[JobOutcome]:
        return await self._database.write(lambda s: rules.beat_many(s, entries, micros(now)))

    async def release_many(self, handles: Sequence[JobHandle], now: datetime) -> None:
        await self._database.write(lambda s: rules.release_many(s, handles, micros(now)))

    async def cancel(self, tenant: TenantId, job_id: str, now: datetime) -> bool:
        return await self._database.write(lambda s: _cancel(s, tenant, job_id, micros(now)))

    async def get(self, tenant: TenantId, job_id: str) -> Job:
        return await self._database.read(lambda s: _get(s, tenant, job_id))

    async def attempts(self, tenant: TenantId, job_id: str) -> list[Attempt]:
        return await self._database.read(lambda s: _attempts(s, tenant, job_id))

    async def list_jobs(
        self,
        tenant: TenantId,
        *,
        queue: str | None,
        statuses: Sequence[JobStatus],
        before: str | None,
        limit: int,
        offset: int,
    ) -> list[Job]:
        return await self._database.read(lambda s: search.page(s, tenant, queue, statuses, before, limit, offset))

    async def find_jobs(self, tenant: TenantId, wanted: JobFilter, *, before: str | None, limit: int) -> FoundJobs:
        return await self._database.read(lambda s: search.find(s, tenant, wanted, before, limit, SEARCH_S))

    async def find_ids(self, tenant: TenantId, wanted: JobFilter, limit: int) -> list[str]:
        found = await self._database.read(lambda s: search.find(s, tenant, wanted, None, limit, LONG_SEARCH_S))
        return [job.id for job in found.jobs]

    async def index_values(self) -> int:
        return 0

    async def counts(self, tenant: TenantId | None, queue: str | None = None) -> list[tuple[TenantId, JobCounts]]:
        return await self._database.read(lambda s: _counts(s, tenant, queue))

    async def limits(self, tenant: TenantId, queue: str) -> JobLimits:
        row = await self._database.read(lambda s: rules.find_queue(s, tenant, queue))
        if row is None:
            return JobLimits()
        return JobLimits(concurrency=row["concurrency"], rate=row["rate"], burst=row["burst"])

    async def set_limits(self, tenant: TenantId, queue: str, limits: JobLimits, actor: str, now: datetime) -> None:
        def work(session: Session) -> None:
            values = {"concurrency": limits.concurrency, "rate": limits.rate, "burst": limits.burst}
            session.run("limit_job_queue", id=rules.make_queue(session, tenant, queue, micros(now)), **values)
            note_act(session, tenant, actor, "queue limits changed", queue, json.dumps(values), micros(now))

        await self._database.write(work)

    async def requeue_dead(
        self, tenant: TenantId, queue: str, ids: Sequence[str] | None, limit: int, actor: str, now: datetime
    ) -> int:
        act = ("requeue_job", "dead jobs requeued")
        return await self._database.write(lambda s: _on_dead(s, act, tenant, queue, ids, limit, actor, micros(now)))

    async def purge_dead(
        self, tenant: TenantId, queue: str, ids: Sequence[str] | None, limit: int, actor: str, now: datetime
    ) -> int:
        act = ("purge_job", "dead jobs purged")
        return await self._database.write(lambda s: _on_dead(s, act, tenant, queue, ids, limit, actor, micros(now)))

    async def tend(self, retention: timedelta, limit: int, now: datetime) -> tuple[int, list[tuple[TenantId, str]]]:
        before = micros(now - retention)
        return await self._database.write(lambda s: _tend(s, before, limit, micros(now)))

    async def traces(self, ids: Sequence[str]) -> dict[str, str]:
        return await self._database.read(lambda s: _traces(s, ids))

    async def traced(self, tenant: TenantId, beginnings: Sequence[str], recent: int, limit: int) -> list[str]:
        def look(session: Session) -> list[str]:
            encode = rules.ids_of(session).encode
            found = [
                encode(row["queue_id"], row["id"])
                for beginning in beginnings
                for row in session.all("traced_jobs", tenant=tenant, beginning=beginning, recent=recent, limit=limit)
            ]
            return found[:limit]

        return await self._database.read(look)

    async def expect(self, tenant: TenantId, queue: str, now: datetime) -> None:
        """Nobody else enqueues: every job passes through this process, which knows of it."""


def _traces(session: Session, ids: Sequence[str]) -> dict[str, str]:
    decode, found = rules.ids_of(session).decode, {}
    for job_id in ids:
        name = decode(job_id)
        trace = None if name is None else session.value("job_trace", id=name[1])
        if trace is not None:
            found[job_id] = str(trace)
    return found


def _enqueue(session: Session, entries: Sequence[NewJob], now: int) -> list[Enqueued]:
    made = rules.enqueue_many(session, entries, now)
    waiting.hold(session, entries, made, rules.ids_of(session), now)
    return made


def _complete(
    session: Session, entries: Sequence[Completion], now: int
) -> tuple[list[JobOutcome], list[tuple[TenantId, str]]]:
    outcomes, done = rules.complete_many(session, entries, now)
    return outcomes, [queue for number in done for queue in waiting.release(session, number, now)]


def _cancel(session: Session, tenant: TenantId, job_id: str, now: int) -> bool:
    name = rules.ids_of(session).decode(job_id)
    row = None if name is None else session.first("find_job", tenant=tenant, queue=name[0], id=name[1])
    if row is None or row["state"] not in (rules.READY, rules.DELAYED):
        return False
    rules.finish(session, row["id"], rules.CANCELLED, now)
    waiting.cancel(session, [row["id"]], now)
    return True


def _get(session: Session, tenant: TenantId, job_id: str) -> Job:
    ids = rules.ids_of(session)
    name = ids.decode(job_id)
    if name is not None:
        for query in ("find_job", "find_finished_job"):
            row = session.first(query, tenant=tenant, queue=name[0], id=name[1])
            if row is not None:
                return waiting.shown(session, search.job_of(row, session.value("job_queue_name", id=name[0]), ids), ids)
    raise JobNotFound(f"Job {job_id} does not exist")


def _attempts(session: Session, tenant: TenantId, job_id: str) -> list[Attempt]:
    job = _get(session, tenant, job_id)
    name = rules.ids_of(session).decode(job_id)
    assert name is not None
    found = [
        Attempt(
            attempt=row["attempt"],
            worker=row["worker"],
            started_at=moment(row["started_at"]),
            ended_at=moment(row["ended_at"]),
            outcome=AttemptOutcome(row["outcome"]),
            error=row["error"],
        )
        for row in session.all("list_attempts", id=name[1], bytes=bounds.ANSWER_BYTES)
    ]
    return [*found, *running_attempt(job)]


def _counts(session: Session, tenant: TenantId | None, queue: str | None) -> list[tuple[TenantId, JobCounts]]:
    counted = []
    for known in session.all("tenant_job_queues", tenant=tenant, name=queue):
        jobs = dict.fromkeys(STATES, 0)
        for row in session.all("count_jobs", queue=known["id"]):
            jobs[STATUSES[row["state"]]] += row["jobs"]
        counts = JobCounts(
            queue=known["name"],
            oldest_pending_created_at=maybe_moment(session.value("oldest_pending_job", queue=known["id"])),
            **{status.value: count for status, count in jobs.items()},
        )
        counted.append((TenantId(known["tenant_id"]), counts))
    return counted


def _on_dead(
    session: Session,
    act: tuple[str, str],
    tenant: TenantId,
    queue: str,
    ids: Sequence[str] | None,
    limit: int,
    actor: str,
    now: int,
) -> int:
    known = rules.find_queue(session, tenant, queue)
    if known is None:
        return 0
    if ids is None:
        numbers = [row["id"] for row in session.all("dead_jobs", queue=known["id"], limit=limit)]
    else:
        decode = rules.ids_of(session).decode
        numbers = [name[1] for name in map(decode, ids) if name is not None][:limit]
    hit = [number for number in numbers if session.run(act[0], id=number, queue=known["id"], now=now).rowcount]
    done = len(hit)
    if done:
        if act[0] == "purge_job":
            waiting.cancel(session, hit, now)
        note_act(session, tenant, actor, act[1], queue, json.dumps({"jobs": done}), now)
    return done


def _tend(session: Session, before: int, limit: int, now: int) -> tuple[int, list[tuple[TenantId, str]]]:
    done, ready = 0, []
    for queue in session.all("due_job_queues", now=now):
        count, revived = rules.release_due(session, queue["id"], now, limit)
        done += count
        if revived:
            ready.append((TenantId(queue["tenant_id"]), queue["name"]))
    gone = [row["id"] for row in session.all("forget_dead_jobs", before=before, limit=limit)]
    done += len(gone) + waiting.cancel(session, gone, now)
    done += session.run("forget_finished_jobs", before=before, limit=limit).rowcount
    session.run("forget_job_edges", before=before)
    session.run("forget_attempts", before=before)
    session.run("forget_job_keys", now=now)
    session.run("forget_job_traces", before=before)
    session.run("forget_job_tags", before=before)
    forget_buckets(session, now)
    return done, ready
