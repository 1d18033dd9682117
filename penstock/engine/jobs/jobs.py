"""Jobs: enqueue, lease, report, look, and what administrators do to them.

What may happen to a job is the store's to decide, inside its transaction. Here requests are checked, joined into
shared statements, and workers that wait are put to sleep and woken.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from penstock import limits
from penstock.clock import Clock
from penstock.engine.batching import Batcher, KeyedBatchers
from penstock.engine.checks import check_length, check_name, check_range, check_text
from penstock.engine.insights.outcomes import Outcomes
from penstock.engine.jobs.checks import (
    check_completion,
    check_failure,
    check_heartbeat,
    check_jobs,
    check_lease,
    check_limits,
)
from penstock.engine.json_checks import check_large
from penstock.engine.waiting import Expectations, Key, Look, Waiters, job_key
from penstock.errors import Invalid, JobNotFound, LeaseStale, PenstockError
from penstock.model.jobs import (
    WAITING_PREFIX,
    Attempt,
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
    LeasedJob,
    LeaseRequest,
    NewJob,
)
from penstock.model.queues import utf8_bytes
from penstock.model.samples import OutcomeKind
from penstock.model.tenants import TenantId
from penstock.store import Store

LONGEST_VALUE = 1000
LIST_STEP = 50
"""Jobs that a list reads at once."""
RETENTION = timedelta(days=7)
MOST_AT_ONCE = 10_000
"""Dead jobs that one request brings back or removes."""


class Jobs:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        waiters: Waiters,
        outcomes: Outcomes,
        *,
        batching: bool = True,
        retention: timedelta = RETENTION,
    ) -> None:
        self._store = store
        self._clock = clock
        self._waiters = waiters
        self._retention = retention
        self._outcomes = outcomes
        self._expectations = Expectations(self._tell)
        self._releases: set[asyncio.Task[None]] = set()
        self._enqueues: KeyedBatchers[NewJob, Enqueued] = KeyedBatchers(
            lambda: Batcher(self._enqueue, enabled=batching)
        )
        self._leases: Batcher[LeaseRequest, Leased] = Batcher(self._lease, enabled=batching, abandoned=self._give_back)
        self._completions: Batcher[Completion, JobOutcome] = Batcher(self._complete, enabled=batching)
        self._failures: Batcher[Failure, Failed] = Batcher(self._fail, enabled=batching)
        self._beats: Batcher[Heartbeat, JobOutcome] = Batcher(self._beat, enabled=batching)

    # Producers

    async def enqueue(self, entry: NewJob) -> Enqueued:
        await check_large(len(entry.payload), lambda: check_jobs([entry]))
        [made] = await self._enqueues.submit([entry], _batch_key_of(entry))
        return made

    async def enqueue_batch(self, entries: Sequence[NewJob]) -> Sequence[Enqueued]:
        """All of them, or an error and none."""
        await check_large(sum(len(entry.payload) for entry in entries), lambda: check_jobs(entries))
        if not entries:
            return []
        key = next((found for found in map(_batch_key_of, entries) if found is not None), None)
        return await self._enqueues.submit(entries, key)

    async def cancel(self, tenant: TenantId, job_id: str) -> None:
        if not await self._store.jobs.cancel(tenant, job_id, self._clock.now()):
            raise JobNotFound("There is no pending job with this id.")

    # Workers

    async def lease(self, request: LeaseRequest, wait_s: float = 0.0) -> list[LeasedJob]:
        """Jobs at once, or the first that come within `wait_s`; an empty list when none do.

        When the caller is cancelled while a claim is in flight, what it claimed is released.
        """
        check_lease(request)
        check_range("wait", wait_s, limits.JOB_WAIT_S)
        if wait_s <= 0:
            return (await self._look(request)).found
        key = job_key(request.tenant, request.queue)
        return await self._waiters.poll(key, wait_s, lambda: self._look(request), self._expectations.expect)

    async def complete(self, entry: Completion) -> None:
        await check_large(len(entry.result or ""), lambda: check_completion(entry))
        [outcome] = await self._completions.submit([entry])
        _check_outcome(outcome)

    async def fail(self, entry: Failure) -> tuple[JobStatus, datetime | None]:
        """What becomes of the job: pending again, and from when, or dead."""
        check_failure(entry)
        entry.spread = random.random()
        [failed] = await self._failures.submit([entry])
        _check_outcome(failed.outcome)
        return (JobStatus.DEAD if failed.run_at is None else JobStatus.PENDING), failed.run_at

    async def heartbeat(self, entry: Heartbeat) -> datetime:
        """When the lease ends now."""
        check_heartbeat(entry)
        [outcome] = await self._beats.submit([entry])
        _check_outcome(outcome)
        return self._clock.now() + timedelta(seconds=entry.lease_s)

    # Looking

    async def get(self, tenant: TenantId, job_id: str) -> Job:
        return await self._store.jobs.get(tenant, job_id)

    async def attempts(self, tenant: TenantId, job_id: str) -> list[Attempt]:
        return await self._store.jobs.attempts(tenant, job_id)

    async def list_jobs(
        self,
        tenant: TenantId,
        *,
        queue: str | None = None,
        status: JobStatus | None = None,
        before: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[Job], int]:
        """A page, newest first, and how many there are in all."""
        check_range("limit", limit, limits.JOB_PAGE)
        check_range("offset", offset, limits.JOB_OFFSET)
        check_text("queue", queue)
        check_text("before", before)
        statuses = [status] if status is not None else list(JobStatus)
        jobs = self._store.jobs
        found: list[Job] = []
        # In steps, since payloads and results may be large: the page ends early when they are.
        while len(found) < limit and size_of(found) < limits.ANSWER_BYTES:
            step = min(limit - len(found), LIST_STEP)
            more = await jobs.list_jobs(
                tenant, queue=queue, statuses=statuses, before=before, limit=step, offset=offset
            )
            found += more
            if len(more) < step:
                break
            before, offset = more[-1].id, 0
        counts = await jobs.counts(tenant, queue)
        return found, sum(_count(count, statuses) for _, count in counts)

    async def find_jobs(
        self, tenant: TenantId, wanted: JobFilter, *, before: str | None = None, limit: int = 50
    ) -> FoundJobs:
        """Jobs with a value anywhere in the payload, a tag, or both, newest first."""
        _check_filter(wanted)
        check_range("limit", limit, (1, MOST_AT_ONCE))
        check_text("before", before)
        return await self._store.jobs.find_jobs(tenant, wanted, before=before, limit=limit)

    async def find_ids(self, tenant: TenantId, wanted: JobFilter, limit: int = MOST_AT_ONCE) -> list[str]:
        """The ids of all such jobs, the newest `limit`: for actions on them."""
        _check_filter(wanted)
        check_range("limit", limit, (1, MOST_AT_ONCE))
        return await self._store.jobs.find_ids(tenant, wanted, limit)

    async def index_values(self) -> int:
        return await self._store.jobs.index_values()

    async def counts(self, tenant: TenantId | None) -> list[tuple[TenantId, JobCounts]]:
        return await self._store.jobs.counts(tenant)

    # Administrators

    async def limits(self, tenant: TenantId, queue: str) -> JobLimits:
        check_name(queue, "queue")
        return await self._store.jobs.limits(tenant, queue)

    async def set_limits(self, tenant: TenantId, queue: str, given: JobLimits, actor: str) -> None:
        check_name(queue, "queue")
        check_limits(given)
        await self._store.jobs.set_limits(tenant, queue, given, actor, self._clock.now())
        self._wake(tenant, queue, limits.JOB_LEASE_LIMIT[1])

    async def requeue_dead(
        self, tenant: TenantId, queue: str, actor: str, ids: Sequence[str] | None = None, limit: int = MOST_AT_ONCE
    ) -> int:
        check_name(queue, "queue")
        check_range("limit", limit, (1, MOST_AT_ONCE))
        count = await self._store.jobs.requeue_dead(tenant, queue, ids, limit, actor, self._clock.now())
        self._wake(tenant, queue, count)
        return count

    async def purge_dead(
        self, tenant: TenantId, queue: str, actor: str, ids: Sequence[str] | None = None, limit: int = MOST_AT_ONCE
    ) -> int:
        check_name(queue, "queue")
        check_range("limit", limit, (1, MOST_AT_ONCE))
        return await self._store.jobs.purge_dead(tenant, queue, ids, limit, actor, self._clock.now())

    async def tend(self, limit: int = 1000) -> int:
        """Recover lost leases, make due jobs ready, forget what is old."""
        done, ready = await self._store.jobs.tend(self._retention, limit, self._clock.now())
        for tenant, queue in ready:
            self._wake(tenant, queue, limit)
        return done

    async def drain(self) -> None:
        """Let waiting workers go, for good, and answer everything that is under way."""
        self._waiters.stop()
        await self._enqueues.drain()
        for batcher in (self._leases, self._completions, self._failures, self._beats):
            await batcher.drain()
        await asyncio.gather(*self._releases)

    # Waiting

    def _wake(self, tenant: TenantId, queue: str, count: int) -> None:
        self._waiters.wake(job_key(tenant, queue), count)

    async def _tell(self, key: Key) -> None:
        await self._store.jobs.expect(key[0], key[1].removeprefix(WAITING_PREFIX), self._clock.now())

    async def _look(self, request: LeaseRequest) -> Look[list[LeasedJob]]:
        [leased] = await self._leases.submit([request])
        while leased.crowded_out:
            [leased] = await self._leases.submit([request])
        return Look(leased.jobs, not leased.jobs, leased.next_due_at)

    def _give_back(self, requests: Sequence[LeaseRequest], results: Sequence[Leased]) -> None:
        """The worker left before its claim was answered: release what it claimed."""
        handles = [
            JobHandle(tenant=request.tenant, id=job.id, token=job.token)
            for request, leased in zip(requests, results, strict=True)
            for job in leased.jobs
        ]
        if handles:
            keys = [job_key(request.tenant, request.queue) for request in requests]
            task = asyncio.get_running_loop().create_task(self._release(handles, keys))
            self._releases.add(task)
            task.add_done_callback(self._releases.discard)

    async def _release(self, handles: list[JobHandle], keys: list[Key]) -> None:
        with suppress(PenstockError):  # a lease that cannot be given back now ends by itself
            await self._store.jobs.release_many(handles, self._clock.now())
        for key in keys:
            self._waiters.wake(key, len(handles))

    # Shared statements

    async def _enqueue(self, entries: Sequence[NewJob]) -> Sequence[Enqueued]:
        made = await self._store.jobs.enqueue_many(entries, self._clock.now())
        for (tenant, queue), count in Counter((entry.tenant, entry.queue) for entry in entries).items():
            self._wake(tenant, queue, count)
        return made

    async def _lease(self, requests: Sequence[LeaseRequest]) -> Sequence[Leased]:
        now = self._clock.now()
        if len(requests) == 1:
            return await self._store.jobs.lease_many(requests, now)
        shares = _merge(requests)
        merged = await self._store.jobs.lease_many([request for request, _ in shares], now)
        return _share_out(requests, shares, merged)

    async def _complete(self, entries: Sequence[Completion]) -> Sequence[JobOutcome]:
        outcomes, ready = await self._store.jobs.complete_many(entries, self._clock.now())
        for tenant, queue in ready:
            self._wake(tenant, queue, limits.JOB_LEASE_LIMIT[1])
        for tenant, count in Counter(entry.tenant for entry in entries).items():
            self._outcomes.count(tenant, OutcomeKind.JOB, good=count)
        return outcomes

    async def _fail(self, entries: Sequence[Failure]) -> Sequence[Failed]:
        results = await self._store.jobs.fail_many(entries, self._clock.now())
        for entry, failed in zip(entries, results, strict=True):
            if failed.run_at is not None:
                self._waiters.wake_at(job_key(entry.tenant, failed.queue), failed.run_at)
            self._outcomes.count(entry.tenant, OutcomeKind.JOB, bad=1)
        return results

    async def _beat(self, entries: Sequence[Heartbeat]) -> Sequence[JobOutcome]:
        return await self._store.jobs.beat_many(entries, self._clock.now())


def _check_filter(wanted: JobFilter) -> None:
    if wanted.value is None and wanted.tag is None:
        raise Invalid("a search needs a value or a tag", field="value")
    check_text("queue", wanted.queue)
    check_length("value", wanted.value, (1, LONGEST_VALUE))
    check_length("tag", wanted.tag, limits.JOB_TAG_CHARACTERS)


def _batch_key_of(entry: NewJob) -> Key | None:
    """A unique key may have to wait for another transaction that holds it."""
    return (entry.tenant, entry.queue) if entry.unique_key is not None else None


def _check_outcome(outcome: JobOutcome) -> None:
    if outcome is JobOutcome.ABSENT:
        raise JobNotFound()
    if outcome is JobOutcome.STALE:
        raise LeaseStale()


def size_of(jobs: Sequence[Job]) -> int:
    """Bytes of what the jobs hold."""
    return sum(utf8_bytes(job.payload) + utf8_bytes(job.result or "") + utf8_bytes(job.error or "") for job in jobs)


def _count(counts: JobCounts, statuses: Sequence[JobStatus]) -> int:
    return sum(getattr(counts, status.value, 0) for status in statuses)


def _merge(requests: Sequence[LeaseRequest]) -> list[tuple[LeaseRequest, list[int]]]:
    """Wishes for one queue and one length of lease as a larger one, with the positions that share it."""
    shares: dict[tuple[TenantId, str, int], tuple[list[str], list[int]]] = {}
    for position, request in enumerate(requests):
        workers, positions = shares.setdefault((request.tenant, request.queue, request.lease_s), ([], []))
        workers.extend(request.workers)
        positions.append(position)
    return [
        (LeaseRequest(tenant=tenant, queue=queue, lease_s=lease_s, workers=workers), positions)
        for (tenant, queue, lease_s), (workers, positions) in shares.items()
    ]


def _share_out(
    requests: Sequence[LeaseRequest], shares: list[tuple[LeaseRequest, list[int]]], merged: Sequence[Leased]
) -> list[Leased]:
    """Hand the jobs of each claim to its requests: the store gave them to the workers in this order."""
    results = [Leased([]) for _ in requests]
    for (_, positions), leased in zip(shares, merged, strict=True):
        start = 0
        for position in positions:
            crowded_out = 0 < len(leased.jobs) <= start and _payload_bytes(leased.jobs) >= limits.ANSWER_BYTES
            end = start + len(requests[position].workers)
            results[position] = Leased(leased.jobs[start:end], leased.next_due_at, crowded_out)
            start = end
    return results


def _payload_bytes(jobs: Sequence[LeasedJob]) -> int:
    return sum(utf8_bytes(job.payload) for job in jobs)
