"""Jobs on PostgreSQL: every verb is one call of a SQL function."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import itemgetter
from time import perf_counter
from typing import Any

from penstock import limits as bounds
from penstock.errors import JobNotFound
from penstock.model.jobs import (
    Attempt,
    AttemptOutcome,
    Backoff,
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
    JobIds,
    JobLimits,
    JobOutcome,
    JobStatus,
    Leased,
    LeasedJob,
    LeaseRequest,
    NewJob,
    edges,
    running_attempt,
    with_edges,
)
from penstock.model.tenants import TenantId
from penstock.store.postgres.connections import Connections
from penstock.store.postgres.queues.hints import Hints

Key = tuple[TenantId, str]

KEPT_QUEUES = 100_000
STATUSES = {
    0: JobStatus.PENDING,
    1: JobStatus.PROCESSING,
    2: JobStatus.PENDING,
    3: JobStatus.DEAD,
    4: JobStatus.COMPLETED,
    5: JobStatus.CANCELLED,
}
_STATES = {status: state for state, status in reversed(STATUSES.items())}
_OUTCOMES = {outcome.value: outcome for outcome in JobOutcome}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NO_TOKEN = "00000000-0000-0000-0000-000000000000"  # noqa: S105
_NO_QUEUE = (0, 0)
_LAST = 2**63 - 1
_SEARCHED = {JobStatus.PENDING: (0, 2)}
"""States of a status that has several: a pending job is ready or delayed."""
BLOCK_SIZE = 1000
BLOCKS_AT_ONCE = 20
SEARCH_MS = 200
"""A search that a person waits for ends then, and can be continued."""
LONG_SEARCH_MS = 30_000


class PostgresJobs:
    def __init__(self, connections: Connections, node: str) -> None:
        self._connections = connections
        self._node = node
        self._ids: JobIds | None = None
        self._queues: dict[Key, int] = {}
        """Ids of queues by name. A queue is never removed, so they hold for good."""
        self._hints = Hints(usual_priority=0)

    async def enqueue_many(self, entries: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        ids = await self._job_ids()
        queues = await self._made_queues([(entry.tenant, entry.queue) for entry in entries], now)
        traces = _column([entry.trace for entry in entries])
        waits, tags = edges(entries), _column([json.dumps(entry.tags) if entry.tags else None for entry in entries])
        last: list[Any] = [traces] if waits or tags or traces is not None else []
        if waits or tags:
            last += _edge_columns(waits, ids) if waits else [None] * 4
        if tags:
            last.append(tags)
        row = await self._connections.row(
            _enqueue_call(traces is not None, bool(waits), tags is not None),
            _one_if_same([entry.tenant for entry in entries]),
            _one_if_same(queues),
            [entry.payload for entry in entries],
            _column([entry.priority or None for entry in entries]),
            _column([None if entry.max_retries == 3 else entry.max_retries for entry in entries]),
            _column([entry.run_at for entry in entries]),
            _column([_backoff(entry.backoff) for entry in entries]),
            _column([entry.unique_key for entry in entries]),
            _column([entry.unique_s for entry in entries]),
            now,
            *last,
        )
        assert row is not None
        for entry in entries:
            self._hints.sent((entry.tenant, entry.queue), entry.priority)
        numbers, existing = row
        encode = ids.encode
        if existing is None:
            return [Enqueued(encode(queue, number)) for queue, number in zip(queues, numbers, strict=True)]
        return [
            Enqueued(encode(queue, number), known)
            for queue, number, known in zip(queues, numbers, existing, strict=True)
        ]

    async def traces(self, ids: Sequence[str]) -> dict[str, str]:
        decode = (await self._job_ids()).decode
        named = [(job_id, name) for job_id in ids if (name := decode(job_id)) is not None]
        queues, numbers = [name[0] for _, name in named], [name[1] for _, name in named]
        rows = await self._connections.rows("job_traces", queues, numbers)
        return {named[row[0] - 1][0]: row[1] for row in rows}

    async def traced(self, tenant: TenantId, beginnings: Sequence[str], recent: int, limit: int) -> list[str]:
        ids = await self._job_ids()
        rows = await self._connections.rows("traced_jobs", tenant, list(beginnings), recent, limit)
        return [ids.encode(row["queue_id"], row["job_id"]) for row in rows]

    async def lease_many(self, requests: Sequence[LeaseRequest], now: datetime) -> list[Leased]:
        ids = await self._job_ids()
        await self._know_queues({(request.tenant, request.queue) for request in requests})
        results = [Leased([]) for _ in requests]
        known: list[tuple[int, LeaseRequest, Leased]] = []
        for request, result in zip(requests, results, strict=True):
            queue = self._queues.get((request.tenant, request.queue))
            if queue is not None:
                known.append((queue, request, result))
        if not known:
            return results
        # Queues with limits are locked until the commit: in one order on all nodes.
        known.sort(key=itemgetter(0))
        hints = [self._hints.find((request.tenant, request.queue), now) for _, request, _ in known]
        start = perf_counter()
        rows = await self._connections.rows(
            "lease_jobs",
            [queue for queue, _, _ in known],
            [request.lease_s for _, request, _ in known],
            [len(request.workers) for _, request, _ in known],
            [worker for _, request, _ in known for worker in request.workers],
            _column([hint.place if hint is not None else None for hint in hints]),
            _column([hint.looked_at if hint is not None else None for hint in hints]),
            now,
            bounds.ANSWER_BYTES,
            durable=False,
        )
        took = timedelta(seconds=perf_counter() - start)
        for row in rows:
            position = row["request"] - 1
            queue, request, result = known[position]
            if row["id"] is None:
                result.next_due_at = row["next_due_at"]
                continue
            if not result.jobs:
                key = (request.tenant, request.queue)
                self._hints.claimed(key, hints[position], row["place"], row["priority"], now, took)
            result.jobs.append(_leased(row, ids.encode(queue, row["id"]), request.queue))
        return results

    async def complete_many(
        self, entries: Sequence[Completion], now: datetime
    ) -> tuple[list[JobOutcome], list[tuple[TenantId, str]]]:
        columns = await self._handle_columns(entries)
        results = _column([entry.result for entry in entries])
        row = await self._connections.row("complete_jobs", *columns, results, now)
        assert row is not None
        ready = list(zip(row["tenants"] or (), row["queues"] or (), strict=True))
        for key in ready:
            self._hints.forget(key)
        return [_OUTCOMES[answer] for answer in row["answers"]], ready

    async def fail_many(self, entries: Sequence[Failure], now: datetime) -> list[Failed]:
        row = await self._connections.row(
            "fail_jobs",
            *await self._handle_columns(entries),
            [entry.error for entry in entries],
            [entry.retry for entry in entries],
            _column([entry.retry_after_s for entry in entries]),
            [entry.spread for entry in entries],
            _column([None if entry.counts else False for entry in entries]),
            now,
        )
        assert row is not None
        return [
            Failed(_OUTCOMES[answer], run_at, queue or "")
            for answer, run_at, queue in zip(row["answers"], row["run_ats"], row["queues"], strict=True)
        ]

    async def beat_many(self, entries: Sequence[Heartbeat], now: datetime) -> list[JobOutcome]:
        answers = await self._connections.value(
            "beat_jobs",
            *await self._handle_columns(entries),
            [entry.lease_s for entry in entries],
            _column([entry.progress for entry in entries]),
            _column([entry.note for entry in entries]),
            now,
            durable=False,
        )
        return [_OUTCOMES[answer] for answer in answers]

    async def release_many(self, handles: Sequence[JobHandle], now: datetime) -> None:
        self._hints = Hints(usual_priority=0)
        await self._connections.value("release_jobs", *await self._handle_columns(handles), now, durable=False)

    async def cancel(self, tenant: TenantId, job_id: str, now: datetime) -> bool:
        return bool(await self._connections.value("cancel_job", tenant, *await self._name_of(job_id), now))

    async def get(self, tenant: TenantId, job_id: str) -> Job:
        row = await self._connections.row("get_job", tenant, *await self._name_of(job_id))
        if row is None:
            raise JobNotFound(f"Job {job_id} does not exist")
        [job] = await self._with_edges([_job(row, await self._job_ids())])
        return job

    async def attempts(self, tenant: TenantId, job_id: str) -> list[Attempt]:
        job = await self.get(tenant, job_id)
        rows = await self._connections.rows("job_attempts", *await self._name_of(job_id), bounds.ANSWER_BYTES)
        found = [Attempt(**{**row, "outcome": AttemptOutcome(row["outcome"])}) for row in rows]
        return [*found, *running_attempt(job)]

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
        states = [_STATES[status] for status in statuses if status in _STATES]
        number = _LAST if before is None else (await self._name_of(before))[1]
        ids = await self._job_ids()
        rows = await self._connections.rows("list_jobs", tenant, queue, states, number, limit, offset)
        return await self._with_edges([_job(row, ids) for row in rows])

    async def _with_edges(self, jobs: list[Job]) -> list[Job]:
        """The jobs, with what they come after and their tags."""
        ids = await self._job_ids()
        names = [await self._name_of(job.id) for job in jobs]
        columns = [queue for queue, _ in names], [number for _, number in names]
        after: dict[str, list[tuple[str, bool]]] = {}
        for row in await self._connections.rows("job_edges", *columns):
            edge = (ids.encode(row["after_queue_id"], row["after_id"]), row["done"])
            after.setdefault(ids.encode(row["queue_id"], row["job_id"]), []).append(edge)
        tags: dict[str, tuple[str, ...]] = {}
        for row in await self._connections.rows("job_tags", *columns):
            job_id = ids.encode(row["queue_id"], row["job_id"])
            tags[job_id] = (*tags.get(job_id, ()), row["tag"])
        found = [with_edges(job, after[job.id]) if job.id in after else job for job in jobs]
        return [replace(job, tags=tags[job.id]) if job.id in tags else job for job in found]

    async def find_jobs(self, tenant: TenantId, wanted: JobFilter, *, before: str | None, limit: int) -> FoundJobs:
        ids = await self._job_ids()
        number = _LAST if before is None else (await self._name_of(before))[1]
        names = await self._find_names(tenant, wanted, number, limit, SEARCH_MS)
        stop = next((last for queue, last in names if queue is None), None)
        found = [(queue, job) for queue, job in names if queue is not None]
        rows = await self._connections.rows(
            "get_jobs", tenant, [queue for queue, _ in found], [job for _, job in found]
        )
        jobs = await self._with_edges([_job(row, ids) for row in rows])
        if stop is not None:
            return FoundJobs(jobs, ids.encode(0, stop))
        return FoundJobs(jobs, ids.encode(*found[-1]) if len(found) == limit else None)

    async def find_ids(self, tenant: TenantId, wanted: JobFilter, limit: int) -> list[str]:
        ids = await self._job_ids()
        names = await self._find_names(tenant, wanted, _LAST, limit, LONG_SEARCH_MS)
        return [ids.encode(queue, number) for queue, number in names if queue is not None]

    async def _find_names(
        self, tenant: TenantId, wanted: JobFilter, before: int, limit: int, most_ms: int
    ) -> list[tuple[int | None, int]]:
        """Queues and numbers; one without a queue says where a search that took too long goes on."""
        states = [
            state
            for status in wanted.statuses
            if status in _STATES
            for state in _SEARCHED.get(status, (_STATES[status],))
        ]
        call = "find_job_names" if wanted.tag is None else "find_tagged_job_names"
        tags = () if wanted.tag is None else (wanted.tag,)
        rows = await self._connections.rows(
            call, tenant, wanted.queue, states, wanted.value, before, limit, most_ms, *tags
        )
        return [(row[0], row[1]) for row in rows]

    async def index_values(self) -> int:
        dropped = await self._connections.value("drop_job_blocks")
        return int(dropped) + int(await self._connections.value("write_job_blocks", BLOCK_SIZE, BLOCKS_AT_ONCE))

    async def counts(self, tenant: TenantId | None, queue: str | None = None) -> list[tuple[TenantId, JobCounts]]:
        rows = await self._connections.rows("count_jobs", tenant, queue)
        return [(TenantId(row["tenant_id"]), JobCounts(**dict(list(row.items())[1:]))) for row in rows]

    async def limits(self, tenant: TenantId, queue: str) -> JobLimits:
        row = await self._connections.row("job_limits", tenant, queue)
        return JobLimits(**row) if row is not None else JobLimits()

    async def set_limits(self, tenant: TenantId, queue: str, limits: JobLimits, actor: str, now: datetime) -> None:
        await self._connections.value(
            "limit_jobs", tenant, queue, limits.concurrency, limits.rate, limits.burst, actor, now
        )

    async def requeue_dead(
        self, tenant: TenantId, queue: str, ids: Sequence[str] | None, limit: int, actor: str, now: datetime
    ) -> int:
        self._hints.forget((tenant, queue))
        return await self._on_dead("requeue_jobs", tenant, queue, ids, limit, actor, now)

    async def purge_dead(
        self, tenant: TenantId, queue: str, ids: Sequence[str] | None, limit: int, actor: str, now: datetime
    ) -> int:
        return await self._on_dead("purge_jobs", tenant, queue, ids, limit, actor, now)

    async def _on_dead(
        self, call: str, tenant: TenantId, queue: str, ids: Sequence[str] | None, limit: int, actor: str, now: datetime
    ) -> int:
        await self._know_queues({(tenant, queue)})
        queue_id = self._queues.get((tenant, queue))
        if queue_id is None:
            return 0
        numbers = None
        if ids is not None:
            named = [await self._name_of(job_id) for job_id in ids]
            numbers = [number for owner, number in named if owner == queue_id]
        return int(await self._connections.value(call, tenant, queue_id, numbers, limit, actor, now))

    async def tend(self, retention: timedelta, limit: int, now: datetime) -> tuple[int, list[tuple[TenantId, str]]]:
        row = await self._connections.row("tend_jobs", retention, limit, now)
        assert row is not None
        ready = list(zip(row["tenants"], row["queues"], strict=True))
        for key in ready:
            self._hints.forget(key)
        return row["done"], ready

    async def expect(self, tenant: TenantId, queue: str, now: datetime) -> None:
        await self._connections.value("expect_jobs", tenant, queue, self._node, now, durable=False)

    # Names

    async def _job_ids(self) -> JobIds:
        if self._ids is None:
            self._ids = JobIds(await self._connections.value("job_salt"))
        return self._ids

    async def _name_of(self, job_id: str) -> tuple[int, int]:
        """Queue and number; of a text that is no id of ours, those of no job."""
        return (await self._job_ids()).decode(job_id) or _NO_QUEUE

    async def _handle_columns(self, handles: Sequence[JobHandle]) -> tuple[list[int], list[int], list[int], list[str]]:
        decode = (await self._job_ids()).decode
        names = [decode(handle.id) or _NO_QUEUE for handle in handles]
        return (
            [handle.tenant for handle in handles],
            [queue for queue, _ in names],
            [number for _, number in names],
            [handle.token if _UUID.fullmatch(handle.token) else _NO_TOKEN for handle in handles],
        )

    async def _made_queues(self, keys: list[Key], now: datetime) -> list[int]:
        missing = list({key for key in keys if key not in self._queues})
        if missing:
            tenants, names = zip(*missing, strict=True)
            found = await self._connections.value("make_job_queues", list(tenants), list(names), now)
            self._queues.update(zip(missing, found, strict=True))
        queues = [self._queues[key] for key in keys]
        self._forget_many()
        return queues

    async def _know_queues(self, keys: set[Key]) -> None:
        missing = [key for key in keys if key not in self._queues]
        if missing:
            tenants, names = zip(*missing, strict=True)
            rows = await self._connections.rows("find_job_queues", list(tenants), list(names))
            self._queues.update({(row["tenant_id"], row["name"]): row["id"] for row in rows})

    def _forget_many(self) -> None:
        if len(self._queues) > KEPT_QUEUES:
            self._queues.clear()


def _leased(row: Any, job_id: str, queue: str) -> LeasedJob:
    return LeasedJob(
        id=job_id,
        queue=queue,
        token=str(row["lease_token"]),
        expires_at=row["due_at"],
        payload=row["payload"],
        priority=row["priority"],
        attempts=row["attempts"],
        retry_count=row["retry_count"],
        max_retries=row["max_retries"],
        lease_lost_count=row["lease_lost_count"],
        run_at=row["run_at"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        leased_at=row["leased_at"],
        worker=row["worker"],
        error=row["error"],
    )


def _job(row: Any, ids: JobIds) -> Job:
    values = dict(row)
    state = values.pop("state")
    values["id"] = ids.encode(values.pop("queue_id"), values["id"])
    return Job(status=STATUSES[state], tenant=TenantId(values.pop("tenant_id")), **values)


def _enqueue_call(traced: bool, waits: bool, tagged: bool) -> str:
    if tagged:
        return "enqueue_tagged_jobs"
    if waits:
        return "enqueue_jobs_after"
    return "enqueue_traced_jobs" if traced else "enqueue_jobs"


def _edge_columns(waits: Sequence[tuple[int, str | int]], ids: JobIds) -> list[list[int | None]]:
    """Positions as SQL counts them, from 1; an id that is none of ours names no job."""
    rows: list[tuple[int | None, ...]] = []
    for position, after in waits:
        queue, number = (ids.decode(after) or _NO_QUEUE) if isinstance(after, str) else (None, None)
        rows.append((position + 1, queue, number, after + 1 if isinstance(after, int) else None))
    return [list(column) for column in zip(*rows, strict=True)]


def _backoff(backoff: Backoff | None) -> str | None:
    if backoff is None:
        return None
    if backoff.delays_s:
        return json.dumps({"delays": backoff.delays_s})
    return json.dumps({"base": backoff.base_s, "cap": backoff.cap_s})


def _one_if_same(values: list[Any]) -> list[Any]:
    """A batch is mostly for one queue, and to say so once is cheaper on both sides."""
    return values[:1] if values.count(values[0]) == len(values) else values


def _column(values: list[Any]) -> list[Any] | None:
    """An array that holds nothing is not worth sending."""
    return values if any(value is not None for value in values) else None
