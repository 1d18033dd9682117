"""Gauges of streams; and the cost of all gauges under load."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from penstock.clock import FakeClock
from penstock.model import DEFAULT_TENANT, TenantId
from penstock.model.gauges import ConsumerGauges
from penstock.model.stream_names import owner_of
from penstock.model.streams import NewEvent
from penstock.store.postgres.connections import PLANNING, SQL
from penstock.store.postgres.store import PostgresStore


@pytest.fixture
async def store(migrated_database: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(migrated_database)
    await store.open()
    yield store
    await store.close()


def run(dsn: str, query: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(query.encode())


async def consumers(store: PostgresStore) -> dict[tuple[TenantId, str, str], ConsumerGauges]:
    return {(one.tenant, one.stream, one.consumer): one for one in await store.gauges.consumers()}


async def test_each_consumer_has_its_pending_events_and_its_lag(store: PostgresStore, migrated_database: str) -> None:
    streams = store.streams
    await streams.create(DEFAULT_TENANT, "orders", {})
    for name in ("quick", "slow"):
        await streams.subscribe(DEFAULT_TENANT, "orders", name)
    await streams.send(DEFAULT_TENANT, "orders", [NewEvent(type="paid", payload=str(n)) for n in range(3)])
    await streams.tick_on_demand(DEFAULT_TENANT, "orders")
    batch = await streams.receive(DEFAULT_TENANT, "orders", "quick", 10)
    assert batch is not None
    await streams.ack(DEFAULT_TENANT, "orders", "quick", batch.id)
    run(migrated_database, "update pgque.tick set tick_time = tick_time - interval '100 seconds'")
    found = await consumers(store)
    [stream] = await store.gauges.streams()

    assert found[DEFAULT_TENANT, "orders", "quick"].pending == 0
    assert found[DEFAULT_TENANT, "orders", "slow"].pending == 3
    assert all(100 <= one.lag_s < 160 for one in found.values())
    assert (stream.tenant, stream.stream) == (DEFAULT_TENANT, "orders")
    assert 100 <= stream.tick_age_s < 160


async def test_a_stream_has_its_dead_letters(store: PostgresStore) -> None:
    for name in ("orders", "other"):
        await store.streams.create(DEFAULT_TENANT, name, {"max_retries": 0})
    await store.streams.subscribe(DEFAULT_TENANT, "orders", "shop")
    await store.streams.send(DEFAULT_TENANT, "orders", [NewEvent(type="paid", payload=str(n)) for n in range(3)])
    await store.streams.tick_on_demand(DEFAULT_TENANT, "orders")
    batch = await store.streams.receive(DEFAULT_TENANT, "orders", "shop", 10)
    assert batch is not None
    for event in batch.events[:2]:
        await store.streams.nack(DEFAULT_TENANT, "orders", "shop", batch.id, event.id, 0, "it broke")

    assert {one.stream: one.dead for one in await store.gauges.streams()} == {"orders": 2, "other": 0}


async def test_streams_are_told_under_the_names_their_tenants_know(
    store: PostgresStore, clock: FakeClock, migrated_database: str
) -> None:
    other = (await store.create_tenant("other", clock.now())).id
    for tenant in (DEFAULT_TENANT, other):
        await store.streams.create(tenant, "orders", {})
        await store.streams.subscribe(tenant, "orders", "shop")
    run(migrated_database, "select pgque.create_queue('made: in SQL')")

    assert set(await consumers(store)) == {(DEFAULT_TENANT, "orders", "shop"), (other, "orders", "shop")}
    assert {(one.tenant, one.stream) for one in await store.gauges.streams()} == {
        (DEFAULT_TENANT, "orders"),
        (other, "orders"),
        (DEFAULT_TENANT, "made: in SQL"),
    }


async def test_members_of_a_cooperative_consumer_are_told_as_one(store: PostgresStore, migrated_database: str) -> None:
    await store.streams.create(DEFAULT_TENANT, "orders", {})
    run(migrated_database, "select pgque.subscribe_subconsumer('orders', 'shop', 'first')")
    run(migrated_database, "select pgque.subscribe_subconsumer('orders', 'shop', 'second')")

    assert [found.consumer for found in await store.gauges.consumers()] == ["shop"]


@pytest.mark.parametrize(
    ("queue", "owner"),
    [
        ("orders", (1, "orders")),
        ("t7:orders", (7, "orders")),
        ("t7:a:b", (7, "a:b")),
        ("t0:orders", (1, "t0:orders")),
        ("t7:", (1, "t7:")),
        ("team:orders", (1, "team:orders")),
    ],
)
def test_a_name_tells_whose_stream_it_is(queue: str, owner: tuple[int, str]) -> None:
    assert owner_of(queue) == owner


# What it costs

MUCH = """
alter table penstock.jobs set (autovacuum_enabled = off);
insert into penstock.job_queues (tenant_id, name, created_at) values (1, 'work', now());
insert into penstock.jobs (
  queue_id, id, tenant_id, place, due_at, run_at, created_at, updated_at, priority, max_retries, state, payload
)
select q.id, n, 1, penstock.job_place(n % 3, n), now(), now(), now(), now(), n % 3, 0, s.state, '1'
from penstock.job_queues as q
cross join (values (3, 0), (1, {count}), (0, 2 * {count})) as s (state, start)
cross join lateral generate_series(s.start + 1, s.start + {count}) as n;
insert into penstock.schedules (
  tenant_id, name, status, target_kind, target, shape, given, kind, expression, timezone, anchor, body, is_json,
  catchup, catchup_limit, jitter_s, failure_threshold, next_fire_at, due_at, created_at, updated_at
)
select
  1, 's' || n, case n % 2 when 0 then 'active' else 'paused' end, 'job', 'work', 'every', '1m', 'every', 'PT1M', 'UTC',
  now(), '1', true, false, 1, 0, 1, now(), now(), now(), now()
from generate_series(1, {count}) as n;
"""


def pages_read(dsn: str, name: str, arguments: str) -> int:
    """By a statement as the server plans it, with what it has read before still at hand."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for setting, value in PLANNING.items():
            connection.execute("select set_config(%s, %s, false)", [setting, value])
        connection.execute(f"prepare gauges as {SQL[name]}".encode())
        [row] = connection.execute(f"explain (analyze, buffers, format json) execute gauges({arguments})".encode())
        plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.parametrize(
    ("name", "arguments"), [("job_figures", "100"), ("schedule_figures", "now(), 50")], ids=["jobs", "schedules"]
)
def test_much_to_do_costs_no_more_than_little(migrated_database: str, name: str, arguments: str) -> None:
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        connection.execute(MUCH.replace("{count}", "100").encode())
        few = pages_read(migrated_database, name, arguments)
        connection.execute("truncate penstock.jobs, penstock.schedules, penstock.job_queues")
        connection.execute(MUCH.replace("{count}", "20000").encode())
        many = pages_read(migrated_database, name, arguments)

    assert 0 < many <= 3 * few + 30, (few, many)
