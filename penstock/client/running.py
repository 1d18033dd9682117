"""A job under way: what its task sees of it, and how long it is still ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.client.api.jobs import LeasedJob
from penstock.errors import Invalid, LeaseStale

AGAIN = 0.1
"""After a heartbeat that failed the next follows in this part of the lease."""


class Lease:
    """When a lease wants renewing and when it is over, by our own clock; the moments are those of `loop.time()`."""

    def __init__(self, seconds: float, since: float) -> None:
        self.seconds = seconds
        self.renewed(since)

    def renewed(self, since: float) -> None:
        """`since` is when it was asked for: the server counts from then or later, so we never hold too long."""
        self.beat_at = since + self.seconds / 3
        self.ends_at = since + self.seconds

    def not_renewed(self, now: float) -> None:
        self.beat_at = now + self.seconds * AGAIN


class RunningJob:
    """What a task is called with. `progress` and `check` may be called from any thread, and raise `LeaseStale` once
    the job is no longer ours: another worker may have it, and what this one still does is in vain."""

    def __init__(self, leased: LeasedJob, lease: Lease, wake: Callable[[], None]) -> None:
        self.job = leased.job
        self.id = leased.job.id
        self.token = leased.lease_token
        self.queue_name = leased.job.queue_name
        self.attempt = leased.job.attempt
        """1 at the first attempt."""
        self.payload: Any = leased.job.payload
        self.leased = leased
        self.lease = lease
        self.is_lost = False
        self.is_settled = False
        """Its outcome is on the way to the server."""
        self.in_thread = False
        self.reported: tuple[int | None, str | None] | None = None
        """Progress that the server has not been told."""
        self._wake = wake

    def __repr__(self) -> str:
        return f"<RunningJob {self.id} of queue {self.queue_name}, attempt {self.attempt}>"

    def progress(self, percent: int, note: str | None = None) -> None:
        """Tell how far the job is; goes with a heartbeat, soon."""
        self.check()
        if not 0 <= percent <= 100:
            raise Invalid("progress is a number from 0 to 100", field="progress")
        self.reported = (percent, note)
        self._wake()

    def take_report(self) -> tuple[int | None, str | None] | None:
        told, self.reported = self.reported, None
        return told

    def report_again(self, told: tuple[int | None, str | None] | None) -> None:
        """It did not arrive; a later report is worth more."""
        if self.reported is None:
            self.reported = told

    def check(self) -> None:
        if self.is_lost:
            raise LeaseStale(f"the lease of job {self.id} is lost")
