"""Jobs: enqueued, leased, reported, looked at. Runs on every store."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.errors import JobNotFound
from penstock.model.jobs import (
    AttemptOutcome,
    Backoff,
    Completion,
    Enqueued,
    Failed,
    Failure,
    Heartbeat,
    JobHandle,
    JobOutcome,
    JobStatus,
    Leased,
    LeasedJob,
    LeaseRequest,
    NewJob,
)
from penstock.model.tenants import TenantId
from penstock.store import Store
from tests.store.jobs.worker import Worker

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def worker(store: Store, tenant: TenantId, clock: FakeClock) -> Worker:
    return Worker(store, tenant, clock)


# Leasing


async def test_an_attempt_that_does_not_count_spends_no_retry(worker: Worker) -> None:
    [job_id] = await worker.enqueue("work", 1, max_retries=0)

    failed = await worker.fail(await worker.lease_one(), "not mine", counts=False, retry_after_s=5)

    assert failed.run_at == worker.clock.now() + timedelta(seconds=5)
    job = await worker.get(job_id)
    assert (job.status, job.retry_count, job.error) == (JobStatus.PENDING, 0, "not mine")
    worker.clock.advance(seconds=5)
    assert (await worker.fail(await worker.lease_one())).run_at is None


async def test_a_job_is_leased_once(worker: Worker) -> None:
    [job_id] = await worker.enqueue("work", {"to": "ada"})

    leased = await worker.lease_one(worker="bob")

    assert (leased.id, json.loads(leased.payload), leased.worker) == (job_id, {"to": "ada"}, "bob")
    assert (leased.attempts, leased.retry_count) == (1, 0)
    assert leased.expires_at == worker.clock.now() + timedelta(seconds=30)
    assert await worker.lease() == []
    assert await worker.status(job_id) is JobStatus.PROCESSING


async def test_an_unknown_queue_has_no_jobs(worker: Worker) -> None:
    assert await worker.ask("nowhere") == Leased([])
    assert await worker.jobs.counts(worker.tenant) == []


async def test_higher_priorities_come_first_then_older_jobs(worker: Worker) -> None:
    await worker.enqueue("work", "a", "b")
    await worker.enqueue("work", "urgent", priority=32_767)
    await worker.enqueue("work", "c")
    await worker.enqueue("work", "idle", priority=-32_767)

    assert await worker.payloads() == ["urgent", "a", "b", "c", "idle"]


async def test_a_usual_job_comes_before_low_ones_that_are_being_leased(worker: Worker) -> None:
    await worker.enqueue("work", "low", "lower", priority=-5)
    await worker.lease("work", 1)
    await worker.enqueue("work", "usual")

    assert await worker.payloads(limit=1) == ["usual"]


async def test_a_wish_gives_its_jobs_to_its_workers_in_turn(worker: Worker) -> None:
    await worker.enqueue("work", 1, 2, 3)
    request = LeaseRequest(tenant=worker.tenant, queue="work", lease_s=30, workers=["a", "b", "c", "d"])

    [leased] = await worker.jobs.lease_many([request], worker.clock.now())

    assert [(json.loads(job.payload), job.worker) for job in leased.jobs] == [(1, "a"), (2, "b"), (3, "c")]
    assert len({job.token for job in leased.jobs}) == 3


async def test_wishes_of_one_batch_are_served_in_their_order(worker: Worker) -> None:
    await worker.enqueue("one", 1, 2)
    await worker.enqueue("two", 3)
    requests = [
        LeaseRequest(tenant=worker.tenant, queue=queue, lease_s=30, workers=["w"])
        for queue in ("two", "none", "one", "two", "one")
    ]

    leased = await worker.jobs.lease_many(requests, worker.clock.now())

    assert [[json.loads(job.payload) for job in found.jobs] for found in leased] == [[3], [], [1], [], [2]]


async def test_a_job_waits_for_its_run_at(worker: Worker) -> None:
    later = worker.clock.now() + timedelta(seconds=60)
    [job_id] = await worker.enqueue("work", run_at=later)

    assert await worker.ask() == Leased([], later)
    assert await worker.status(job_id) is JobStatus.PENDING
    worker.clock.advance(seconds=60)
    assert (await worker.lease_one()).id == job_id


async def test_a_run_at_in_the_past_is_now(worker: Worker) -> None:
    [job_id] = await worker.enqueue("work", run_at=worker.clock.now() - timedelta(days=1))

    assert (await worker.lease_one()).id == job_id


async def test_an_urgent_job_that_comes_due_goes_before_the_others(worker: Worker) -> None:
    await worker.enqueue("work", "plain", "plain", "plain")
    await worker.enqueue("work", "urgent", priority=5, run_at=worker.clock.now() + timedelta(seconds=0.05))
    await worker.lease_one()
    worker.clock.advance(seconds=0.1)

    assert await worker.payloads() == ["urgent", "plain", "plain"]


async def test_a_lease_that_nobody_heard_of_is_undone(worker: Worker) -> None:
    await worker.enqueue()
    leased = await worker.lease_one()
    handle = JobHandle(tenant=worker.tenant, id=leased.id, token=leased.token)

    await worker.jobs.release_many([handle], worker.clock.now())
    again = await worker.lease_one()

    assert (again.id, again.attempts, again.lease_lost_count) == (leased.id, 1, 0)
    assert again.token != leased.token
    await worker.jobs.release_many([handle], worker.clock.now())
    assert await worker.status(leased.id) is JobStatus.PROCESSING


# Reporting


async def test_a_completed_job_keeps_its_result(worker: Worker) -> None:
    [job_id] = await worker.enqueue("work", {"n": 1})
    leased = await worker.lease_one()
    worker.clock.advance(seconds=5)

    assert await worker.complete(leased, '{"n": 2}') is JobOutcome.DONE

    job = await worker.get(job_id)
    assert (job.status, job.payload, job.result) == (JobStatus.COMPLETED, '{"n": 1}', '{"n": 2}')
    assert (job.started_at, job.finished_at) == (worker.clock.now() - timedelta(seconds=5), worker.clock.now())
    [attempt] = await worker.jobs.attempts(worker.tenant, job_id)
    assert (attempt.attempt, attempt.worker, attempt.outcome) == (1, "ada", AttemptOutcome.COMPLETED)
    assert (attempt.started_at, attempt.ended_at) == (job.started_at, job.finished_at)
    assert await worker.lease() == []


async def test_another_token_changes_nothing(worker: Worker) -> None:
    await worker.enqueue("work", 1, 2)
    one, two = await worker.lease("work", 2)

    for token in (two.token, UNKNOWN, "", "no token"):
        stale = LeasedJob(**{name: getattr(one, name) for name in LeasedJob.__slots__} | {"token": token})
        assert await worker.complete(stale) is JobOutcome.STALE
        assert (await worker.fail(stale)).outcome is JobOutcome.STALE
        assert await worker.beat(stale, 600, progress=50) is JobOutcome.STALE

    job = await worker.get(one.id)
    assert (job.status, job.progress, job.lease_expires_at) == (JobStatus.PROCESSING, None, one.expires_at)
    assert await worker.complete(one) is JobOutcome.DONE


async def test_a_token_dies_with_its_lease(worker: Worker) -> None:
    [job_id] = await worker.enqueue()
    first = await worker.lease_one()
    worker.clock.advance(seconds=30)
    second = await worker.lease_one()
    assert second.id == first.id

    assert await worker.complete(first) is JobOutcome.STALE
    assert await worker.complete(second) is JobOutcome.DONE
    assert await worker.complete(second) is JobOutcome.STALE
    assert (await worker.fail(second)).outcome is JobOutcome.STALE
    assert await worker.outcomes(job_id) == [(1, AttemptOutcome.LOST), (2, AttemptOutcome.COMPLETED)]


async def test_a_late_report_counts_until_someone_else_has_the_job(worker: Worker) -> None:
    await worker.enqueue()
    leased = await worker.lease_one()
    worker.clock.advance(seconds=300)

    assert await worker.complete(leased) is JobOutcome.DONE


async def test_the_same_report_twice_in_a_batch_counts_once(worker: Worker) -> None:
    [job_id] = await worker.enqueue()
    leased = await worker.lease_one()
    entry = Completion(tenant=worker.tenant, id=leased.id, token=leased.token)

    outcomes, _ = await worker.jobs.complete_many([entry, entry], worker.clock.now())

    assert outcomes == [JobOutcome.DONE, JobOutcome.STALE]
    assert await worker.outcomes(job_id) == [(1, AttemptOutcome.COMPLETED)]
    assert await worker.counts() == {"completed": 1}


@pytest.mark.parametrize("job_id", ["", "x", UNKNOWN, "0" * 36, "00000000-0000-8001-8000-00000000000g"])
async def test_what_is_no_job_is_absent(worker: Worker, job_id: str) -> None:
    entry: dict[str, Any] = {"tenant": worker.tenant, "id": job_id, "token": UNKNOWN}
    now = worker.clock.now()

    assert await worker.jobs.complete_many([Completion(**entry)], now) == ([JobOutcome.ABSENT], [])
    assert await worker.jobs.fail_many([Failure(**entry, error="")], now) == [Failed(JobOutcome.ABSENT)]
    assert await worker.jobs.beat_many([Heartbeat(**entry, lease_s=1)], now) == [JobOutcome.ABSENT]
    assert not await worker.jobs.cancel(worker.tenant, job_id, now)
    with pytest.raises(JobNotFound):
        await worker.get(job_id)


async def test_a_heartbeat_lengthens_the_lease_and_tells_of_progress(worker: Worker) -> None:
    await worker.enqueue()
    leased = await worker.lease_one()
    worker.clock.advance(seconds=20)

    assert await worker.beat(leased, 30, progress=40, note="halfway") is JobOutcome.DONE
    assert await worker.beat(leased, 30) is JobOutcome.DONE

    job = await worker.get(leased.id)
    assert (job.progress, job.note) == (40, "halfway")
    worker.clock.advance(seconds=29)
    assert await worker.lease() == []
    assert await worker.complete(leased) is JobOutcome.DONE
    assert (await worker.get(leased.id)).progress == 40


# Failing


async def test_a_failed_job_waits_longer_each_time_and_is_dead_at_last(worker: Worker) -> None:
    [job_id] = await worker.enqueue("work", max_retries=3)

    waits = []
    for _ in range(4):
        leased = await worker.lease_one()
        failed = await worker.fail(leased, f"broken {leased.attempts}")
        if failed.run_at is not None:
            waits.append((failed.run_at - worker.clock.now()).total_seconds())
            assert await worker.ask() == Leased([], failed.run_at)
            worker.clock.advance(seconds=waits[-1])

    assert waits == [1, 2, 4]
    job = await worker.get(job_id)
    assert (job.status, job.retry_count, job.attempts, job.error) == (JobStatus.DEAD, 3, 4, "broken 4")
    assert job.dead_reason == "it failed, and no retry is left"
    assert job.finished_at == worker.clock.now()
    assert await worker.outcomes(job_id) == [(attempt, AttemptOutcome.FAILED) for attempt in (1, 2, 3, 4)]
    errors = [one.error for one in await worker.jobs.attempts(worker.tenant, job_id)]
    assert errors == ["broken 1", "broken 2", "broken 3", "broken 4"]


@pytest.mark.parametrize(
    "backoff",
    [Backoff(), Backoff(base_s=5, cap_s=12), Backoff(base_s=0.5), Backoff(delays_s=(7.0, 1.5)), Backoff(base_s=0)],
    ids=["usual", "capped", "short", "listed", "none"],
)
async def test_the_wait_is_what_the_backoff_of_the_job_says(worker: Worker, backoff: Backoff) -> None:
    await worker.enqueue("work", max_retries=6, backoff=backoff)

    for retries in range(6):
        failed = await worker.fail(await worker.lease_one(), spread=0.5)
        expected = timedelta(seconds=backoff.delay_s(retries, 0.5))
        assert failed.run_at == worker.clock.now() + expected
        worker.clock.advance(seconds=expected.total_seconds())


async def test_a_worker_may_say_when_to_try_again(worker: Worker) -> None:
    await worker.enqueue()
    failed = await worker.fail(await worker.lease_one(), retry_after_s=90)

    assert failed.run_at == worker.clock.now() + timedelta(seconds=90)
    assert failed.queue == "work"


async def test_a_worker_may_ask_for_no_retry(worker: Worker) -> None:
    [job_id] = await worker.enqueue()

    failed = await worker.fail(await worker.lease_one(), retry=False)

    assert failed == Failed(JobOutcome.DONE, None, "work")
    job = await worker.get(job_id)
    assert (job.status, job.retry_count) == (JobStatus.DEAD, 0)
    assert job.dead_reason == "it failed, and the worker asked for no retry"


async def test_a_job_without_retries_is_dead_at_once(worker: Worker) -> None:
    [job_id] = await worker.enqueue("work", max_retries=0)
    await worker.fail(await worker.lease_one())

    assert await worker.status(job_id) is JobStatus.DEAD


async def test_a_lost_lease_counts_as_an_attempt_and_is_bounded_by_the_retries(worker: Worker) -> None:
    [job_id] = await worker.enqueue("work", max_retries=2)

    for attempt in (1, 2, 3):
        leased = await worker.lease_one()
        assert (leased.id, leased.attempts, leased.lease_lost_count) == (job_id, attempt, attempt - 1)
        worker.clock.advance(seconds=30)
    assert await worker.lease() == []

    job = await worker.get(job_id)
    assert (job.status, job.lease_lost_count, job.retry_count) == (JobStatus.DEAD, 3, 2)
    assert await worker.outcomes(job_id) == [(attempt, AttemptOutcome.LOST) for attempt in (1, 2, 3)]


async def test_a_lease_holds_until_its_very_end(worker: Worker) -> None:
    await worker.enqueue()
    await worker.lease_one()
    worker.clock.advance(seconds=29.999)
    assert await worker.lease() == []
    worker.clock.advance(seconds=0.001)
    assert len(await worker.lease()) == 1


async def test_upkeep_recovers_and_promotes_where_nobody_leases(worker: Worker) -> None:
    [lost] = await worker.enqueue("work")
    await worker.lease_one()
    await worker.enqueue("other", run_at=worker.clock.now() + timedelta(seconds=10))
    worker.clock.advance(seconds=30)

    _, ready = await worker.jobs.tend(timedelta(days=3000), 1000, worker.clock.now())

    assert {(worker.tenant, "work"), (worker.tenant, "other")} <= set(ready)
    assert await worker.status(lost) is JobStatus.PENDING
    assert await worker.outcomes(lost) == [(1, AttemptOutcome.LOST)]


# Cancelling


async def test_only_a_pending_job_is_cancelled(worker: Worker) -> None:
    first, second = await worker.enqueue("work", 1, 2)
    [later] = await worker.enqueue("work", run_at=worker.clock.now() + timedelta(hours=1))
    await worker.lease_one()
    now = worker.clock.now()

    assert [await worker.jobs.cancel(worker.tenant, job, now) for job in (first, second, later, later)] == [
        False,
        True,
        True,
        False,
    ]
    assert await worker.status(second) is JobStatus.CANCELLED
    assert await worker.lease() == []


# Unique jobs


async def test_a_unique_key_stands_for_one_job_within_its_window(worker: Worker) -> None:
    first = await worker.enqueue_one(unique_key="k", unique_s=60)
    again = await worker.enqueue_one(unique_key="k", unique_s=60)
    elsewhere = await worker.enqueue_one("other", unique_key="k", unique_s=60)
    await worker.complete(await worker.lease_one())
    finished = await worker.enqueue_one(unique_key="k", unique_s=60)
    worker.clock.advance(seconds=60)
    later = await worker.enqueue_one(unique_key="k", unique_s=60)

    assert not first.existing
    assert again == finished == Enqueued(first.id, existing=True)
    assert not elsewhere.existing
    assert not later.existing
    assert later.id != first.id
    assert await worker.counts() == {"pending": 1, "completed": 1}


async def test_a_unique_key_holds_within_a_batch(worker: Worker) -> None:
    entries = [
        NewJob(tenant=worker.tenant, queue="work", payload=str(n), unique_key=key)
        for n, key in enumerate(["k", None, "k", "l"])
    ]

    made = await worker.jobs.enqueue_many(entries, worker.clock.now())

    assert [one.existing for one in made] == [False, False, True, False]
    assert made[0].id == made[2].id
    assert len({one.id for one in made}) == 3
    assert sorted(json.dumps(payload) for payload in await worker.payloads()) == ["0", "1", "3"]


# Tenants


async def test_tenants_do_not_see_each_others_jobs(worker: Worker, store: Store) -> None:
    other = Worker(store, (await store.create_tenant("other", worker.clock.now())).id, worker.clock)
    [mine] = await worker.enqueue("work", "mine")
    [theirs] = await other.enqueue("work", "theirs")
    leased = await worker.lease_one()

    assert json.loads(leased.payload) == "mine"
    with pytest.raises(JobNotFound, match=f"Job {mine} does not exist"):
        await other.get(mine)
    assert await other.complete(leased) is JobOutcome.ABSENT
    assert (await other.fail(leased)).outcome is JobOutcome.ABSENT
    assert not await worker.jobs.cancel(worker.tenant, theirs, worker.clock.now())
    assert mine not in await other.list_ids()
    assert await worker.counts() == {"processing": 1}
