"""Jobs: enqueue, look, lease and report; limits of their queues, and dead jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from penstock.client.api import requests
from penstock.client.api.new_jobs import EncodedJob
from penstock.client.api.requests import PATIENCE_S, Answered, given, read_as, read_each, readable, segment, to_json
from penstock.client.exchange import Call, Exchange, Pause, Request, Retries, exchange

FINISHED = frozenset({"completed", "cancelled", "dead"})
PAGE = 200


class JobAttempt(Answered, frozen=True, kw_only=True):
    attempt: int
    worker_id: str
    started_at: datetime | None
    ended_at: datetime | None = None
    outcome: str
    error: str | None = None


class Job(Answered, frozen=True, kw_only=True):
    """A job as it was when the server was asked."""

    id: str
    queue_name: str = ""
    status: str = ""
    payload: Any = None
    result: Any = None
    error_text: str | None = None
    priority: int = 0
    retry_count: int = 0
    max_retries: int = 0
    attempt: int = 0
    lease_lost_count: int = 0
    worker_id: str | None = None
    progress: int | None = None
    progress_note: str | None = None
    run_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    lease_expires_at: datetime | None = None
    dead_reason: str | None = None
    after: tuple[str, ...] = ()
    """Like `waiting_for` and `tags` in the answers of `get` and `list`; empty in a leased job."""
    waiting_for: tuple[str, ...] = ()
    """Those of `after` that are not completed."""
    tags: tuple[str, ...] = ()
    attempts: tuple[JobAttempt, ...] = ()
    """Only in the answer of `get`."""
    unreadable: str | None = None
    """Why the payload or the result is None here although it is stored: Python cannot read it."""

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED


class LeasedJob(Answered, frozen=True, kw_only=True):
    """A job that is ours to run until the lease ends. The token proves it."""

    job: Job
    lease_token: str
    lease_expires_at: datetime | None = None
    traceparent: str | None = None
    """Of the span that enqueued it, if the server exports traces."""


class JobPage(Answered, frozen=True, kw_only=True):
    """Some jobs of a list; `next_cursor` is None at the end."""

    items: list[Job]
    total: int = 0
    limit: int = 0
    offset: int = 0
    next_cursor: str | None = None


class JobQueueStats(Answered, frozen=True, kw_only=True):
    queue_name: str
    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    dead: int
    total: int
    oldest_pending_created_at: datetime | None


class JobLimits(Answered, frozen=True, kw_only=True):
    """Of a queue, over all nodes; None is no limit."""

    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None


class NackedJob(Answered, frozen=True, kw_only=True):
    """What became of the job: pending again from `run_at` on, or dead."""

    job_id: str = ""
    status: str = ""
    run_at: datetime | None = None


class JobFailed(Exception):
    """The job that was waited for is dead or cancelled, and has no result."""

    def __init__(self, job: Job) -> None:
        self.job = job
        # The first line: what follows in the job's error_text is the traceback of the task.
        reason, _, _ = (job.error_text or "").partition("\n")
        super().__init__(f"job {job.id} is {job.status}" + (f": {reason}" if reason else ""))


# Producers


def enqueue(job: EncodedJob) -> Call[str]:
    request = Request("POST", "/v1/jobs", body=job.body, repeatable=job.repeatable)
    return Call(request, lambda found: str(found["job_id"]))


def enqueue_many(jobs: Sequence[EncodedJob]) -> Call[list[str]]:
    body = b'{"jobs":[' + b",".join(job.body for job in jobs) + b"]}"
    request = Request("POST", "/v1/jobs/batch", body=body, repeatable=all(job.repeatable for job in jobs))
    return Call(request, lambda found: list(found["job_ids"]))


def status(job_id: str) -> Call[str]:
    return Call(requests.get(_job(job_id)), lambda found: str(found["status"]))


def get(job_id: str) -> Call[Job]:
    """A job with its result and its attempts."""
    return Call(requests.get(f"{_job(job_id)}/detail"), job_of)


def attempts(job_id: str) -> Call[list[JobAttempt]]:
    """The attempts at a job, oldest first."""
    return Call(requests.get(f"{_job(job_id)}/attempts"), lambda found: [_attempt_of(each) for each in found])


def list_jobs(
    *,
    queue_name: str | None = None,
    status: str | None = None,
    tag: str | None = None,
    cursor: str | None = None,
    limit: int = PAGE,
    offset: int = 0,
) -> Call[JobPage]:
    """One page of jobs, newest first; `all` iterates over all pages."""
    query: dict[str, Any] = {"queue_name": queue_name, "status": status, "tag": tag, "cursor": cursor}
    query |= {"limit": limit, "offset": offset or None}
    return Call(requests.get("/v1/jobs", query), _page)


def cancel(job_id: str) -> Call[None]:
    """Cancel a pending job; `JobNotFound` for any other."""
    return Call(requests.post(f"{_job(job_id)}/cancel"), requests.nothing)


# Workers


def lease(
    queue_name: str, worker_id: str, *, max: int = 1, lease_seconds: int = 30, wait: float = 0.0
) -> Call[list[LeasedJob]]:
    """Up to `max` jobs, each ours for `lease_seconds`; waits up to `wait` seconds for the first."""
    body: dict[str, Any] = {"worker_id": worker_id, "lease_seconds": lease_seconds, "max": max}
    if wait:
        body["wait"] = wait
    # Sent twice it may lease twice; jobs of a lost answer are available again when their lease ends.
    request = Request("POST", f"{_queue(queue_name)}/lease", body=to_json(body), timeout_s=wait + PATIENCE_S)
    return Call(request, lambda found: [leased_of(each) for each in found or ()])


def ack(leased: LeasedJob, result: Any = None) -> Call[None]:
    """Report success, with a result that is any JSON value."""
    body = given(lease_token=leased.lease_token, result=result)
    return Call(requests.post(f"{_job(leased.job.id)}/ack", body), requests.nothing)


def nack(
    leased: LeasedJob, error: str, *, retry: bool = True, retry_after: float | None = None, spend_retry: bool = True
) -> Call[NackedJob]:
    """Report failure. Without `retry` the job is dead; `retry_after` stands in for its backoff. Without `spend_retry`
    the job goes back as if this attempt had not been made."""
    body = given(lease_token=leased.lease_token, error=error, retry=retry, retry_after=retry_after)
    if not spend_retry:
        body["spend_retry"] = False
    return Call(requests.post(f"{_job(leased.job.id)}/nack", body), read_as(NackedJob))


def heartbeat(
    leased: LeasedJob, *, lease_seconds: int = 30, progress: int | None = None, note: str | None = None
) -> Call[None]:
    """Extend the lease to `lease_seconds` from now, and report progress from 0 to 100."""
    body = given(lease_token=leased.lease_token, lease_seconds=lease_seconds, progress=progress, note=note)
    path = f"{_job(leased.job.id)}/heartbeat"
    # There must be time for another one before the lease ends.
    return Call(Request("POST", path, body=to_json(body), timeout_s=max(lease_seconds / 3, 1.0)), requests.nothing)


# Queues of jobs


def queues() -> Call[list[JobQueueStats]]:
    """How many jobs of each status every queue has."""
    return Call(requests.get("/v1/job-queues"), read_each(JobQueueStats))


def limits(queue_name: str) -> Call[JobLimits]:
    return Call(requests.get(f"{_queue(queue_name)}/limits"), read_as(JobLimits))


def set_limits(
    queue_name: str, *, concurrency: int | None = None, rate: float | None = None, burst: int | None = None
) -> Call[JobLimits]:
    """Limit a queue over all workers; what is left out is not limited."""
    body = {"concurrency": concurrency, "rate": rate, "burst": burst}
    return Call(requests.put(f"{_queue(queue_name)}/limits", body), read_as(JobLimits))


def requeue_dead(queue_name: str, job_ids: Iterable[str] | None = None, *, limit: int = 10_000) -> Call[int]:
    """Make dead jobs pending again with all their retries: those named, or the oldest; their number."""
    body = _dead(job_ids, limit)
    return Call(requests.post(f"{_queue(queue_name)}/dead/requeue", body), lambda found: int(found["requeued"]))


def purge_dead(queue_name: str, job_ids: Iterable[str] | None = None, *, limit: int = 10_000) -> Call[int]:
    """Delete dead jobs: those named, or the oldest; their number."""
    body = _dead(job_ids, limit)
    return Call(requests.post(f"{_queue(queue_name)}/dead/purge", body), lambda found: int(found["purged"]))


# Calls that are made of several


FIRST_LOOK_S = 0.02
LONGEST_LOOK_S = 1.0


def wait(job_id: str, timeout: float | None, retries: Retries) -> Exchange[Any]:
    """Look again and again, less and less often, until the job is finished: its result, or `JobFailed`."""
    waited, pause = 0.0, FIRST_LOOK_S
    while True:
        job = yield from exchange(get(job_id), retries)
        if job.status == "completed":
            return job.result
        if job.is_finished:
            raise JobFailed(job)
        if timeout is not None and waited >= timeout:
            raise TimeoutError(f"job {job_id} is still {job.status} after {timeout} s")
        left = pause if timeout is None else min(pause, timeout - waited)
        yield Pause(left)
        waited += left
        pause = min(pause * 1.5, LONGEST_LOOK_S)


# Answers


def job_of(found: Mapping[str, Any]) -> Job:
    """Lenient: a summary has fewer fields, and a moment that Python cannot represent is None."""
    plain = readable({**found, "id": str(found["id"])})
    fields = {name: plain[name] for name in Job.__struct_fields__ if plain.get(name) is not None}
    for name in _MOMENTS & fields.keys():
        fields[name] = moment_of(fields[name])
    for name in ("after", "waiting_for", "tags"):
        fields[name] = tuple(fields.get(name, ()))
    fields["attempts"] = tuple(_attempt_of(each) for each in fields.get("attempts", ()))
    return Job(**fields)


_MOMENTS = frozenset({"run_at", "created_at", "updated_at", "started_at", "finished_at", "lease_expires_at"})


def _attempt_of(found: Mapping[str, Any]) -> JobAttempt:
    moments = {name: moment_of(found.get(name)) for name in ("started_at", "ended_at")}
    fields: dict[str, Any] = {name: found.get(name) for name in JobAttempt.__struct_fields__}
    return JobAttempt(**fields | moments)


def leased_of(found: Mapping[str, Any]) -> LeasedJob:
    return LeasedJob(
        job=job_of(found["job"]),
        lease_token=found["lease_token"],
        lease_expires_at=moment_of(found.get("lease_expires_at")),
        traceparent=found.get("traceparent"),
    )


def _page(found: Any) -> JobPage:
    rest = {name: found[name] for name in ("total", "limit", "offset", "next_cursor") if name in found}
    return JobPage(items=[job_of(each) for each in found["items"]], **rest)


def moment_of(text: str | None) -> datetime | None:
    """None also for a moment that Python cannot represent."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def _dead(job_ids: Iterable[str] | None, limit: int) -> dict[str, Any]:
    return given(job_ids=None if job_ids is None else list(job_ids), limit=limit)


def _job(job_id: str) -> str:
    return f"/v1/jobs/{segment(job_id)}"


def _queue(queue_name: str) -> str:
    return f"/v1/job-queues/{segment(queue_name)}"
