"""Jobs that wait for others. Runs on every store."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.errors import Conflict, JobNotFound
from penstock.model.jobs import JobStatus, NewJob
from penstock.model.tenants import TenantId
from penstock.store import Store
from tests.store.jobs.worker import Worker


@pytest.fixture
def worker(store: Store, tenant: TenantId, clock: FakeClock) -> Worker:
    return Worker(store, tenant, clock)


def new(worker: Worker, payload: object, *after: str | NewJob, queue: str = "work", **fields: Any) -> NewJob:
    return NewJob(tenant=worker.tenant, queue=queue, payload=json.dumps(payload), after=after, **fields)


async def store_jobs(worker: Worker, *entries: NewJob) -> list[str]:
    return [made.id for made in await worker.jobs.enqueue_many(entries, worker.clock.now())]


async def run_next(worker: Worker, queue: str = "work") -> object:
    job = await worker.lease_one(queue)
    await worker.complete(job)
    return json.loads(job.payload)


async def test_a_job_waits_until_the_one_before_is_completed(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first")
    [second] = await worker.enqueue("work", "second", after=[first])

    leased = await worker.lease_one()
    assert await worker.lease() == []
    shown = await worker.get(second)
    assert (shown.status, shown.after, shown.waiting_for) == (JobStatus.PENDING, (first,), (first,))
    await worker.complete(leased)

    assert worker.ready == [(worker.tenant, "work")]
    assert (await worker.get(second)).waiting_for == ()
    assert (await worker.get(second)).after == (first,)
    assert await worker.payloads() == ["second"]


async def test_the_jobs_of_a_batch_may_come_after_each_other(worker: Worker) -> None:
    one = new(worker, 1)
    left, right = new(worker, "left", one), new(worker, "right", one, queue="other")
    last = new(worker, "last", left, right)
    ids = await store_jobs(worker, one, left, right, last)

    assert await run_next(worker) == 1
    assert sorted(worker.ready) == [(worker.tenant, "other"), (worker.tenant, "work")]
    assert await run_next(worker) == "left"
    assert await worker.lease() == []
    assert await run_next(worker, "other") == "right"
    assert await run_next(worker) == "last"
    assert (await worker.get(ids[3])).after == (ids[1], ids[2])
    assert await worker.counts() == {"completed": 3}


async def test_a_failed_attempt_releases_nobody(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first", max_retries=1)
    await worker.enqueue("work", "second", after=[first])

    await worker.fail(await worker.lease_one(), retry_after_s=0)
    assert await worker.payloads(limit=5) == ["first"]


async def test_a_dead_job_is_waited_for_until_it_is_requeued(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first")
    [second] = await worker.enqueue("work", "second", after=[first])
    await worker.fail(await worker.lease_one(), retry=False)

    assert await worker.lease() == []
    assert await worker.status(second) is JobStatus.PENDING
    await worker.jobs.requeue_dead(worker.tenant, "work", None, 10, "ada", worker.clock.now())
    assert [await run_next(worker), await run_next(worker)] == ["first", "second"]


async def test_cancelling_cancels_all_that_wait(worker: Worker) -> None:
    first = new(worker, 1)
    second = new(worker, 2, first)
    third = new(worker, 3, second)
    ids = await store_jobs(worker, first, second, third)

    assert await worker.jobs.cancel(worker.tenant, ids[0], worker.clock.now())

    assert [await worker.status(each) for each in ids] == [JobStatus.CANCELLED] * 3
    assert (await worker.get(ids[2])).error == "a job that this one comes after was cancelled"
    assert await worker.counts() == {"cancelled": 3}


async def test_purging_a_dead_job_cancels_all_that_wait(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first")
    [second] = await worker.enqueue("work", "second", after=[first])
    await worker.fail(await worker.lease_one(), retry=False)

    await worker.jobs.purge_dead(worker.tenant, "work", None, 10, "ada", worker.clock.now())

    assert await worker.status(second) is JobStatus.CANCELLED


async def test_forgetting_a_dead_job_cancels_all_that_wait(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first")
    [second] = await worker.enqueue("work", "second", after=[first])
    await worker.fail(await worker.lease_one(), retry=False)
    worker.clock.advance(seconds=2 * 86400)

    await worker.tend(timedelta(days=1))

    assert await worker.status(second) is JobStatus.CANCELLED


async def test_a_completed_job_is_not_waited_for(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first")
    await run_next(worker)
    [second] = await worker.enqueue("work", "second", after=[first])

    assert (await worker.get(second)).after == (first,)
    assert await worker.payloads() == ["second"]


async def test_a_waiting_job_keeps_its_run_at(worker: Worker) -> None:
    later = worker.clock.now() + timedelta(hours=1)
    [first] = await worker.enqueue("work", "first")
    [second] = await worker.enqueue("work", "second", after=[first], run_at=later)
    await run_next(worker)

    assert await worker.lease() == []
    assert (await worker.get(second)).run_at == later
    worker.clock.advance(seconds=3600)
    assert await worker.payloads() == ["second"]


async def test_a_waiting_job_has_its_unique_key(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first")
    [second] = await worker.enqueue("work", "second", after=[first], unique_key="k")

    again = await worker.enqueue_one("work", "again", unique_key="k")

    assert (again.id, again.existing) == (second, True)


async def test_what_is_not_there_cannot_be_waited_for(worker: Worker, store: Store, clock: FakeClock) -> None:
    other = Worker(store, (await store.create_tenant(f"other-of-{worker.tenant}", clock.now())).id, clock)
    [theirs] = await other.enqueue("work", 1)
    [gone] = await worker.enqueue("work", 2)
    await worker.jobs.cancel(worker.tenant, gone, clock.now())

    for missing in (theirs, "nonsense", "00000000-0000-4000-8000-000000000000"):
        with pytest.raises(JobNotFound, match="does not exist"):
            await worker.enqueue("work", 3, after=[missing])
    with pytest.raises(Conflict, match="is cancelled"):
        await worker.enqueue("work", 3, after=[gone])
    assert await worker.counts() == {"cancelled": 1}


async def test_a_list_shows_what_jobs_come_after(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first")
    [second] = await worker.enqueue("work", "second", after=[first])

    page: dict[str, Any] = {"before": None, "limit": 10, "offset": 0}
    found = await worker.jobs.list_jobs(worker.tenant, queue="work", statuses=[JobStatus.PENDING], **page)

    assert [(job.id, job.after, job.waiting_for) for job in found] == [(second, (first,), (first,)), (first, (), ())]


async def test_edges_are_forgotten_with_time(worker: Worker) -> None:
    [first] = await worker.enqueue("work", "first")
    [second] = await worker.enqueue("work", "second", after=[first])
    await run_next(worker)
    worker.clock.advance(seconds=2 * 86400)

    await worker.tend(timedelta(days=1))

    assert (await worker.get(second)).after == ()
