"""Jobs under random use, beside a model small enough to be believed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.clock import FakeClock
from penstock.model.jobs import JobOutcome, LeasedJob
from penstock.store import Store
from tests.store.jobs.worker import Worker
from tests.store.machines import Run, run_machine

QUEUE = "work"


@dataclass
class Known:
    """A job as the model knows it."""

    id: str
    number: int
    priority: int
    max_retries: int
    run_at: datetime
    status: str = "pending"
    token: str | None = None
    lease_ends: datetime | None = None
    attempts: int = 0
    retries: int = 0
    outcomes: list[str] = field(default_factory=list)

    def end(self, status: str, outcome: str) -> None:
        self.status, self.token = status, None
        self.outcomes.append(outcome)

    def try_again(self, outcome: str, at: datetime, *, allowed: bool = True) -> None:
        """Pending again while retries are left, else dead."""
        left = allowed and self.retries < self.max_retries
        self.end("pending" if left else "dead", outcome)
        if left:
            self.retries += 1
            self.run_at = at


class Machine(RuleBasedStateMachine):
    def __init__(self, store: Store, run: Run[Any]) -> None:
        super().__init__()
        self.run = run
        self.clock = FakeClock()
        tenant = run(store.create_tenant(f"tenant-{uuid4().hex}", self.clock.now()))
        self.worker = Worker(store, tenant.id, self.clock)
        self.jobs: dict[str, Known] = {}
        self.leases: list[LeasedJob] = []

    def recover(self) -> None:
        """What a look at the queue does first: leases that ran out count as failed attempts."""
        for job in self.jobs.values():
            if job.status == "processing" and job.lease_ends is not None and job.lease_ends <= self.clock.now():
                job.try_again("lost", self.clock.now())

    @rule(priority=st.sampled_from([-5, 0, 0, 7]), retries=st.integers(0, 2), delay=st.sampled_from([0, 0, 4]))
    def enqueue(self, priority: int, retries: int, delay: int) -> None:
        run_at = self.clock.now() + timedelta(seconds=delay)
        made = self.worker.enqueue_one(QUEUE, None, priority=priority, max_retries=retries, run_at=run_at)
        job_id = self.run(made).id
        self.jobs[job_id] = Known(job_id, len(self.jobs), priority, retries, run_at)

    @rule(limit=st.integers(1, 3), lease_s=st.sampled_from([2, 10]))
    def lease(self, limit: int, lease_s: int) -> None:
        self.recover()
        ready = [job for job in self.jobs.values() if job.status == "pending" and job.run_at <= self.clock.now()]
        expected = sorted(ready, key=lambda job: (-job.priority, job.number))[:limit]

        leased = self.run(self.worker.lease(QUEUE, limit, lease_s=lease_s))

        assert [job.id for job in leased] == [job.id for job in expected]
        for found, job in zip(leased, expected, strict=True):
            job.status, job.token, job.attempts = "processing", found.token, job.attempts + 1
            job.lease_ends = self.clock.now() + timedelta(seconds=lease_s)
            assert found.attempts == job.attempts
        self.leases += leased

    def _is_held(self, lease: LeasedJob) -> bool:
        return self.jobs[lease.id].token == lease.token

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        held = self._is_held(lease)

        assert self.run(self.worker.complete(lease)) is (JobOutcome.DONE if held else JobOutcome.STALE)

        if held:
            self.jobs[lease.id].end("completed", "completed")

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), retry=st.booleans(), after=st.sampled_from([0.0, 3.0]))
    def fail(self, data: st.DataObject, retry: bool, after: float) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        held = self._is_held(lease)

        failed = self.run(self.worker.fail(lease, retry=retry, retry_after_s=after))

        assert failed.outcome is (JobOutcome.DONE if held else JobOutcome.STALE)
        if held:
            at = self.clock.now() + timedelta(seconds=after)
            self.jobs[lease.id].try_again("failed", at, allowed=retry)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), lease_s=st.sampled_from([1, 8]))
    def beat(self, data: st.DataObject, lease_s: int) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        held = self._is_held(lease)

        assert self.run(self.worker.beat(lease, lease_s)) is (JobOutcome.DONE if held else JobOutcome.STALE)

        if held:
            self.jobs[lease.id].lease_ends = self.clock.now() + timedelta(seconds=lease_s)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(list(self.jobs.values())))

        cancelled = self.run(self.worker.jobs.cancel(self.worker.tenant, job.id, self.clock.now()))

        assert cancelled is (job.status == "pending")
        if cancelled:
            job.status = "cancelled"

    @rule(seconds=st.sampled_from([1, 3, 11]))
    def advance(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    @invariant()
    def counts_agree(self) -> None:
        if self.jobs:
            assert self.run(self.worker.counts(QUEUE)) == Counter(job.status for job in self.jobs.values())

    def teardown(self) -> None:
        for job in self.jobs.values():
            assert self.run(self.worker.status(job.id)).value == job.status, job
            running = ["running"] if job.status == "processing" else []
            found = self.run(self.worker.outcomes(job.id))
            assert [outcome.value for _, outcome in found] == [*job.outcomes, *running]
            assert [number for number, _ in found] == list(range(1, len(found) + 1))


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", ["postgres", "sqlite-memory"])
def test_jobs_behave_like_their_model(request: pytest.FixtureRequest, kind: str) -> None:
    run_machine(request, kind, Machine)
