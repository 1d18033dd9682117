"""Sending: now, later, once, together, or not at all."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import penstock
from penstock.consumer import AsyncProducer, Producer
from penstock.errors import StreamNotFound, Unavailable
from tests.consumer.conftest import Start


def test_a_key_is_sent_once(start: Start, producer: Producer, queue: str) -> None:
    first = producer.send(queue, 1, key="invoice-7", within=60)
    again = producer.send(queue, 1, key="invoice-7", within=60)
    other = producer.send(queue, 1, key="invoice-8", within=60)

    assert (first == again, first == other) == (True, False)


def test_a_delayed_event_comes_when_it_is_due(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    running = start()
    producer.send_at(queue, "reminder", {"user": 7}, delay=timedelta(hours=24), extra3="kept")
    producer.send_at(queue, "reminder", {"user": 8}, at=datetime.now(UTC) - timedelta(seconds=1))
    assert running.payloads(1) == [{"user": 8}]

    admin.execute("update pgque.delayed_events set de_deliver_at = now() where de_queue_name = %s", [queue])
    admin.execute("select pgque.maint_deliver_delayed()")

    assert running.payloads(2)[1] == {"user": 7}
    assert running.seen[1].extra3 == "kept"


def test_a_delay_and_a_moment_do_not_go_together(producer: Producer, queue: str) -> None:
    with pytest.raises(ValueError, match="give either delay or at"):
        producer.send_at(queue, "reminder", 1)
    with pytest.raises(ValueError, match="timezone"):
        producer.send_at(queue, "reminder", 1, at=datetime(2030, 1, 1))


def test_an_unknown_queue_is_a_clear_error_of_the_producer(producer: Producer) -> None:
    with pytest.raises(StreamNotFound, match="queue not found"):
        producer.send("no-such-queue", 1)


def test_the_health_of_the_streams_is_told(producer: Producer, queue: str) -> None:
    found = {health.check: health.status for health in producer.health() if health.queue == queue}

    assert found["ticker_running"] in ("ok", "critical")


# With asyncio


async def test_the_producer_of_asyncio_does_the_same(
    start: Start, streams_dsn: str, queue: str, admin: psycopg.Connection[Any]
) -> None:
    running = start()
    async with await penstock.connect_async(streams_dsn) as producer:
        assert isinstance(producer, AsyncProducer)
        first = await producer.send(queue, {"n": 1}, type="made", extra2="kept")
        again = await producer.send(queue, "never", key="k") - await producer.send(queue, "never", key="k")
        ids = await producer.send_batch(queue, [2, 3])
        async with producer.batch(queue) as batch:
            batch.send("late", 4, extra4="key")
        await producer.send_at(queue, "due", 5, at=datetime.now(UTC) - timedelta(seconds=1))
        with pytest.raises(ValueError, match="give either delay or at"):
            await producer.send_at(queue, "due", 5)
        with pytest.raises(StreamNotFound, match="queue not found"):
            await producer.send("no-such-queue", 1)
        assert {health.queue for health in await producer.health()} >= {queue}

    assert again == 0
    assert first < ids[0] < ids[1] < batch.ids[0]
    assert running.payloads(6) == [{"n": 1}, "never", 2, 3, 4, 5]
    assert (running.seen[0].extra2, running.seen[4].extra4) == ("kept", "key")


async def test_a_transaction_of_asyncio_that_fails_sends_nothing(
    streams_dsn: str, queue: str, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("select pgque.subscribe(%s, 'shop')", [queue])
    async with await penstock.connect_async(streams_dsn) as producer:
        with suppress(RuntimeError):
            async with producer.transaction():
                await producer.send(queue, 1)
                raise RuntimeError
        async with producer.transaction() as connection:
            await connection.execute("select 1")
            await producer.send(queue, 2)

    admin.execute("select pgque.tick_if_waiting(%s)", [queue])
    assert admin.execute("select payload from pgque.receive(%s, 'shop')", [queue]).fetchall() == [("2",)]


async def test_a_database_that_is_not_there_is_unavailable_to_asyncio_too() -> None:
    with pytest.raises(Unavailable):
        await penstock.connect_async("postgresql://127.0.0.1:1/none?connect_timeout=2")
