"""The recent past for charts: what is sampled, and what a series makes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.insights.history import Span
from penstock.loops.sampler import Sampler
from penstock.model import DEFAULT_TENANT, Handle, Receive, Send
from penstock.model.jobs import NewJob
from penstock.model.samples import SampleKind
from penstock.store.sqlite.store import SqliteStore

QUEUE = SampleKind.QUEUE


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 11, 17, 10, 30, 20, tzinfo=UTC))


@pytest.fixture
async def engine(clock: FakeClock) -> AsyncIterator[Engine]:
    engine = Engine(SqliteStore(None), clock)
    await engine.open()
    await engine.queues.create(DEFAULT_TENANT, "orders", {})
    yield engine
    await engine.close()


async def send(engine: Engine, count: int) -> None:
    for _ in range(count):
        await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="x"))


async def delete(engine: Engine, count: int) -> None:
    for message in await engine.messages.receive(Receive(tenant=DEFAULT_TENANT, queue="orders", limit=count)):
        await engine.messages.delete(Handle(tenant=DEFAULT_TENANT, queue="orders", id=message.id))


async def test_rates_are_differences_of_counters(engine: Engine, clock: FakeClock) -> None:
    sampler = Sampler(engine)
    await sampler.once()
    clock.advance(seconds=60)
    await send(engine, 12)
    await delete(engine, 6)
    await sampler.once()
    clock.advance(seconds=60)
    await sampler.once()

    for name in ("orders", ""):
        series = await engine.history.series(DEFAULT_TENANT, QUEUE, name, Span.HOUR)
        assert len(series.starts_at) == 60
        assert series.arrived[-3:] == [None, 0.2, 0.0]
        assert series.departed[-3:] == [None, 0.1, 0.0]
        assert series.waiting[-4:] == [None, 0, 6, 6]
        assert series.oldest_s[-1] == 60.0


async def test_a_quiet_queue_is_not_sampled_and_its_line_goes_on(engine: Engine, clock: FakeClock) -> None:
    counts = []
    for _ in range(4):
        counts.append(await engine.history.record())
        clock.advance(seconds=60)

    series = await engine.history.series(DEFAULT_TENANT, QUEUE, "orders", Span.HOUR)
    assert counts == [2, 1, 1, 1]
    assert series.waiting[-5:] == [0, 0, 0, 0, None]
    assert series.arrived[-5:] == [None, 0.0, 0.0, 0.0, None]


async def test_a_minute_is_sampled_once_however_many_nodes_run(engine: Engine, clock: FakeClock) -> None:
    second = Engine(engine.store, clock)

    assert await engine.history.record() > 0
    assert await engine.history.record() == 0
    assert await second.history.record() == 0


async def test_hours_are_kept_for_a_month_and_minutes_for_a_day(engine: Engine, clock: FakeClock) -> None:
    sampler = Sampler(engine)
    clock.advance(seconds=1800)
    for count in range(3):
        await send(engine, count)
        await sampler.once()
        clock.advance(seconds=86_400)
    await sampler.once()

    day = await engine.history.series(DEFAULT_TENANT, QUEUE, "", Span.DAY)
    week = await engine.history.series(DEFAULT_TENANT, QUEUE, "", Span.WEEK)
    assert [value for value in day.waiting if value is not None] == [3]
    assert (len(week.waiting), week.waiting[-1], week.waiting[-25], week.waiting[-73]) == (168, 3, 3, 0)


async def test_jobs_are_sampled_too_and_growth_is_seen(engine: Engine, clock: FakeClock) -> None:
    await engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue="mail", payload="{}"))
    await send(engine, 3)
    await engine.history.record()
    clock.advance(seconds=900)

    series = await engine.history.series(DEFAULT_TENANT, SampleKind.JOB, "mail", Span.HOUR)
    assert series.waiting[-16] == 1
    assert await engine.history.waited(DEFAULT_TENANT, QUEUE) == {"": 3, "orders": 3}


async def test_the_sampler_comes_back_when_the_next_minute_has_begun(engine: Engine) -> None:
    assert Sampler(engine).pause(0) == 40.5
