"""Jobs under several sessions at once, and what only PostgreSQL can show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from penstock.clock import FakeClock
from penstock.errors import Invalid
from penstock.model.jobs import Backoff, JobLimits, JobOutcome, JobStatus, LeaseRequest, NewJob
from penstock.model.tenants import TenantId
from penstock.store.postgres.jobs.jobs import _backoff
from penstock.store.postgres.store import PostgresStore
from tests.store.caller import Caller
from tests.store.jobs.worker import Worker
from tests.store.postgres_only.sessions import Watcher, until

WAITING_FOR = "select count(*) from pg_stat_activity where $1::integer = any (pg_blocking_pids(pid))"


@pytest.fixture
def worker(store: PostgresStore, tenant: TenantId, clock: FakeClock) -> Worker:
    return Worker(store, tenant, clock)


@asynccontextmanager
async def transaction(dsn: str, name: str = "holder") -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn, server_settings={"application_name": name})
    try:
        started = connection.transaction()
        await started.start()
        yield connection
        await started.rollback()
    finally:
        await connection.close()


async def enqueue_sql(connection: Any, tenant: TenantId, queue: str, **fields: Any) -> str:
    name = await connection.fetchval("select name from penstock.tenants where id = $1", tenant)
    await connection.execute("select set_config('penstock.tenant', $1, false)", name)
    named = "".join(f", {field} => ${number}" for number, field in enumerate(fields, 2))
    made = await connection.fetchval(f"select penstock.enqueue_job($1, '{{}}'{named})", queue, *fields.values())
    return str(made)


async def test_many_workers_never_share_a_job(worker: Worker) -> None:
    await worker.enqueue("work", *range(100))

    leased = await asyncio.gather(*(worker.lease("work", 7) for _ in range(20)))

    ids = [job.id for jobs in leased for job in jobs]
    assert len(ids) == len(set(ids)) == 100


async def test_a_lease_passes_over_a_job_that_someone_holds(worker: Worker, dsn: str) -> None:
    held, free = await worker.enqueue("work", 1, 2)
    async with transaction(dsn) as holder:
        await holder.execute(
            "select from penstock.jobs where tenant_id = $1 order by id limit 1 for update", worker.tenant
        )
        assert [job.id for job in await worker.lease("work", 5)] == [free]
    assert (await worker.lease_one()).id == held


async def test_a_job_that_is_rolled_back_never_was(worker: Worker, dsn: str) -> None:
    async with transaction(dsn) as user:
        job_id = await enqueue_sql(user, worker.tenant, "work")
        assert await worker.lease("work") == []
    assert await worker.lease("work") == []
    assert job_id not in await worker.list_ids()


async def test_a_job_of_a_sql_user_has_the_id_that_the_server_shows(worker: Worker, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        job_id = await enqueue_sql(connection, worker.tenant, "work", priority=9, max_retries=1, backoff='{"base": 2}')
    finally:
        await connection.close()

    job = await worker.get(job_id)
    assert (job.queue, job.priority, job.max_retries, job.payload) == ("work", 9, 1, "{}")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 40_000),
        ("max_retries", -1),
        ("unique_s", 0),
        ("unique_key", ""),
        ("backoff", '{"base": "x"}'),
        ("backoff", '{"delays": []}'),
        ("backoff", '{"delays": [-1]}'),
        ("backoff", '{"bse": 1}'),
        ("backoff", "7"),
    ],
    ids=lambda value: str(value),
)
async def test_what_a_sql_user_says_is_checked(worker: Worker, dsn: str, field: str, value: Any) -> None:
    async with transaction(dsn) as user:
        with pytest.raises(asyncpg.PostgresError) as caught:
            await enqueue_sql(user, worker.tenant, "work", **{field: value})
    assert caught.value.sqlstate == Invalid.code


async def test_an_equal_unique_key_waits_and_yields_one_job(worker: Worker, watcher: Watcher, dsn: str) -> None:
    await worker.enqueue("work", unique_key="other")
    connection = await asyncpg.connect(dsn, server_settings={"application_name": "holder"})
    try:
        started = connection.transaction()
        await started.start()
        first = await enqueue_sql(connection, worker.tenant, "work", unique_key="k")
        second = asyncio.create_task(worker.enqueue_one("work", unique_key="k"))
        done, _ = await asyncio.wait([second], timeout=0.2)
        assert not done
        await started.commit()
        worker.clock.advance(seconds=1)
        assert ((await second).id, (await second).existing) == (first, True)
    finally:
        await connection.close()


async def test_an_ack_survives_a_heartbeat_at_the_same_moment(worker: Worker, dsn: str) -> None:
    """The heartbeat moves the row that the ack has found; the ack must look again, not give up."""
    await worker.enqueue()
    leased = await worker.lease_one()
    connection = await asyncpg.connect(dsn)
    try:
        started = connection.transaction()
        await started.start()
        await connection.execute("update penstock.jobs set progress = 50 where tenant_id = $1", worker.tenant)
        acknowledged = asyncio.create_task(worker.complete(leased))
        done, _ = await asyncio.wait([acknowledged], timeout=0.2)
        assert not done
        await started.commit()
        assert await acknowledged is JobOutcome.DONE
    finally:
        await connection.close()
    assert await worker.status(leased.id) is JobStatus.COMPLETED


async def test_the_concurrency_of_a_queue_holds_over_all_nodes(worker: Worker, dsn: str) -> None:
    other = PostgresStore(dsn)
    await other.open()
    try:
        far = Worker(other, worker.tenant, worker.clock)
        await worker.enqueue("work", *range(50))
        limits = JobLimits(concurrency=5, rate=1000)
        await worker.jobs.set_limits(worker.tenant, "work", limits, "ada", worker.clock.now())

        leased = await asyncio.gather(*(near.lease("work", 2) for _ in range(10) for near in (worker, far)))

        assert sum(map(len, leased)) == 5
    finally:
        await other.close()


async def test_leases_lock_limited_queues_in_one_order(worker: Worker, dsn: str) -> None:
    """Two nodes that lease from the same queues, each in its own order, would wait for each other."""
    for queue in ("first", "second"):
        await worker.enqueue(queue)
        await worker.jobs.set_limits(worker.tenant, queue, JobLimits(concurrency=5), "ada", worker.clock.now())
    requests = [
        LeaseRequest(tenant=worker.tenant, queue=queue, lease_s=30, workers=["ada"]) for queue in ("second", "first")
    ]
    lock = "select from penstock.job_queues where tenant_id = $1 and name = $2 for update"
    async with transaction(dsn) as holder:
        await holder.execute(lock, worker.tenant, "first")
        leasing = asyncio.create_task(worker.jobs.lease_many(requests, worker.clock.now()))
        await until(lambda: holder.fetchval(WAITING_FOR, holder.get_server_pid()), 1)
        async with transaction(dsn, "other") as other:
            await other.execute(f"{lock} nowait", worker.tenant, "second")

    assert [leased.jobs[0].queue for leased in await leasing] == ["second", "first"]


async def test_a_receiver_does_not_wait_for_the_upkeep_of_jobs(migrated_database: str, clock: FakeClock) -> None:
    """That it waits is written down under a lock, which is its own."""
    store = PostgresStore(migrated_database)
    await store.open()
    try:
        caller = Caller(store, TenantId(1), clock)
        queue = await caller.make_queue("work")
        async with transaction(migrated_database) as janitor:
            await janitor.execute("select penstock.tend_jobs('7 days', 100, now())")
            await asyncio.wait_for(store.expect(caller.tenant, queue, clock.now()), 2)
    finally:
        await store.close()


async def test_one_node_tends_jobs_while_another_sweeps_topics(dsn: str) -> None:
    """They share nothing, so neither is left out."""
    async with transaction(dsn) as janitor:
        await janitor.execute("select penstock.tend_jobs('7 days', 100, now())")
        async with transaction(dsn, "other") as other:
            await other.execute("select penstock.sweep_topics(now(), now(), now(), 100)")
            held = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted"
            assert await other.fetchval(held) == 1


async def test_the_backoff_of_sql_is_that_of_python(worker: Worker, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    backoffs = [None, Backoff(base_s=0.5, cap_s=100), Backoff(delays_s=(1.5, 9.0)), Backoff(base_s=0)]
    try:
        for backoff in backoffs:
            for retries in (0, 1, 2, 7, 64, 1000):
                for spread in (0.0, 0.25, 0.999):
                    found = await connection.fetchval(
                        "select penstock.job_backoff($1::json, $2, $3)",
                        _backoff(backoff) if backoff else None,
                        retries,
                        spread,
                    )
                    assert found == pytest.approx((backoff or Backoff()).delay_s(retries, spread))
    finally:
        await connection.close()


async def test_finished_jobs_lie_in_days_that_are_dropped_whole(migrated_database: str, clock: FakeClock) -> None:
    store = PostgresStore(migrated_database)
    await store.open()
    worker = Worker(store, TenantId(1), clock)
    try:
        for _ in range(3):
            await worker.enqueue("work")
            await worker.complete(await worker.lease_one())
            clock.advance(seconds=86_400)
        assert days(migrated_database, "finished_jobs") == ["20260101", "20260102", "20260103"]

        await worker.tend(timedelta(days=1))

        assert days(migrated_database, "finished_jobs") == ["20260103", "20260104", "20260105"]
        assert days(migrated_database, "job_attempts") == ["20260103", "20260104", "20260105"]
        assert await worker.counts() == {"completed": 1}
    finally:
        await store.close()


async def test_a_day_in_use_is_dropped_later(migrated_database: str, clock: FakeClock) -> None:
    store = PostgresStore(migrated_database)
    await store.open()
    worker = Worker(store, TenantId(1), clock)
    try:
        await worker.enqueue("work")
        await worker.complete(await worker.lease_one())
        clock.advance(seconds=86_400 * 9)
        async with transaction(migrated_database) as reader:
            await reader.execute("select from penstock.finished_jobs")
            await worker.tend(timedelta(days=1))
            assert "20260101" in days(migrated_database, "finished_jobs")
        assert await worker.counts() == {"completed": 1}
        await worker.tend(timedelta(days=1))
        assert "20260101" not in days(migrated_database, "finished_jobs")
        assert await worker.counts() == {}
    finally:
        await store.close()


async def test_nodes_that_meet_a_new_day_at_once_make_it_once(migrated_database: str, clock: FakeClock) -> None:
    stores = [PostgresStore(migrated_database) for _ in range(4)]
    await asyncio.gather(*(store.open() for store in stores))
    workers = [Worker(store, TenantId(1), clock) for store in stores]
    try:
        await workers[0].enqueue("work", *range(4))
        leased = [await worker.lease_one() for worker in workers]
        done = await asyncio.gather(*(worker.complete(job) for worker, job in zip(workers, leased, strict=True)))
        assert done == [JobOutcome.DONE] * 4
    finally:
        await asyncio.gather(*(store.close() for store in stores))


async def test_the_audit_cannot_be_changed(worker: Worker, dsn: str) -> None:
    await worker.store.audit.note_act(worker.tenant, "ada", "token created", "1", "{}", worker.clock.now())
    changes = ("update penstock.audit set actor = 'eve'", "delete from penstock.audit", "truncate penstock.audit")
    for statement in changes:
        with psycopg.connect(dsn) as connection, pytest.raises(psycopg.Error, match="only added to"):
            connection.execute(statement.encode())


async def test_a_batch_of_many_jobs_is_one_statement(worker: Worker) -> None:
    entries = [NewJob(tenant=worker.tenant, queue=f"q{n % 3}", payload="{}") for n in range(1000)]

    made = await worker.jobs.enqueue_many(entries, worker.clock.now())

    assert len({one.id for one in made}) == 1000
    counts = await worker.jobs.counts(worker.tenant)
    assert [counted.pending for _, counted in counts] == [334, 333, 333]


def days(dsn: str, table: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "select right(c.relname, 8) from pg_inherits i join pg_class c on c.oid = i.inhrelid"
            " where i.inhparent = ('penstock.' || %s)::regclass order by 1",
            [table],
        )
        return [name for (name,) in found.fetchall()]
