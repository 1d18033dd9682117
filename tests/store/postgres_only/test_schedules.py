"""Schedules on PostgreSQL: nodes that fire at once, and the plans of what every poll asks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.schedules.schedules import plan
from penstock.loops.scheduler import Scheduler
from penstock.model import DEFAULT_TENANT, TenantId
from penstock.model.schedules import Schedule, TargetKind
from penstock.store import Store
from penstock.store.postgres.connections import PLANNING, SQL
from penstock.store.postgres.schedules.schedules import PostgresSchedules
from penstock.store.postgres.store import PostgresStore
from tests.store.postgres_only.sessions import Session, Watcher

Create = Callable[..., Awaitable[Schedule]]


@pytest.fixture
def create(store: Store, tenant: TenantId, clock: FakeClock) -> Create:
    async def create(name: str, target: str = "orders", **given: Any) -> Schedule:
        given = {"every": "1m", "target_kind": TargetKind.QUEUE, "target": target} | given
        return await Engine(store, clock).schedules.create(tenant, name, given)

    return create


def of(session: Session) -> PostgresSchedules:
    """Schedules on the one connection of a session."""
    assert isinstance(session.store, PostgresStore)
    return PostgresSchedules(session.store._connections)


async def fire(session: Session, schedule: Schedule) -> int:
    found = await of(session).get(schedule.tenant, schedule.name)
    fired = await of(session).fire([plan(found, session.clock.now())], session.clock.now())
    return sum(each.error is None for each in fired)


async def test_what_another_node_is_firing_is_passed_over_without_waiting(
    alice: Session, bob: Session, create: Create, clock: FakeClock
) -> None:
    await alice.make_queue("orders")
    schedule = await create("tick")
    clock.advance(seconds=60)
    await alice.begin()

    assert await fire(alice, schedule) == 1
    assert await fire(bob, schedule) == 0
    await alice.commit()

    assert await bob.state("orders") == (1, 0, 0)


async def test_a_firing_that_is_rolled_back_never_was(
    alice: Session, bob: Session, create: Create, clock: FakeClock
) -> None:
    await alice.make_queue("orders")
    schedule = await create("tick")
    clock.advance(seconds=60)
    await alice.begin()
    assert await fire(alice, schedule) == 1
    await alice.rollback()

    assert await bob.state("orders") == (0, 0, 0)
    assert await fire(bob, schedule) == 1
    assert await bob.state("orders") == (1, 0, 0)


async def test_a_firing_read_before_another_committed_does_nothing(
    alice: Session, bob: Session, create: Create, clock: FakeClock
) -> None:
    await alice.make_queue("orders")
    schedule = await create("tick")
    clock.advance(seconds=60)
    firing = plan(schedule, clock.now())

    [fired] = await of(alice).fire([firing], clock.now())
    again = await of(bob).fire([firing], clock.now())

    assert fired.error is None
    assert list(again) == []


async def test_a_group_that_a_user_holds_is_one_schedules_failure(
    alice: Session, bob: Session, watcher: Watcher, create: Create, clock: FakeClock
) -> None:
    await alice.make_queue("orders")
    await alice.make_queue("lines.fifo")
    held = await create("held", "lines.fifo", group_id="g")
    free = await create("free", "orders")
    clock.advance(seconds=60)
    await alice.begin()
    await alice.send("lines.fifo", "mine", group_id="g")

    firings = [plan(schedule, clock.now()) for schedule in (held, free)]
    firing = asyncio.ensure_future(of(bob).fire(firings, clock.now()))
    await watcher.blocked(bob)
    fired = await firing
    await alice.commit()

    assert {each.schedule.name: each.error is None for each in fired} == {"held": False, "free": True}


async def test_a_stream_receives_events_with_the_headers_beside_them(
    store: Store, tenant: TenantId, create: Create, clock: FakeClock, dsn: str
) -> None:
    await store.streams.create(tenant, "log", {})
    schedule = await create("tick", "log", target_kind=TargetKind.STREAM, body='{"n":1}', catchup=True)
    clock.advance(seconds=125)

    [fired] = await store.schedules.fire([plan(schedule, clock.now())], clock.now())

    assert fired.error is None
    connection = await asyncpg.connect(dsn)
    table = await connection.fetchval("select pgque.current_event_table($1)", f"t{tenant}:log")
    rows = await connection.fetch(f"select ev_id, ev_type, ev_data, ev_extra2 from {table} order by ev_id")
    await connection.close()
    assert [(row["ev_id"], row["ev_type"], row["ev_data"]) for row in rows] == [
        (number, "schedule", '{"n":1}') for number in fired.ids
    ]
    times = [json.loads(row["ev_extra2"])["_schedule"]["scheduled_for"] for row in rows]
    assert times == ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]


async def test_a_stream_that_is_gone_is_a_failure(
    create: Create, store: Store, tenant: TenantId, clock: FakeClock
) -> None:
    await store.streams.create(tenant, "passing", {})
    schedule = await create("tick", "passing", target_kind=TargetKind.STREAM)
    await store.streams.drop(tenant, "passing")
    clock.advance(seconds=60)

    [fired] = await store.schedules.fire([plan(schedule, clock.now())], clock.now())

    assert fired.error is not None
    assert "passing" in fired.error


async def test_nodes_that_race_fire_each_once(migrated_database: str, clock: FakeClock) -> None:
    engines = [Engine(PostgresStore(migrated_database, max_connections=3), clock) for _ in range(4)]
    for engine in engines:
        await engine.open()
    try:
        first = engines[0]
        await first.queues.create(DEFAULT_TENANT, "orders", {})
        given = {"every": "1m", "target_kind": TargetKind.QUEUE, "target": "orders", "catchup": True}
        for number in range(100):
            await first.schedules.create(DEFAULT_TENANT, f"tick-{number}", given)
        for _ in range(3):
            clock.advance(seconds=120)
            counts = await asyncio.gather(*(Scheduler(engine).once() for engine in engines))
            assert sum(counts) == 200
        found = await first.store.peek(DEFAULT_TENANT, "orders", 1000, clock.now())
        marks = Counter((mark["name"], mark["scheduled_for"]) for mark in map(_mark, found))
        assert len(marks) == 600
        assert set(marks.values()) == {1}
    finally:
        for engine in engines:
            await engine.close()


def _mark(message: Any) -> dict[str, str]:
    mark: dict[str, str] = json.loads(message.headers)["_schedule"]
    return mark


async def test_a_poll_uses_the_index_however_many_wait(migrated_database: str, clock: FakeClock) -> None:
    store = PostgresStore(migrated_database)
    await store.open()
    engine = Engine(store, clock)
    await engine.queues.create(DEFAULT_TENANT, "orders", {})
    given = {"every": "1m", "target_kind": TargetKind.QUEUE, "target": "orders"}
    await engine.schedules.create(DEFAULT_TENANT, "model", given)
    connection = await asyncpg.connect(migrated_database, server_settings=PLANNING)
    try:
        columns = ", ".join(
            row[0]
            for row in await connection.fetch(
                "select attname from pg_attribute where attrelid = 'penstock.schedules'::regclass and attnum > 0"
                " and attname not in ('id', 'name', 'due_at')"
            )
        )
        await connection.execute(
            f"insert into penstock.schedules (name, due_at, {columns})"
            f" select name || n, due_at + n * interval '1 s', {columns}"
            " from penstock.schedules, generate_series(1, 20000) as n"
        )
        later = clock.now() + timedelta(seconds=90)
        place = f"'{clock.now().isoformat()}', 0"
        for name, types, arguments in (
            ("next_schedule_due", "timestamptz, bigint", place),
            ("due_schedules", "timestamptz, integer, timestamptz, bigint", f"'{later.isoformat()}', 32, {place}"),
        ):
            await connection.execute(f"prepare {name} ({types}) as {SQL[name]}")
            rows = await connection.fetch(f"explain (analyze, buffers) execute {name} ({arguments})")
            text = "\n".join(row[0] for row in rows)
            assert "schedules_due" in text, text
            assert "Sort" not in text, text
            assert int(text.partition("shared hit=")[2].split()[0].split("\n")[0]) < 100, text
    finally:
        await connection.close()
        await store.close()
