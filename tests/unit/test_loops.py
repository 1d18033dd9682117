"""Duties, each called directly; and the one runner that repeats them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.loops import run_every
from penstock.loops.janitor import IDLE_S, LONGEST_IDLE_S, Janitor
from penstock.loops.mover import Mover
from penstock.loops.scrape import Scrape
from penstock.model import DEFAULT_TENANT, Handle, Receive, Send
from penstock.store.sqlite.store import SqliteStore


@pytest.fixture
async def engine(clock: FakeClock) -> AsyncIterator[Engine]:
    engine = Engine(SqliteStore(None), clock)
    await engine.open()
    yield engine
    await engine.close()


async def send(engine: Engine, queue: str, count: int = 1) -> None:
    await engine.queues.create(DEFAULT_TENANT, queue, {})
    for number in range(count):
        await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue=queue, body=str(number)))


async def test_a_failure_is_logged_and_the_duty_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    stop = asyncio.Event()
    runs: list[int] = []

    async def once() -> int:
        runs.append(1)
        if len(runs) <= 2:
            raise RuntimeError("the database is away")
        stop.set()
        return 1

    with caplog.at_level(logging.WARNING):
        await asyncio.wait_for(run_every(0.001, once, name="test", stop=stop), 5)
    assert len(runs) == 3
    records = [record for record in caplog.records if record.message == "a duty failed"]
    assert [record.__dict__["failures"] for record in records] == [1, 2]
    assert records[0].exc_info is not None
    assert not records[1].exc_info


async def test_a_duty_stops_at_once_even_in_a_long_pause() -> None:
    stop = asyncio.Event()
    ran = asyncio.Event()

    async def once() -> int:
        ran.set()
        return 0

    task = asyncio.create_task(run_every(3600, once, name="test", stop=stop))
    await ran.wait()
    stop.set()
    await asyncio.wait_for(task, 1)


async def test_a_run_under_way_is_finished() -> None:
    stop = asyncio.Event()
    finished = False

    async def once() -> int:
        nonlocal finished
        stop.set()
        await asyncio.sleep(0.01)
        finished = True
        return 0

    await asyncio.wait_for(run_every(3600, once, name="test", stop=stop), 1)
    assert finished


async def test_the_pause_may_depend_on_what_was_done() -> None:
    stop = asyncio.Event()
    results = iter([3, 0])
    asked: list[int] = []

    async def once() -> int:
        result = next(results, None)
        if result is None:
            stop.set()
        return result or 0

    def pause(done: int) -> float:
        asked.append(done)
        return 0.0

    await asyncio.wait_for(run_every(pause, once, name="test", stop=stop), 5)
    assert asked[:2] == [3, 0]


async def test_the_janitor_sweeps_until_nothing_is_left(engine: Engine, clock: FakeClock) -> None:
    await send(engine, "old", 25)
    janitor = Janitor(engine, limit=10)
    clock.advance(seconds=345_601)
    assert await janitor.once() >= 25
    assert await janitor.once() == 0


def test_the_janitor_of_an_idle_server_comes_less_often(engine: Engine) -> None:
    janitor = Janitor(engine)
    assert janitor.pause(5) == IDLE_S
    pauses = [janitor.pause(0) for _ in range(5)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_IDLE_S
    assert janitor.pause(1) == IDLE_S


async def test_the_mover_carries_a_redrive_on(engine: Engine, clock: FakeClock) -> None:
    await engine.queues.create(DEFAULT_TENANT, "dead", {})
    await engine.queues.create(DEFAULT_TENANT, "work", {"dead_letter_queue": "dead", "max_receives": 1})
    await send(engine, "dead", 3)
    mover = Mover(engine)
    assert await mover.once() == 0
    await engine.queues.start_move(DEFAULT_TENANT, "dead", "work")
    moved = 0
    for _ in range(10):
        moved += await mover.once()
        clock.advance(seconds=1)
    assert moved == 3
    assert (await engine.queues.counts(DEFAULT_TENANT, "work")).visible == 3


async def test_the_gauges_show_what_is_there_and_forget_what_is_gone(engine: Engine) -> None:
    await send(engine, "first", 3)
    await send(engine, "second", 1)
    [message] = await engine.messages.receive(Receive(tenant=DEFAULT_TENANT, queue="first"))
    scrape = Scrape(engine)
    assert await scrape.once() == 2
    assert engine.metrics.depth.values == {("default", "first"): 2, ("default", "second"): 1}
    assert engine.metrics.in_flight.values == {("default", "first"): 1, ("default", "second"): 0}
    assert engine.metrics.pool_size.values[()] >= 1
    await engine.messages.delete(Handle(tenant=DEFAULT_TENANT, queue="first", id=message.id, lease=message.lease))
    await engine.queues.drop(DEFAULT_TENANT, "second")
    assert await scrape.once() == 1
    assert engine.metrics.depth.values == {("default", "first"): 2}


async def test_many_queues_share_a_label(engine: Engine) -> None:
    for number in range(6):
        await send(engine, f"queue-{number}", number)
    assert await Scrape(engine, most=3).once() == 6
    assert engine.metrics.depth.values == {("default", "queue-5"): 5, ("default", "queue-4"): 4, ("other", "other"): 6}


async def test_what_waits_is_shown_with_its_age_and_apart_from_what_is_delayed(
    engine: Engine, clock: FakeClock
) -> None:
    await send(engine, "slow", 2)
    await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="slow", body="later", delay_s=600))
    clock.advance(seconds=400)
    await Scrape(engine).once()
    metrics, slow = engine.metrics, ("default", "slow")

    assert metrics.oldest_seconds.values == {slow: 400}
    assert (metrics.depth.values[slow], metrics.in_flight.values[slow], metrics.delayed.values[slow]) == (2, 0, 1)
    assert metrics.stored.values == {slow: 3}
