"""How much there is to do, as every store tells it; and that telling costs no more when it is much."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.insights.gauges import MOST_SCHEDULES
from penstock.limits import JOB_PRIORITY
from penstock.model import DEFAULT_TENANT, TenantId
from penstock.model.gauges import JobGauges, ScheduleGauges
from penstock.model.jobs import JobStatus
from penstock.model.schedules import ScheduleStatus, TargetKind
from penstock.store import Store
from penstock.store.gauges import PRIORITIES
from penstock.store.sqlite.migrate import MIGRATIONS, migrate
from tests.store.conftest import STORES, build
from tests.store.jobs.worker import Worker


@pytest.fixture
def worker(store: Store, tenant: TenantId, clock: FakeClock) -> Worker:
    return Worker(store, tenant, clock)


async def gauges_of(store: Store, tenant: TenantId, queue: str = "work") -> JobGauges:
    [found] = [found for found in await store.gauges.jobs() if (found.tenant, found.queue) == (tenant, queue)]
    return found


# Jobs


async def test_jobs_are_told_by_status_as_they_are_counted(store: Store, worker: Worker, tenant: TenantId) -> None:
    ids = await worker.enqueue("work", *range(7))
    await worker.enqueue("work", run_at=worker.clock.now() + timedelta(hours=1))
    first, second, third, _ = await worker.lease("work", 4, lease_s=3600)
    await worker.complete(first)
    await worker.fail(second, retry=False)
    await worker.fail(third)
    await worker.jobs.cancel(tenant, ids[-1], worker.clock.now())
    expected = {"pending": 4, "processing": 1, "completed": 1, "cancelled": 1, "dead": 1}

    assert (await gauges_of(store, tenant)).jobs == expected
    await worker.tend()
    gauges = await gauges_of(store, tenant)
    assert gauges.jobs == await worker.counts() == expected
    assert gauges.total == 8


async def test_what_is_requeued_purged_or_forgotten_is_counted_no_more(
    store: Store, worker: Worker, tenant: TenantId
) -> None:
    await worker.enqueue("work", 1, 2, 3, 4)
    first, *others = await worker.lease("work", 4)
    await worker.complete(first)
    for job in others:
        await worker.fail(job, retry=False)
    await worker.jobs.requeue_dead(tenant, "work", None, 1, "ada", worker.clock.now())
    await worker.jobs.purge_dead(tenant, "work", None, 1, "ada", worker.clock.now())
    before = await gauges_of(store, tenant)
    worker.clock.advance(seconds=10 * 86_400)
    await worker.tend(timedelta(days=1))
    after = await gauges_of(store, tenant)

    assert before.jobs == {"pending": 1, "processing": 0, "completed": 1, "cancelled": 0, "dead": 1}
    assert after.jobs == {"pending": 1, "processing": 0, "completed": 0, "cancelled": 0, "dead": 0}


async def test_the_longest_wait_is_that_of_any_priority(store: Store, worker: Worker, tenant: TenantId) -> None:
    since = worker.clock.now()
    await worker.enqueue("work", "low", priority=-5)
    worker.clock.advance(seconds=10)
    await worker.enqueue("work", "high", priority=9)
    await worker.enqueue("work", "middle")

    assert (await gauges_of(store, tenant)).ready_since == since
    await worker.lease("work", 2, lease_s=3600)
    assert (await gauges_of(store, tenant)).ready_since == since
    await worker.lease("work", 1, lease_s=3600)
    assert (await gauges_of(store, tenant)).ready_since is None


@pytest.mark.parametrize("priority", JOB_PRIORITY)
async def test_the_outermost_priorities_are_looked_at(
    store: Store, worker: Worker, tenant: TenantId, priority: int
) -> None:
    since = worker.clock.now()
    await worker.enqueue("work", priority=priority)

    assert (await gauges_of(store, tenant)).ready_since == since


async def test_a_job_waits_from_the_moment_it_may_run(store: Store, worker: Worker, tenant: TenantId) -> None:
    due = worker.clock.now() + timedelta(hours=1)
    await worker.enqueue("work", run_at=due)
    before = await gauges_of(store, tenant)
    worker.clock.advance(seconds=7200)
    await worker.tend()

    assert (before.ready_since, before.jobs[JobStatus.PENDING]) == (None, 1)
    assert (await gauges_of(store, tenant)).ready_since == due


async def test_only_so_many_priorities_are_looked_at(store: Store, worker: Worker, tenant: TenantId) -> None:
    since = worker.clock.now()
    await worker.enqueue("work", priority=-1)
    worker.clock.advance(seconds=1)
    for priority in range(PRIORITIES):
        await worker.enqueue("work", priority=priority)

    assert (await gauges_of(store, tenant)).ready_since == since + timedelta(seconds=1)
    await worker.lease("work", 1)
    assert (await gauges_of(store, tenant)).ready_since == since


async def test_queues_of_one_name_are_told_for_each_tenant(store: Store, worker: Worker, clock: FakeClock) -> None:
    await worker.enqueue("work", 1, 2)
    other = Worker(store, (await store.create_tenant(f"other-of-{worker.tenant}", clock.now())).id, clock)
    await other.enqueue("work", 1)

    assert (await gauges_of(store, worker.tenant)).jobs[JobStatus.PENDING] == 2
    assert (await gauges_of(store, other.tenant)).jobs[JobStatus.PENDING] == 1


# Schedules: of everyone, so that these tests need a database of their own


@pytest.fixture(params=STORES)
async def engine(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Engine]:
    if request.param == "postgres":
        from penstock.store.postgres.store import PostgresStore

        store: Store = PostgresStore(request.getfixturevalue("migrated_database"))
    else:
        store = build(request.param, request)
    engine = Engine(store, clock)
    await engine.open()
    yield engine
    await engine.close()


async def make_schedules(engine: Engine, *names: str, every: str = "1m", **more: object) -> None:
    given = {"every": every, "target_kind": TargetKind.JOB, "target": "work", "body": "1", **more}
    for name in names:
        await engine.schedules.create(DEFAULT_TENANT, name, given)


async def test_schedules_are_told_by_status_and_by_how_late_they_are(engine: Engine, clock: FakeClock) -> None:
    start = clock.now()
    empty = await engine.gauges.schedules()
    await make_schedules(engine, "a", "b")
    await make_schedules(engine, "c", every="1h")
    await make_schedules(engine, "d", "e", "f", status=ScheduleStatus.PAUSED)
    fresh = await engine.gauges.schedules()
    clock.advance(seconds=90)
    late = await engine.gauges.schedules()
    await engine.schedules.fire_due()
    fired = await engine.gauges.schedules()

    assert empty == ScheduleGauges(active=0, paused=0, overdue=0, due_at=None)
    first, second = start + timedelta(minutes=1), start + timedelta(minutes=2)
    assert fresh == ScheduleGauges(active=3, paused=3, overdue=0, due_at=first)
    assert late == ScheduleGauges(active=3, paused=3, overdue=2, due_at=first)
    assert fired == ScheduleGauges(active=3, paused=3, overdue=0, due_at=second)


async def test_schedules_are_counted_up_to_a_limit(engine: Engine, clock: FakeClock) -> None:
    await make_schedules(engine, "a", "b", "c")
    await make_schedules(engine, "d", "e", "f", status=ScheduleStatus.PAUSED)
    clock.advance(seconds=120)
    found = await engine.store.gauges.schedules(clock.now(), 2)

    assert (found.active, found.paused, found.overdue) == (2, 2, 2)
    assert MOST_SCHEDULES > 2


# Streams


@pytest.mark.parametrize("closed_store", ["sqlite-file", "sqlite-memory"], indirect=True)
async def test_a_store_without_streams_tells_of_none(store: Store) -> None:
    assert (list(await store.gauges.consumers()), list(await store.gauges.streams())) == ([], [])


# SQLite


def test_jobs_from_before_there_were_counters_are_counted(tmp_path: Path) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for path in sorted(MIGRATIONS.glob("000[1-5]_*.sql")):
        shutil.copy(path, tmp_path)
    migrate(connection, tmp_path)
    columns = "id, queue_id, tenant_id, state, priority, run_at, created_at, max_retries, payload"
    for number, state in enumerate([0, 0, 2, 3]):
        values = f"{number}, 7, 1, {state}, 0, 0, 0, 3, '1'"
        connection.execute(f"insert into jobs ({columns}, due_at, updated_at) values ({values}, 0, 0)")
    connection.execute(
        f"insert into finished_jobs ({columns}, finished_at, retry_count, attempts, lease_lost_count) "
        "values (9, 7, 1, 4, 0, 0, 0, 3, '1', 0, 0, 1, 0)"
    )
    migrate(connection)

    found = connection.execute("select state, jobs from job_counts where queue_id = 7").fetchall()
    assert found == [(0, 2), (2, 1), (3, 1), (4, 1)]
