"""Jobs between the wire and the engine: what a request says, as the model has it, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from msgspec import UNSET, Raw

from penstock.errors import Invalid
from penstock.model import jobs as model
from penstock.model.tenants import TenantId
from penstock.wire.http.bodies import json_text
from penstock.wire.jobs import types as shapes


def new_jobs(tenant: TenantId, given: Sequence[shapes.NewJob]) -> list[model.NewJob]:
    """Jobs of a batch: positions in `after` name earlier entries."""
    made: list[model.NewJob] = []
    for position, one in enumerate(given):
        new = new_job(tenant, one)
        new.after = [after if isinstance(after, str) else _earlier(made, after, position) for after in one.after or ()]
        made.append(new)
    return made


def _earlier(made: Sequence[model.NewJob], after: int, position: int) -> model.NewJob:
    if not 0 <= after < position:
        raise Invalid(f"after must have ids, or positions of earlier entries of the batch, not {after}", field="after")
    return made[after]


def new_job(tenant: TenantId, given: shapes.NewJob) -> model.NewJob:
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
        tags=given.tags,
        unique_s=given.unique_seconds,
        backoff=model.Backoff(base_s=backoff.base, cap_s=backoff.cap, delays_s=tuple(backoff.delays))
        if backoff is not None
        else None,
    )


def leased(found: model.LeasedJob) -> shapes.LeasedJob:
    job = shapes.Job(
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
    return shapes.LeasedJob(job, found.token, found.expires_at, UNSET if found.trace is None else found.trace)


def job(found: model.Job, attempts: list[model.Attempt] | None = None) -> shapes.Job:
    return shapes.Job(
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
        after=list(found.after) or UNSET,
        waiting_for=list(found.waiting_for) or UNSET,
        tags=list(found.tags) or UNSET,
        attempts=UNSET if attempts is None else [attempt(one) for one in attempts],
    )


def attempt(found: model.Attempt) -> shapes.JobAttempt:
    return shapes.JobAttempt(found.attempt, found.worker, found.started_at, found.ended_at, found.outcome, found.error)


def stats(found: model.JobCounts) -> shapes.JobQueueStats:
    return shapes.JobQueueStats(
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
