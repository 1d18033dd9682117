"""Jobs that wait for others, cancels, reports and lost leases, as several sessions meet on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from penstock.clock import FakeClock
from penstock.errors import Conflict
from penstock.model.jobs import JobOutcome, JobStatus
from penstock.model.tenants import TenantId
from penstock.store.postgres.store import PostgresStore
from tests.store.jobs.worker import Worker
from tests.store.postgres_only.races.steps import LONG_AGO_S, start
from tests.store.postgres_only.sessions import Session, Watcher


@pytest.fixture
def worker(store: PostgresStore, tenant: TenantId, clock: FakeClock) -> Worker:
    return Worker(store, tenant, clock)


def at_work(session: Session) -> Worker:
    """A worker in the transaction of this session."""
    return Worker(session.store, session.tenant, session.clock)


async def cancel(worker: Worker, job_id: str) -> bool:
    return await worker.jobs.cancel(worker.tenant, job_id, worker.clock.now())


class TestWaiting:
    """Whatever happens to a job at the moment, the jobs that come after it learn of it."""

    async def test_a_job_is_ready_when_the_one_before_is_completed_while_it_is_enqueued(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher
    ) -> None:
        [first] = await worker.enqueue()
        leased = await worker.lease_one()
        await alice.begin()
        [second] = await at_work(alice).enqueue(after=[first])
        completing = start(at_work(bob).complete(leased))
        await watcher.blocked(bob)
        await alice.commit()

        assert await completing is JobOutcome.DONE
        assert (await worker.lease_one()).id == second

    async def test_a_job_does_not_wait_for_one_whose_completion_it_had_to_wait_for(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher
    ) -> None:
        [first] = await worker.enqueue()
        leased = await worker.lease_one()
        await bob.begin()
        await at_work(bob).complete(leased)
        enqueuing = start(at_work(alice).enqueue(after=[first]))
        await watcher.blocked(alice)
        await bob.commit()
        [second] = await enqueuing

        assert (await worker.lease_one()).id == second

    async def test_a_job_is_cancelled_with_the_one_before_while_it_is_enqueued(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher
    ) -> None:
        [first] = await worker.enqueue()
        await alice.begin()
        [second] = await at_work(alice).enqueue(after=[first])
        cancelling = start(cancel(at_work(bob), first))
        await watcher.blocked(bob)
        await alice.commit()

        assert await cancelling
        assert await worker.status(second) is JobStatus.CANCELLED

    async def test_a_job_is_refused_when_the_one_before_is_cancelled_meanwhile(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher
    ) -> None:
        [first] = await worker.enqueue()
        await bob.begin()
        assert await cancel(at_work(bob), first)
        enqueuing = start(at_work(alice).enqueue(after=[first]))
        await watcher.blocked(alice)
        await bob.commit()

        with pytest.raises(Conflict):
            await enqueuing
        assert await worker.counts() == {"cancelled": 1}

    async def test_a_dead_job_that_is_waited_for_at_this_moment_is_purged_later(
        self, worker: Worker, alice: Session, bob: Session
    ) -> None:
        [first] = await worker.enqueue(max_retries=0)
        await worker.fail(await worker.lease_one())
        await alice.begin()
        [second] = await at_work(alice).enqueue(after=[first])
        purge = (worker.tenant, "work", None, 10, "ada", worker.clock.now())
        assert await bob.store.jobs.purge_dead(*purge) == 0
        await alice.commit()

        assert await bob.store.jobs.purge_dead(*purge) == 1
        assert await worker.status(second) is JobStatus.CANCELLED

    async def test_the_later_of_two_completions_frees_the_job_that_waits_for_both(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher
    ) -> None:
        both = await worker.enqueue("work", 1, 2)
        one, other = await worker.lease("work", 2)
        [last] = await worker.enqueue(after=both)
        await alice.begin()
        await at_work(alice).complete(one)
        late = at_work(bob)
        completing = start(late.complete(other))
        await watcher.blocked(bob)
        assert await worker.lease() == []
        await alice.commit()
        await completing

        assert late.ready == [(worker.tenant, "work")]
        assert (await worker.lease_one()).id == last

    @pytest.mark.parametrize("completed_first", [True, False])
    async def test_a_job_is_cancelled_when_one_before_is_completed_and_another_cancelled_at_once(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher, completed_first: bool
    ) -> None:
        [done] = await worker.enqueue()
        leased = await worker.lease_one()
        [ended] = await worker.enqueue()
        [last] = await worker.enqueue(after=[done, ended])
        steps: list[Callable[[Worker], Awaitable[object]]] = [lambda w: w.complete(leased), lambda w: cancel(w, ended)]
        early, late = steps if completed_first else steps[::-1]
        await alice.begin()
        await early(at_work(alice))
        second = asyncio.ensure_future(late(at_work(bob)))
        await watcher.blocked(bob)
        await alice.commit()
        await second

        assert await worker.status(last) is JobStatus.CANCELLED
        assert await worker.counts() == {"completed": 1, "cancelled": 2}


class TestLeases:
    async def test_a_job_that_is_leased_at_this_moment_cannot_be_cancelled(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher
    ) -> None:
        [job] = await worker.enqueue()
        await alice.begin()
        leased = await at_work(alice).lease_one()
        cancelling = start(cancel(at_work(bob), job))
        await watcher.blocked(bob)
        await alice.commit()

        assert not await cancelling
        assert await worker.complete(leased) is JobOutcome.DONE
        assert await worker.counts() == {"completed": 1}

    async def test_a_job_that_is_being_cancelled_is_not_leased(
        self, worker: Worker, alice: Session, bob: Session
    ) -> None:
        [job] = await worker.enqueue()
        await alice.begin()
        assert await cancel(at_work(alice), job)
        assert await at_work(bob).lease() == []
        await alice.commit()

        assert await worker.lease() == []
        assert await worker.counts() == {"cancelled": 1}

    async def test_a_delayed_job_that_becomes_due_is_cancelled(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher, clock: FakeClock
    ) -> None:
        [job] = await worker.enqueue(run_at=clock.now() + timedelta(seconds=10))
        clock.advance(seconds=20)
        await alice.begin()
        await at_work(alice).tend()
        cancelling = start(cancel(at_work(bob), job))
        await watcher.blocked(bob)
        await alice.commit()

        assert await cancelling
        assert await worker.counts() == {"cancelled": 1}

    @pytest.mark.parametrize("report", ["complete", "fail", "beat"])
    async def test_a_report_comes_too_late_when_the_lease_is_just_being_recovered(
        self, worker: Worker, alice: Session, bob: Session, watcher: Watcher, clock: FakeClock, report: str
    ) -> None:
        await worker.enqueue()
        leased = await worker.lease_one()
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await at_work(alice).tend()
        reporting = start(getattr(at_work(bob), report)(leased))
        await watcher.blocked(bob)
        await alice.commit()

        answer = await reporting
        assert getattr(answer, "outcome", answer) is JobOutcome.STALE
        assert await worker.counts() == {"pending": 1}

    @pytest.mark.parametrize("report", ["complete", "fail", "beat"])
    async def test_a_lease_is_not_recovered_when_its_holder_is_just_reporting(
        self, worker: Worker, alice: Session, bob: Session, clock: FakeClock, report: str
    ) -> None:
        await worker.enqueue()
        leased = await worker.lease_one()
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await getattr(at_work(alice), report)(leased)
        await at_work(bob).tend()
        assert await at_work(bob).lease() == []
        await alice.commit()

        assert [number for number, _ in await worker.outcomes(leased.id)] == [1]
        assert (await worker.get(leased.id)).lease_lost_count == 0
