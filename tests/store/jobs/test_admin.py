"""Jobs as they are listed, counted, limited, brought back and forgotten; request rates; the audit. On every store."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from penstock.clock import FakeClock
from penstock.errors import JobNotFound
from penstock.model.jobs import JobLimits, JobStatus
from penstock.model.tenants import TenantId
from penstock.store import Store
from tests.store.jobs.worker import Worker


@pytest.fixture
def worker(store: Store, tenant: TenantId, clock: FakeClock) -> Worker:
    return Worker(store, tenant, clock)


async def make_one_of_each(worker: Worker) -> dict[JobStatus, str]:
    """A job in every state, in one queue."""
    completed, dead, processing, cancelled, pending = await worker.enqueue("work", 1, 2, 3, 4, 5)
    [later] = await worker.enqueue("work", 6, run_at=worker.clock.now() + timedelta(hours=1))
    first, second, _ = await worker.lease("work", 3, lease_s=3600)
    await worker.complete(first)
    await worker.fail(second, retry=False)
    await worker.jobs.cancel(worker.tenant, cancelled, worker.clock.now())
    await worker.jobs.cancel(worker.tenant, later, worker.clock.now())
    return {
        JobStatus.COMPLETED: completed,
        JobStatus.DEAD: dead,
        JobStatus.PROCESSING: processing,
        JobStatus.PENDING: pending,
    }


async def make_dead(worker: Worker, *payloads: object, queue: str = "work") -> list[str]:
    ids = await worker.enqueue(queue, *payloads)
    for job in await worker.lease(queue, len(ids)):
        await worker.fail(job, retry=False)
    return ids


# Lists


async def test_jobs_are_listed_newest_first_from_wherever_they_lie(worker: Worker) -> None:
    ids = await worker.enqueue("work", 1, 2, 3)
    ids += await worker.enqueue("other", 4)
    await worker.complete(await worker.lease_one())

    assert await worker.list_ids() == ids[::-1]
    assert await worker.list_ids(queue="work") == ids[2::-1]
    assert await worker.list_ids(queue="nowhere") == []


async def test_jobs_are_listed_by_status(worker: Worker) -> None:
    ids = await make_one_of_each(worker)

    for status, job_id in ids.items():
        assert await worker.list_ids(status) == [job_id]
    assert len(await worker.list_ids(JobStatus.CANCELLED)) == 2
    assert await worker.list_ids(JobStatus.FAILED) == []


@pytest.mark.parametrize("step", [1, 2, 3, 7])
async def test_pages_follow_each_other_whatever_happens_meanwhile(worker: Worker, step: int) -> None:
    ids = await worker.enqueue("work", *range(7))
    for job in await worker.lease("work", 3):
        await worker.complete(job)

    seen: list[str] = []
    while page := await worker.list_ids(before=seen[-1] if seen else None, limit=step):
        seen += page
        await worker.enqueue("work", "new")

    assert seen == ids[::-1]


async def test_a_page_may_be_found_by_its_offset(worker: Worker) -> None:
    ids = await worker.enqueue("work", *range(5))

    assert await worker.list_ids(limit=2, offset=1) == [ids[3], ids[2]]
    assert await worker.list_ids(limit=2, offset=5) == []


async def test_a_cursor_that_is_no_job_leads_nowhere(worker: Worker) -> None:
    await worker.enqueue()

    assert await worker.list_ids(before="nonsense") == []


async def test_jobs_are_counted_by_status(worker: Worker) -> None:
    await make_one_of_each(worker)
    await worker.enqueue("other")
    expected = {"pending": 1, "processing": 1, "completed": 1, "cancelled": 2, "dead": 1}

    assert await worker.counts() == expected
    await worker.tend()
    assert await worker.counts() == expected
    [(tenant, counts), _] = sorted(await worker.jobs.counts(worker.tenant), key=lambda found: -found[1].total)
    assert (tenant, counts.queue, counts.total) == (worker.tenant, "work", 6)
    assert counts.oldest_pending_created_at == worker.clock.now()


# Dead jobs


async def test_dead_jobs_brought_back_are_new_again(worker: Worker) -> None:
    first, second, third = await make_dead(worker, 1, 2, 3)

    requeued = await worker.jobs.requeue_dead(worker.tenant, "work", None, 2, "ada", worker.clock.now())

    assert requeued == 2
    assert await worker.list_ids(JobStatus.DEAD) == [third]
    leased = await worker.lease("work", 5)
    assert [(job.id, job.retry_count, job.attempts) for job in leased] == [(first, 0, 2), (second, 0, 2)]
    job = await worker.get(first)
    assert (job.dead_reason, job.finished_at) == (None, None)


async def test_dead_jobs_are_brought_back_by_name(worker: Worker) -> None:
    first, second = await make_dead(worker, 1, 2)
    [elsewhere] = await make_dead(worker, 3, queue="other")
    [alive] = await worker.enqueue()
    named = [second, elsewhere, alive, "nonsense"]

    assert await worker.jobs.requeue_dead(worker.tenant, "work", named, 10, "ada", worker.clock.now()) == 1
    assert await worker.list_ids(JobStatus.DEAD) == [elsewhere, first]


async def test_purged_jobs_are_gone(worker: Worker) -> None:
    first, second, third = await make_dead(worker, 1, 2, 3)
    [alive] = await worker.enqueue()
    now = worker.clock.now()

    assert await worker.jobs.purge_dead(worker.tenant, "work", [first], 10, "ada", now) == 1
    assert await worker.jobs.purge_dead(worker.tenant, "work", None, 10, "ada", now) == 2
    assert await worker.jobs.purge_dead(worker.tenant, "nowhere", None, 10, "ada", now) == 0

    assert await worker.list_ids() == [alive]
    assert await worker.counts() == {"pending": 1}
    with pytest.raises(JobNotFound):
        await worker.get(second)
    with pytest.raises(JobNotFound):
        await worker.get(third)


async def test_what_is_older_than_the_retention_is_forgotten(worker: Worker) -> None:
    ids = await make_one_of_each(worker)
    retention = timedelta(days=7)
    worker.clock.advance(seconds=7 * 86_400 - 1)
    await worker.tend(retention)
    assert await worker.status(ids[JobStatus.COMPLETED]) is JobStatus.COMPLETED

    worker.clock.advance(seconds=86_402)
    await worker.tend(retention)

    for status in (JobStatus.COMPLETED, JobStatus.DEAD):
        with pytest.raises(JobNotFound):
            await worker.get(ids[status])
    assert await worker.counts() == {"pending": 2}
    assert await worker.outcomes(ids[JobStatus.PENDING]) == []


# Limits


async def test_no_more_jobs_run_at_one_time_than_the_queue_allows(worker: Worker) -> None:
    await worker.enqueue("work", 1, 2, 3, 4)
    await worker.enqueue("free", 1, 2)
    await worker.jobs.set_limits(worker.tenant, "work", JobLimits(concurrency=2), "ada", worker.clock.now())

    first, second = await worker.lease("work", 4)
    assert await worker.ask("work") == await worker.ask("work")
    assert (await worker.ask("work")).next_due_at == first.expires_at
    assert len(await worker.lease("free", 4)) == 2
    await worker.complete(first)
    [third] = await worker.lease("work", 4)
    await worker.fail(second)
    [fourth] = await worker.lease("work", 4)

    assert len({first.id, second.id, third.id, fourth.id}) == 4


async def test_no_more_jobs_start_in_a_second_than_the_queue_allows(worker: Worker) -> None:
    await worker.enqueue("work", *range(10))
    await worker.jobs.set_limits(worker.tenant, "work", JobLimits(rate=2, burst=3), "ada", worker.clock.now())

    assert len(await worker.lease("work", 10)) == 3
    waiting = await worker.ask("work")
    assert (waiting.jobs, waiting.next_due_at) == ([], worker.clock.now() + timedelta(seconds=0.5))
    worker.clock.advance(seconds=0.5)
    assert len(await worker.lease("work", 10)) == 1
    worker.clock.advance(seconds=1)
    assert len(await worker.lease("work", 10)) == 2
    worker.clock.advance(seconds=10)
    assert len(await worker.lease("work", 10)) == 3


async def test_limits_are_kept_and_lifted(worker: Worker) -> None:
    jobs, tenant, now = worker.jobs, worker.tenant, worker.clock.now()
    assert await jobs.limits(tenant, "work") == JobLimits()

    await jobs.set_limits(tenant, "work", JobLimits(concurrency=1, rate=0.5, burst=4), "ada", now)
    assert await jobs.limits(tenant, "work") == JobLimits(concurrency=1, rate=0.5, burst=4)

    await jobs.set_limits(tenant, "work", JobLimits(), "ada", now)
    await worker.enqueue("work", *range(10))
    assert len(await worker.lease("work", 10)) == 10


# Request rates


async def test_a_bucket_gives_what_it_holds_and_fills_again(worker: Worker) -> None:
    name = f"tenant/{worker.tenant}"

    async def take(wanted: int) -> tuple[int, float]:
        taken, wait_s = await worker.store.rate_limits.take_requests(name, 10, 5, wanted, worker.clock.now())
        return taken, round(wait_s, 6)

    assert [await take(3), await take(3), await take(3)] == [(3, 0), (2, 0), (0, 0.1)]
    worker.clock.advance(seconds=0.05)
    assert await take(1) == (0, 0.05)
    worker.clock.advance(seconds=0.05)
    assert await take(3) == (1, 0)
    worker.clock.advance(seconds=60)
    assert await take(100) == (5, 0)


# The audit


async def test_what_administrators_do_is_written_down(worker: Worker) -> None:
    await make_dead(worker, 1, 2)
    jobs, tenant, now = worker.jobs, worker.tenant, worker.clock.now()
    await jobs.set_limits(tenant, "work", JobLimits(concurrency=7), "ada", now)
    await jobs.requeue_dead(tenant, "work", None, 1, "bob", now)
    await jobs.purge_dead(tenant, "work", None, 9, "eve", now)
    await worker.store.audit.note_act(tenant, "operator", "token created", "5", '{"name": "ci"}', now)

    acts = await worker.store.audit.list_acts(tenant, None, 10)

    assert [(one.actor, one.act, one.subject, json.loads(one.detail)) for one in acts] == [
        ("operator", "token created", "5", {"name": "ci"}),
        ("eve", "dead jobs purged", "work", {"jobs": 1}),
        ("bob", "dead jobs requeued", "work", {"jobs": 1}),
        ("ada", "queue limits changed", "work", {"concurrency": 7, "rate": None, "burst": None}),
    ]
    assert [one.id for one in await worker.store.audit.list_acts(tenant, acts[1].id, 1)] == [acts[2].id]
