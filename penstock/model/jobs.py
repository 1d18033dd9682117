"""Jobs: what is enqueued, leased and reported; their ids; and when a failed one runs again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from penstock.model.tenants import TenantId

SPREAD = 0.2
"""How much longer than its delay a retry may wait, as a part of it: what failed together comes back apart."""


WAITING_PREFIX = "jobs/"
"""Workers wait for the jobs of a queue under its name with this prefix: no queue of messages has such a name. The SQL
function `announce_jobs` uses the same."""


class JobStatus(StrEnum):
    PENDING = "pending"
    """Can be leased, now or from its run_at on."""
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    """Passing: a failed attempt leaves its job pending again, or dead."""
    CANCELLED = "cancelled"
    DEAD = "dead"


class AttemptOutcome(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    LOST = "lost"
    """The lease ran out before the worker reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long a failed job waits: doubling from `base_s` up to `cap_s`, or as `delays_s` lists it."""

    base_s: float = 1.0
    cap_s: float = 3600.0
    delays_s: tuple[float, ...] = ()

    def delay_s(self, retries: int, spread: float = 0.0) -> float:
        """Seconds before the next attempt after so many retries; `spread` is a random number below one.

        A list is kept to exactly; its last entry repeats.
        """
        if self.delays_s:
            return self.delays_s[min(retries, len(self.delays_s) - 1)]
        return min(self.base_s * 2.0 ** min(retries, 60), self.cap_s) * (1 + SPREAD * spread)


DEFAULT_BACKOFF = Backoff()


@dataclass(slots=True, kw_only=True)
class NewJob:
    tenant: TenantId
    queue: str
    payload: str
    """JSON."""
    priority: int = 0
    max_retries: int = 3
    run_at: datetime | None = None
    backoff: Backoff | None = None
    unique_key: str | None = None
    unique_s: int | None = None
    trace: str | None = None
    """The traceparent of its producer, on servers that export traces."""
    after: Sequence[str | NewJob] = ()
    """Jobs that must be completed first: ids, or earlier entries of the same batch."""
    tags: Sequence[str] = ()
    """Texts to find it by."""


@dataclass(slots=True)
class Enqueued:
    id: str
    existing: bool = False
    """The unique key stood for this job already; nothing was stored."""


@dataclass(slots=True, kw_only=True)
class LeaseRequest:
    """A request for jobs, one for each of `workers`."""

    tenant: TenantId
    queue: str
    lease_s: int
    workers: Sequence[str]


@dataclass(slots=True)
class LeasedJob:
    id: str
    queue: str
    token: str
    expires_at: datetime
    payload: str
    priority: int
    attempts: int
    retry_count: int
    max_retries: int
    lease_lost_count: int
    run_at: datetime
    created_at: datetime
    started_at: datetime
    leased_at: datetime
    worker: str
    error: str | None
    trace: str | None = None
    """As `NewJob.trace`."""


@dataclass(slots=True)
class Leased:
    jobs: list[LeasedJob]
    next_due_at: datetime | None = None
    """When nothing was found: when it is worth looking again, if that is known."""
    crowded_out: bool = False
    """Nothing was found because requests that shared the claim filled it. There may be more jobs."""


@dataclass(slots=True, kw_only=True)
class JobHandle:
    """Names a job under its lease. Only the holder of the current token may report on it."""

    tenant: TenantId
    id: str
    token: str


@dataclass(slots=True, kw_only=True)
class Completion(JobHandle):
    result: str | None = None
    """JSON."""


@dataclass(slots=True, kw_only=True)
class Failure(JobHandle):
    error: str
    retry: bool = True
    counts: bool = True
    """False: the attempt spends no retry."""
    retry_after_s: float | None = None
    """Instead of what the job's backoff says."""
    spread: float = 0.0
    """For `Backoff.delay_s`."""


@dataclass(slots=True, kw_only=True)
class Heartbeat(JobHandle):
    lease_s: int
    progress: int | None = None
    note: str | None = None


class JobOutcome(StrEnum):
    DONE = "done"
    STALE = "stale"
    """The job is there, but not held under this token."""
    ABSENT = "absent"


@dataclass(slots=True)
class Failed:
    """What became of a job whose attempt failed. Without a moment to run again it is dead."""

    outcome: JobOutcome
    run_at: datetime | None = None
    queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    id: str
    tenant: TenantId
    queue: str
    status: JobStatus
    priority: int
    payload: str
    result: str | None
    error: str | None
    dead_reason: str | None
    retry_count: int
    max_retries: int
    attempts: int
    lease_lost_count: int
    progress: int | None
    note: str | None
    worker: str | None
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    leased_at: datetime | None
    finished_at: datetime | None
    lease_expires_at: datetime | None
    after: tuple[str, ...] = ()
    waiting_for: tuple[str, ...] = ()
    """Those of `after` that are not completed."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a search is for. A value is anywhere in the payload; numbers and texts are compared as written."""

    value: str | None = None
    tag: str | None = None
    queue: str | None = None
    status: JobStatus | None = None

    @property
    def statuses(self) -> Sequence[JobStatus]:
        return [self.status] if self.status is not None else list(JobStatus)


@dataclass(frozen=True, slots=True)
class FoundJobs:
    jobs: list[Job]
    """Newest first."""
    next: str | None
    """Where the search goes on, as `before`. A search that takes long ends early, so there may be a next page even
    when this one is not full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    attempt: int
    worker: str
    started_at: datetime
    ended_at: datetime | None
    outcome: AttemptOutcome
    error: str | None


def with_edges(job: Job, after: Sequence[tuple[str, bool]]) -> Job:
    """The job with what it comes after: ids, and whether they are completed."""
    waiting = tuple(job_id for job_id, done in after if not done)
    return replace(job, after=tuple(job_id for job_id, _ in after), waiting_for=waiting)


def running_attempt(job: Job) -> list[Attempt]:
    """The attempt under way, if one is: it is known by the job alone."""
    if job.status is not JobStatus.PROCESSING or job.leased_at is None:
        return []
    return [
        Attempt(
            attempt=job.attempts,
            worker=job.worker or "",
            started_at=job.leased_at,
            ended_at=None,
            outcome=AttemptOutcome.RUNNING,
            error=None,
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    queue: str
    pending: int
    processing: int
    completed: int
    cancelled: int
    dead: int
    oldest_pending_created_at: datetime | None

    @property
    def total(self) -> int:
        return self.pending + self.processing + self.completed + self.cancelled + self.dead


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """What a queue allows, over all nodes. None limits nothing."""

    concurrency: int | None = None
    """Jobs in processing at one time."""
    rate: float | None = None
    """Jobs started per second."""
    burst: int | None = None
    """Jobs that may start at once after a pause; a second's worth when None."""


def has_value(document: str, value: str) -> bool:
    """Whether a JSON document has this value anywhere: a text, a number as written, `true` or `false`."""
    if value not in document and "\\" not in document:
        return False
    try:
        waiting: list[Any] = [json.loads(document, parse_int=str, parse_float=str)]
    except (ValueError, RecursionError):
        return False
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif (str(item).lower() if isinstance(item, bool) else item) == value:
            return True
    return False


def edges(entries: Sequence[NewJob]) -> list[tuple[int, str | int]]:
    """By position of an entry, what it comes after: an id, or the position of an earlier entry."""
    if not any(entry.after for entry in entries):
        return []
    positions = {id(entry): position for position, entry in enumerate(entries)}
    return [
        (position, after if isinstance(after, str) else positions[id(after)])
        for position, entry in enumerate(entries)
        for after in entry.after
    ]


class JobIds:
    """Job ids of one database: UUIDs (of version 8) that hold the number of the job and its queue.

    `NNNNNNNN-NNNN-8NNN-8SSS-SSSSQQQQQQQQ`: the number, so that ids sort by age; a salt, so that two databases give
    different ids; the queue, so that one key finds the job.
    """

    def __init__(self, salt: str) -> None:
        self._salt = f"8{salt[:3]}-{salt[3:]}"
        """Seven hexadecimal digits, as they stand in an id."""

    def encode(self, queue: int, number: int) -> str:
        digits = f"{number:015x}"
        return f"{digits[:8]}-{digits[8:12]}-8{digits[12:]}-{self._salt}{queue:08x}"

    def decode(self, text: str) -> tuple[int, int] | None:
        """Queue and number; None for anything that is no id of this database."""
        text = text.lower()
        if len(text) != 36 or text[19:28] != self._salt or not text.isascii():
            return None
        if text[8] != "-" or text[13:15] != "-8" or text[18] != "-":
            return None
        number, queue = text[:8] + text[9:13] + text[15:18], text[28:]
        if not (number + queue).isalnum():
            return None
        try:
            found = int(queue, 16), int(number, 16)
        except ValueError:
            return None
        return found if found[0] < 1 << 31 else None
