"""Many workers that crash, oversleep and fail: every job comes to its end, held by one at a time, and every attempt is
accounted for.

PENSTOCK_CHAOS_JOBS=20000 runs the large one at its full size; it takes some minutes.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import pairwise
from uuid import uuid4

import pytest

from penstock import Client, Job, NewJob
from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.model import jobs as model
from penstock.model.tenants import TenantId
from penstock.store import Store
from tests.system.chaos import QUEUE, Book, Mischief, work
from tests.system.serving import ROOT, Running, environment, serving

JOBS = int(os.environ.get("PENSTOCK_CHAOS_JOBS", "3000"))
WORKERS = 16
MAX_RETRIES = 3

pytestmark = pytest.mark.slow


@pytest.fixture(params=["postgres", "sqlite"])
async def nodes(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[list[Engine]]:
    """Two nodes on one PostgreSQL; SQLite has but one."""
    stores: list[Store]
    if request.param == "postgres":
        from penstock.store.postgres.store import PostgresStore

        dsn = request.getfixturevalue("migrated_database")
        stores = [PostgresStore(dsn, max_connections=6), PostgresStore(dsn, max_connections=6)]
    else:
        from penstock.store.sqlite.store import SqliteStore

        stores = [SqliteStore(None)]
    async with AsyncExitStack() as stack:
        engines = [Engine(store, clock) for store in stores]
        for engine in engines:
            await engine.open()
            stack.push_async_callback(engine.close)
        yield engines


async def enqueue(engine: Engine, tenant: TenantId) -> list[str]:
    ids: list[str] = []
    for start in range(0, JOBS, 1000):
        jobs = [
            model.NewJob(
                tenant=tenant,
                queue=QUEUE,
                payload=str(number),
                priority=number % 3,
                max_retries=MAX_RETRIES,
                backoff=model.Backoff(delays_s=(0.0, 1.0, 20.0)),
            )
            for number in range(start, min(start + 1000, JOBS))
        ]
        ids += [made.id for made in await engine.jobs.enqueue_batch(jobs)]
    return ids


@pytest.mark.timeout(900)
async def test_every_job_ends_held_by_one_at_a_time_and_every_attempt_is_told(
    nodes: list[Engine], clock: FakeClock, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = (await nodes[0].store.create_tenant(f"chaos-{uuid4().hex}", clock.now())).id
    book = Book()
    ids = await enqueue(nodes[0], tenant)
    began = time.perf_counter()

    workers = [
        Mischief(f"worker-{number}", nodes[number % len(nodes)], tenant, book, clock, seed=number)
        for number in range(WORKERS)
    ]
    await work(workers, nodes[0], clock, tenant, rounds=JOBS)

    took = time.perf_counter() - began
    assert book.shared == []
    ended = Counter([await check_job(nodes[-1], tenant, job_id, book) for job_id in ids])
    assert set(ended) == {"completed", "dead"}
    assert [deed for deed in ("crashed", "overslept", "late", "refused") if not book.deeds[deed]] == []
    with capsys.disabled():
        if "PENSTOCK_CHAOS_JOBS" in os.environ:
            print(
                f"\n{JOBS} jobs, {sum(book.leases.values())} leases in {took:.1f} s: {dict(ended)}, {dict(book.deeds)}"
            )


async def check_job(engine: Engine, tenant: TenantId, job_id: str, book: Book) -> str:
    """What the server tells of the job is what its workers have seen."""
    job = await engine.jobs.get(tenant, job_id)
    attempts = await engine.jobs.attempts(tenant, job_id)
    outcomes = Counter(str(attempt.outcome) for attempt in attempts)

    assert [attempt.attempt for attempt in attempts] == list(range(1, len(attempts) + 1))
    assert len(attempts) == job.attempts == book.leases[job_id]
    assert outcomes["completed"] == book.completed[job_id] == (job.status == "completed")
    assert outcomes["failed"] == book.failures[job_id]
    assert outcomes["lost"] == job.lease_lost_count
    assert sum(outcomes.values()) == outcomes["completed"] + outcomes["failed"] + outcomes["lost"]
    assert job.retry_count <= MAX_RETRIES
    assert len(attempts) <= MAX_RETRIES + 1
    for before, after in pairwise(attempts):
        assert before.ended_at is not None
        assert before.ended_at <= after.started_at
    return str(job.status)


# Real processes


KILLED_JOBS = 400
PROCESSES = 4
GIVE_UP_S = 80.0


class Crew:
    """Worker processes; a killed one is replaced."""

    def __init__(self, url: str, queue: str) -> None:
        self._command = [sys.executable, "-m", "tests.system.chaos_worker", url, queue]
        self._hired = 0
        self._members = [self._hire() for _ in range(PROCESSES)]
        self.killed = 0

    def _hire(self) -> subprocess.Popen[str]:
        self._hired += 1
        return subprocess.Popen(
            [*self._command, str(self._hired)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
        )

    def kill_one(self, dice: random.Random) -> None:
        place = dice.randrange(PROCESSES)
        member = self._members[place]
        assert member.stdout is not None
        assert member.stdout.readline() == "ready\n"
        # It has begun to work by now, or is about to: both are good moments to die.
        with suppress(subprocess.TimeoutExpired):
            member.wait(dice.random() * 0.5)
        member.kill()
        member.wait(10)
        member.stdout.close()
        self.killed += 1
        self._members[place] = self._hire()

    def close(self) -> None:
        for member in self._members:
            member.terminate()
        for member in self._members:
            try:
                member.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                member.kill()
                member.communicate(timeout=10)


@pytest.fixture(params=["postgres", "sqlite"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    arguments = ["--memory"]
    if request.param == "postgres":
        arguments = ["--database-url", request.getfixturevalue("migrated_database")]
    with serving(*arguments) as found:
        yield found


@pytest.mark.timeout(120)
def test_jobs_outlive_workers_that_are_killed(server: Running) -> None:
    dice = random.Random(1)
    give_up = time.monotonic() + GIVE_UP_S
    with Client(server.url, "anyone") as client:
        ids = client.jobs.enqueue_many(
            NewJob(QUEUE, {"n": number}, max_retries=20, backoff={"delays": [0.0]}) for number in range(KILLED_JOBS)
        )
        crew = Crew(server.url, QUEUE)
        try:
            while any(queue.pending or queue.processing for queue in client.jobs.queues()):
                assert time.monotonic() < give_up, client.jobs.queues()
                if crew.killed < 5:
                    crew.kill_one(dice)
                else:
                    time.sleep(0.05)
        finally:
            crew.close()
        found = [client.jobs.get(job_id) for job_id in ids]

    assert crew.killed >= 3
    assert [job.result for job in found] == [{"doubled": 2 * number} for number in range(KILLED_JOBS)]
    assert sum(job.lease_lost_count for job in found) > 0
    check_attempts(found)


def check_attempts(jobs: Sequence[Job]) -> None:
    for job in jobs:
        outcomes = [attempt.outcome for attempt in job.attempts]
        assert outcomes.count("completed") == 1
        assert outcomes[-1] == "completed"
        assert outcomes.count("lost") == job.lease_lost_count
        assert len(outcomes) == job.retry_count + 1
        for before, after in pairwise(job.attempts):
            assert before.ended_at is not None
            assert after.started_at is not None
            assert before.ended_at <= after.started_at, (before, after)
