"""A producer and worker of one tenant: the store's verbs with the batch of one and the time filled in."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from penstock.clock import FakeClock
from penstock.model.jobs import (
    AttemptOutcome,
    Completion,
    Enqueued,
    Failed,
    Failure,
    Heartbeat,
    Job,
    JobOutcome,
    JobStatus,
    Leased,
    LeasedJob,
    LeaseRequest,
    NewJob,
)
from penstock.model.tenants import TenantId
from penstock.store import Store


class Worker:
    def __init__(self, store: Store, tenant: TenantId, clock: FakeClock) -> None:
        self.store, self.tenant, self.clock = store, tenant, clock
        self.jobs = store.jobs
        self.ready: list[tuple[TenantId, str]] = []
        """Queues in which the last completion made jobs ready."""

    async def enqueue_one(self, queue: str = "work", payload: object = None, **fields: Any) -> Enqueued:
        entry = NewJob(tenant=self.tenant, queue=queue, payload=json.dumps(payload), **fields)
        [made] = await self.jobs.enqueue_many([entry], self.clock.now())
        return made

    async def enqueue(self, queue: str = "work", *payloads: object, **fields: Any) -> list[str]:
        return [(await self.enqueue_one(queue, payload, **fields)).id for payload in payloads or (None,)]

    async def ask(self, queue: str = "work", limit: int = 1, lease_s: int = 30, worker: str = "ada") -> Leased:
        request = LeaseRequest(tenant=self.tenant, queue=queue, lease_s=lease_s, workers=[worker] * limit)
        [leased] = await self.jobs.lease_many([request], self.clock.now())
        return leased

    async def lease(self, queue: str = "work", limit: int = 1, **fields: Any) -> list[LeasedJob]:
        return (await self.ask(queue, limit, **fields)).jobs

    async def lease_one(self, queue: str = "work", **fields: Any) -> LeasedJob:
        [job] = await self.lease(queue, **fields)
        return job

    async def payloads(self, queue: str = "work", limit: int = 100) -> list[object]:
        return [json.loads(job.payload) for job in await self.lease(queue, limit)]

    async def complete(self, job: LeasedJob, result: str | None = None, *, token: str | None = None) -> JobOutcome:
        entry = Completion(tenant=self.tenant, id=job.id, token=token or job.token, result=result)
        [outcome], self.ready = await self.jobs.complete_many([entry], self.clock.now())
        return outcome

    async def fail(self, job: LeasedJob, error: str = "broken", **fields: Any) -> Failed:
        entry = Failure(tenant=self.tenant, id=job.id, token=job.token, error=error, **fields)
        [failed] = await self.jobs.fail_many([entry], self.clock.now())
        return failed

    async def beat(self, job: LeasedJob, lease_s: int = 30, **fields: Any) -> JobOutcome:
        entry = Heartbeat(tenant=self.tenant, id=job.id, token=job.token, lease_s=lease_s, **fields)
        [outcome] = await self.jobs.beat_many([entry], self.clock.now())
        return outcome

    async def get(self, job_id: str) -> Job:
        return await self.jobs.get(self.tenant, job_id)

    async def status(self, job_id: str) -> JobStatus:
        return (await self.get(job_id)).status

    async def outcomes(self, job_id: str) -> list[tuple[int, AttemptOutcome]]:
        return [(one.attempt, one.outcome) for one in await self.jobs.attempts(self.tenant, job_id)]

    async def list_ids(self, status: JobStatus | None = None, queue: str | None = None, **page: Any) -> list[str]:
        statuses = [status] if status else list(JobStatus)
        page = {"before": None, "limit": 100, "offset": 0, **page}
        return [job.id for job in await self.jobs.list_jobs(self.tenant, queue=queue, statuses=statuses, **page)]

    async def counts(self, queue: str = "work") -> dict[str, int]:
        [(_, counts)] = await self.jobs.counts(self.tenant, queue)
        names = ("pending", "processing", "completed", "cancelled", "dead")
        return {name: getattr(counts, name) for name in names if getattr(counts, name)}

    async def tend(self, retention: timedelta = timedelta(days=3000)) -> int:
        done, _ = await self.jobs.tend(retention, 1000, self.clock.now())
        return done
