"""The shapes of the jobs API: what parses a request, and what is answered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from penstock.model import jobs as model
from penstock.model.tenants import TenantId
from penstock.wire.bodies import json_text


class Strict(Struct, forbid_unknown_fields=True):
    """A request says nothing that we would not hear."""


class Backoff(Strict):
    base: float = 1.0
    cap: float = 3600.0
    delays: list[float] = []


class NewJob(Strict):
    payload: Raw
    queue_name: str = "default"
    priority: int = 0
    max_retries: int = 3
    run_at: datetime | None = None
    unique_key: str | None = None
    unique_seconds: int | None = None
    backoff: Backoff | None = None


class NewJobs(Strict):
    jobs: list[NewJob]


class LeaseJobs(Strict):
    worker_id: str
    lease_seconds: int = 30
    max: int | UnsetType = UNSET
    wait: float = 0.0


class Ack(Strict):
    lease_token: str
    result: Raw = Raw()
    """Any JSON value. Empty when it was not given; null is no result either."""


class Nack(Strict):
    lease_token: str
    error: str
    retry: bool = True
    retry_after: float | None = None


class Beat(Strict):
    lease_token: str
    lease_seconds: int = 30
    progress: int | None = None
    note: str | None = None


class Limits(Strict):
    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None


class DeadJobs(Strict):
    job_ids: list[str] | None = None
    limit: int = 10_000


class ListQuery(Strict):
    queue_name: str | None = None
    status: Literal["pending", "processing", "completed", "failed", "cancelled", "dead"] | None = None
    limit: int = 50
    offset: int = 0
    cursor: str | None = None


class NoQuery(Strict):
    """No parameter at all."""


class Attempt(Struct):
    attempt: int
    worker_id: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    error: str | None


class Job(Struct, kw_only=True):
    id: str
    queue_name: str
    status: str
    priority: int
    payload: Raw
    result: Raw | None = None
    error_text: str | None = None
    retry_count: int
    max_retries: int
    attempt: int
    lease_lost_count: int
    worker_id: str | None = None
    progress: int | None = None
    progress_note: str | None = None
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    lease_expires_at: datetime | None = None
    dead_reason: str | None = None
    attempts: list[Attempt] | UnsetType = UNSET


class Leased(Struct):
    job: Job
    lease_token: str
    lease_expires_at: datetime


class JobPage(Struct):
    items: list[Job]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


class QueueStats(Struct):
    queue_name: str
    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    dead: int
    total: int
    oldest_pending_created_at: datetime | None


def new_job(tenant: TenantId, given: NewJob) -> model.NewJob:
    run_at, backoff = given.run_at, given.backoff
    if run_at is not None and run_at.tzinfo is None:
        run_at = run_at.replace(tzinfo=UTC)
    return model.NewJob(
        tenant=tenant,
        queue=given.queue_name,
        payload=json_text("payload", given.payload),
        priority=given.priority,
        max_retries=given.max_retries,
        run_at=run_at,
        unique_key=given.unique_key,
        unique_s=given.unique_seconds,
        backoff=model.Backoff(base_s=backoff.base, cap_s=backoff.cap, delays_s=tuple(backoff.delays))
        if backoff is not None
        else None,
    )


def leased(found: model.LeasedJob) -> Leased:
    job = Job(
        id=found.id,
        queue_name=found.queue,
        status=model.JobStatus.PROCESSING,
        priority=found.priority,
        payload=Raw(found.payload.encode()),
        error_text=found.error,
        retry_count=found.retry_count,
        max_retries=found.max_retries,
        attempt=found.attempts,
        lease_lost_count=found.lease_lost_count,
        worker_id=found.worker,
        run_at=found.run_at,
        created_at=found.created_at,
        updated_at=found.leased_at,
        started_at=found.started_at,
        lease_expires_at=found.expires_at,
    )
    return Leased(job, found.token, found.expires_at)


def job(found: model.Job, attempts: list[model.Attempt] | None = None) -> Job:
    return Job(
        id=found.id,
        queue_name=found.queue,
        status=found.status,
        priority=found.priority,
        payload=Raw(found.payload.encode()),
        result=Raw(found.result.encode()) if found.result is not None else None,
        error_text=found.error,
        retry_count=found.retry_count,
        max_retries=found.max_retries,
        attempt=found.attempts,
        lease_lost_count=found.lease_lost_count,
        worker_id=found.worker,
        progress=found.progress,
        progress_note=found.note,
        run_at=found.run_at,
        created_at=found.created_at,
        updated_at=found.updated_at,
        started_at=found.started_at,
        finished_at=found.finished_at,
        lease_expires_at=found.lease_expires_at,
        dead_reason=found.dead_reason,
        attempts=UNSET if attempts is None else [attempt(one) for one in attempts],
    )


def attempt(found: model.Attempt) -> Attempt:
    return Attempt(found.attempt, found.worker, found.started_at, found.ended_at, found.outcome, found.error)


def stats(found: model.JobCounts) -> QueueStats:
    return QueueStats(
        found.queue,
        found.pending,
        found.processing,
        found.completed,
        0,
        found.cancelled,
        found.dead,
        found.total,
        found.oldest_pending_created_at,
    )
