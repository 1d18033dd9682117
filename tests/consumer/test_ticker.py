"""The server's own ticker: one node at a time, and a stream that fails does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from penstock.engine import Engine
from penstock.loops.ticker import BUSY_S, LONGEST_IDLE_S, STANDBY_S, StreamKeeper, Ticker
from penstock.model import DEFAULT_TENANT
from penstock.model.streams import NewEvent
from penstock.store.postgres.store import PostgresStore


@pytest.fixture
async def engines(migrated_database: str) -> AsyncIterator[list[Engine]]:
    """Two nodes on one database."""
    found = [Engine(PostgresStore(migrated_database)) for _ in range(2)]
    for engine in found:
        await engine.open()
    yield found
    for engine in found:
        await engine.close()


async def send(engine: Engine, name: str, payload: str = "1") -> None:
    await engine.streams.send(DEFAULT_TENANT, name, [NewEvent(type="t", payload=payload)])


async def test_streams_with_events_are_ticked_and_others_are_not(engines: list[Engine]) -> None:
    ticker = Ticker(engines[0])
    for name in ("busy", "quiet"):
        await engines[0].streams.create(DEFAULT_TENANT, name, {})
    await send(engines[0], "busy")

    assert await ticker.once() == 1
    assert await ticker.once() == 0


async def test_the_ticker_rests_longer_and_longer_without_traffic(engines: list[Engine]) -> None:
    ticker = Ticker(engines[0])
    await ticker.once()

    pauses = [ticker.pause(0) for _ in range(20)]

    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_IDLE_S
    assert ticker.pause(1) == BUSY_S


async def test_one_node_ticks_and_another_takes_over_when_it_is_gone(engines: list[Engine]) -> None:
    first, second = (Ticker(engine) for engine in engines)
    await engines[0].streams.create(DEFAULT_TENANT, "orders", {})
    await first.once()
    await send(engines[0], "orders")

    assert await second.once() == 0
    assert second.pause(0) == STANDBY_S
    await engines[0].close()
    assert await second.once() == 1


async def test_a_ticker_that_lost_its_connection_gets_another(engines: list[Engine], migrated_database: str) -> None:
    ticker = Ticker(engines[0])
    await engines[0].streams.create(DEFAULT_TENANT, "orders", {})
    await ticker.once()
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where application_name = 'penstock ticker' and datname = current_database()"
        )
    await send(engines[0], "orders")
    ticked = 0
    for _ in range(3):
        try:
            ticked += await ticker.once()
        except Exception as error:
            logging.getLogger(__name__).info("the first try may fail: %s", error)

    assert ticked == 1


async def test_a_stream_that_cannot_be_ticked_does_not_stop_the_others(
    engines: list[Engine], migrated_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("broken", "sound"):
        await engines[0].streams.create(DEFAULT_TENANT, name, {})
        await send(engines[0], name)
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        row: Any = connection.execute("select queue_tick_seq from pgque.queue where queue_name = 'broken'").fetchone()
        connection.execute(f"alter sequence {row[0]} rename to missing".encode())

    assert await Ticker(engines[0]).once() == 1
    assert "broken" in {record.__dict__.get("stream") for record in caplog.records}


async def test_the_keeper_brings_back_what_is_due_and_turns_the_tables(
    engines: list[Engine], migrated_database: str
) -> None:
    streams = engines[0].streams
    await streams.create(DEFAULT_TENANT, "orders", {"rotation_period": 1})
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        connection.execute("update pgque.queue set queue_switch_time = now() - interval '1 hour'")
        before: Any = connection.execute("select queue_cur_table from pgque.queue").fetchone()
        keeper = StreamKeeper(engines[0])
        await keeper.once()
        after: Any = connection.execute("select queue_cur_table, queue_switch_step2 from pgque.queue").fetchone()

    assert after[0] != before[0]
    assert after[1] is not None
