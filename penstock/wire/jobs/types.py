"""The shapes of the jobs API. What parses a request is also what documents it.

Bounds are shown here and checked by the engine, whose words callers know.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock import limits
from penstock.model.jobs import AttemptOutcome, JobStatus


def _shown(bounds: tuple[int, int], text: str) -> Meta:
    return Meta(description=text, extra_json_schema={"minimum": bounds[0], "maximum": bounds[1]})


_Json = Annotated[Raw, Meta(description="Any JSON value.")]
_QueueName = Annotated[
    str,
    Meta(
        description="A queue of jobs exists by being named: 1 to 80 letters, digits, hyphens and underscores.",
        extra_json_schema={"pattern": r"^(?=.{1,80}$)[A-Za-z0-9_-]+(\.fifo)?$"},
    ),
]
_Priority = Annotated[int, _shown(limits.JOB_PRIORITY, "Higher ones are leased first.")]
_Retries = Annotated[int, _shown(limits.JOB_RETRIES, "How often it runs again after a failure or a lost lease.")]
_RunAt = Annotated[datetime, Meta(description="Not before this moment; UTC unless it says otherwise.")]
_UniqueKey = Annotated[str, Meta(description="A second job of the queue with this key is not stored.")]
_UniqueSeconds = Annotated[int, _shown(limits.JOB_UNIQUE_S, "How long the key stands for the first job.")]
_After = Annotated[
    list[str | int],
    Meta(description="Jobs that must be completed first: ids, or in a batch positions of earlier entries, from 0."),
]
_Tags = Annotated[list[str], Meta(description="Up to 20 texts of up to 100 characters, to find the job by.")]
_Delay = Annotated[float, _shown(limits.JOB_DELAY_S, "Seconds.")]
_Worker = Annotated[str, Meta(description="Who asks; kept with the attempt.")]
_LeaseSeconds = Annotated[int, _shown(limits.JOB_LEASE_S, "The lease ends so many seconds from now.")]
_Max = Annotated[int, _shown(limits.JOB_LEASE_LIMIT, "Up to so many jobs; the answer is then a list.")]
_Wait = Annotated[float, _shown(limits.JOB_WAIT_S, "Seconds to wait for a job.")]
_LeaseToken = Annotated[str, Meta(description="What the lease was answered with.")]
_Progress = Annotated[int, _shown((0, 100), "Per cent.")]
_Concurrency = Annotated[int, _shown(limits.JOB_CONCURRENCY, "Jobs in processing at one time; null for no limit.")]
_Rate = Annotated[float, Meta(description="Jobs that may start per second; null for no limit.")]
_Burst = Annotated[int, _shown(limits.JOB_CONCURRENCY, "Jobs that may start at once after a pause.")]


class Strict(Struct, forbid_unknown_fields=True):
    """A request says nothing that we would not hear."""


# Requests


class JobBackoff(Strict):
    """Seconds before each retry: doubling from base up to cap, or a list whose last entry repeats."""

    base: _Delay = 1.0
    cap: _Delay = 3600.0
    delays: list[float] = []


class NewJob(Strict):
    payload: _Json
    queue_name: _QueueName = "default"
    priority: _Priority = 0
    max_retries: _Retries = 3
    run_at: _RunAt | None = None
    unique_key: _UniqueKey | None = None
    unique_seconds: _UniqueSeconds | None = None
    backoff: JobBackoff | None = None
    after: _After | None = None
    tags: _Tags = []


class NewJobs(Strict):
    """Up to 1000 jobs: all of them are stored, or none."""

    jobs: list[NewJob]


class LeaseJobs(Strict):
    worker_id: _Worker
    lease_seconds: _LeaseSeconds = 30
    max: _Max | UnsetType = UNSET
    wait: _Wait = 0.0


class AckJob(Strict):
    lease_token: _LeaseToken
    result: Annotated[_Json, Meta(description="Any JSON value; null is no result.")] | UnsetType = UNSET


class NackJob(Strict):
    lease_token: _LeaseToken
    error: Annotated[str, Meta(description="Its last 10 000 characters are kept.")]
    retry: Annotated[bool, Meta(description="False: the job is dead at once.")] = True
    retry_after: Annotated[_Delay, Meta(description="Stands in for what the backoff says.")] | None = None
    spend_retry: Annotated[bool, Meta(description="False: the job runs again as if this attempt were not made.")] = True


class BeatJob(Strict):
    lease_token: _LeaseToken
    lease_seconds: _LeaseSeconds = 30
    progress: _Progress | None = None
    note: str | None = None


class JobLimits(Strict):
    """Of a queue, over all nodes. Also the answer."""

    concurrency: _Concurrency | None = None
    rate: _Rate | None = None
    burst: _Burst | None = None


class DeadJobs(Strict):
    """Those named, up to 1000, or else the oldest."""

    job_ids: list[str] | None = None
    limit: Annotated[int, _shown((1, 10_000), "So many at most.")] = 10_000


class JobsQuery(Strict):
    queue_name: str | None = None
    status: JobStatus | None = None
    tag: Annotated[str, Meta(description="Only jobs with this tag; the total then counts up to 1000.")] | None = None
    limit: Annotated[int, _shown(limits.JOB_PAGE, "Jobs at most.")] = 50
    offset: Annotated[int, _shown(limits.JOB_OFFSET, "Jobs to pass over.")] = 0
    cursor: Annotated[str, Meta(description="The next_cursor of the page before.")] | None = None


class NoQuery(Strict):
    """No parameter at all."""


# Answers


class EnqueuedJob(Struct):
    job_id: str
    status: Literal["queued", "existing"]


class EnqueuedJobs(Struct):
    """The ids in the order of the request."""

    job_ids: list[str]
    count: int


class JobState(Struct):
    job_id: str
    status: JobStatus


class NackedJob(Struct):
    job_id: str
    status: JobStatus
    run_at: datetime | None


class ExtendedLease(Struct):
    job_id: str
    status: Literal["lease_extended"]
    lease_expires_at: datetime


class RequeuedJobs(Struct):
    requeued: int


class PurgedJobs(Struct):
    purged: int


class JobAttempt(Struct):
    attempt: int
    worker_id: str
    started_at: datetime
    ended_at: datetime | None
    outcome: AttemptOutcome
    error: str | None


class Job(Struct, kw_only=True):
    id: str
    queue_name: str
    status: JobStatus
    priority: int
    payload: _Json
    result: _Json | None = None
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
    after: list[str] | UnsetType = UNSET
    waiting_for: Annotated[list[str], Meta(description="Those of after that are not completed.")] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    attempts: list[JobAttempt] | UnsetType = UNSET


class LeasedJob(Struct):
    job: Job
    lease_token: str
    lease_expires_at: datetime
    traceparent: str | UnsetType = UNSET
    """Of the span that enqueued it, if this server exports traces."""


class JobPage(Struct):
    items: list[Job]
    total: int
    limit: int
    offset: int
    next_cursor: str | None


class JobQueueStats(Struct):
    queue_name: str
    pending: int
    processing: int
    completed: int
    failed: int
    cancelled: int
    dead: int
    total: int
    oldest_pending_created_at: datetime | None


class Health(Struct):
    """`ok`, or `degraded` while the database is away."""

    status: str
