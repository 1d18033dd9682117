"""What a store can do with jobs. The hot verbs take batches and answer in the order of the entries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from penstock.model.jobs import (
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
    LeaseRequest,
    NewJob,
)
from penstock.model.tenants import TenantId


class JobStore(Protocol):
    """Queues of jobs exist by being named. Verbs about a single job raise `JobNotFound`."""

    async def enqueue_many(self, entries: Sequence[NewJob], now: datetime) -> list[Enqueued]:
        """Store jobs. `JobNotFound` or `Conflict` when one comes after a job that is missing or cancelled."""

    async def lease_many(self, requests: Sequence[LeaseRequest], now: datetime) -> list[Leased]:
        """Claim ready jobs for each request, in the order of the requests; its jobs are for its workers in turn.

        Jobs whose run_at has come become ready first, and those whose lease ran out.
        """

    async def complete_many(
        self, entries: Sequence[Completion], now: datetime
    ) -> tuple[list[JobOutcome], list[tuple[TenantId, str]]]:
        """The outcomes, and queues in which jobs became ready that had waited for these."""

    async def fail_many(self, entries: Sequence[Failure], now: datetime) -> list[Failed]: ...

    async def beat_many(self, entries: Sequence[Heartbeat], now: datetime) -> list[JobOutcome]:
        """Leases that end `lease_s` from now."""

    async def release_many(self, handles: Sequence[JobHandle], now: datetime) -> None:
        """Undo leases whose workers left before they were answered."""

    async def cancel(self, tenant: TenantId, job_id: str, now: datetime) -> bool:
        """True when the job was pending. Those that wait for it are cancelled too."""

    async def get(self, tenant: TenantId, job_id: str) -> Job: ...

    async def attempts(self, tenant: TenantId, job_id: str) -> list[Attempt]:
        """Oldest first, the one under way last."""

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
        """Newest first, those older than `before`."""

    async def find_jobs(self, tenant: TenantId, wanted: JobFilter, *, before: str | None, limit: int) -> FoundJobs:
        """Jobs with a value in the payload, a tag, or both; newest first, those older than `before`."""

    async def find_ids(self, tenant: TenantId, wanted: JobFilter, limit: int) -> list[str]:
        """The ids of such jobs, newest first, without a bound on the time this takes."""

    async def index_values(self) -> int:
        """Prepare the payloads of new jobs for `find_jobs`, a bounded number at a time; 0 when nothing was left."""

    async def counts(self, tenant: TenantId | None, queue: str | None = None) -> list[tuple[TenantId, JobCounts]]:
        """By queue; (tenant None) of everyone's."""

    async def limits(self, tenant: TenantId, queue: str) -> JobLimits: ...

    async def set_limits(self, tenant: TenantId, queue: str, limits: JobLimits, actor: str, now: datetime) -> None: ...

    async def requeue_dead(
        self, tenant: TenantId, queue: str, ids: Sequence[str] | None, limit: int, actor: str, now: datetime
    ) -> int:
        """Dead jobs, the oldest or those named, as new ones; how many."""

    async def purge_dead(
        self, tenant: TenantId, queue: str, ids: Sequence[str] | None, limit: int, actor: str, now: datetime
    ) -> int: ...

    async def tend(self, retention: timedelta, limit: int, now: datetime) -> tuple[int, list[tuple[TenantId, str]]]:
        """Recover and promote what is due anywhere, forget what is old; the work done, and queues with ready jobs."""

    async def traces(self, ids: Sequence[str]) -> dict[str, str]:
        """By id, the traceparent of those jobs that were enqueued with one."""

    async def traced(self, tenant: TenantId, beginnings: Sequence[str], recent: int, limit: int) -> list[str]:
        """Ids of jobs whose traceparent begins with one of these texts, among the `recent` last that have one."""

    async def expect(self, tenant: TenantId, queue: str, now: datetime) -> None:
        """A worker of this node waits on the queue: for the next half minute, report enqueues of others.

        Reports come through `Store.watch`, with `WAITING_PREFIX` before the name of the queue.
        """
