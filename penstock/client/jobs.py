"""What the server tells of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from penstock.client.reading import Unreadable

FINISHED = frozenset({"completed", "cancelled", "dead"})


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was when the server was asked. What the answer did not tell is None."""

    id: str
    queue: str
    status: str
    payload: Any = None
    result: Any = None
    error: str | None = None
    priority: int = 0
    retry_count: int = 0
    max_retries: int = 0
    lease_lost_count: int = 0
    progress: int | None = None
    note: str | None = None
    dead_reason: str | None = None
    run_at: datetime | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempts: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    unreadable: str | None = None
    """Why the payload or the result is None here although it is stored: Python cannot read it."""

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A job that is ours to run until the lease ends. The token proves it."""

    job: Job
    lease_token: str
    lease_expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs of a list, and where the next ones begin."""

    jobs: tuple[Job, ...]
    next: str | None


class JobFailed(Exception):
    """The job that was waited for is dead or cancelled, and has no result."""

    def __init__(self, job: Job) -> None:
        self.job = job
        super().__init__(f"job {job.id} is {job.status}" + (f": {job.error}" if job.error else ""))


def job_of(found: Mapping[str, Any]) -> Job:
    """Lenient: a newer server may send more fields, and a summary has fewer."""
    unreadable = [f"{name}: {value.reason}" for name, value in found.items() if isinstance(value, Unreadable)]
    found = {name: None if isinstance(value, Unreadable) else value for name, value in found.items()}
    return Job(
        id=str(found["id"]),
        queue=found.get("queue_name", ""),
        status=found.get("status", ""),
        payload=found.get("payload"),
        result=found.get("result"),
        error=found.get("error_text"),
        priority=found.get("priority") or 0,
        retry_count=found.get("retry_count") or 0,
        max_retries=found.get("max_retries") or 0,
        lease_lost_count=found.get("lease_lost_count") or 0,
        progress=found.get("progress"),
        note=found.get("progress_note"),
        dead_reason=found.get("dead_reason"),
        run_at=moment_of(found.get("run_at")),
        created_at=moment_of(found.get("created_at")),
        started_at=moment_of(found.get("started_at")),
        finished_at=moment_of(found.get("finished_at")),
        attempts=tuple(found.get("attempts") or ()),
        unreadable="; ".join(unreadable) or None,
    )


def leased_of(found: Mapping[str, Any]) -> LeasedJob:
    return LeasedJob(job_of(found["job"]), found["lease_token"], moment_of(found.get("lease_expires_at")))


def moment_of(text: str | None) -> datetime | None:
    """None also for a moment that Python cannot represent."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
