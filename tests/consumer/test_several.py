"""Several queues, several workers, and the end of a process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.consumer import AsyncMultiQueueConsumer, Consumer, Message, MultiQueueConsumer, Producer, connect
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.migrate import migrate
from tests.consumer.conftest import PATIENCE_S, Start
from tests.consumer.looking import eventually, settled

ROOT = Path(__file__).parents[2]


@pytest.fixture
def queues(admin: psycopg.Connection[Any], queue: str) -> list[str]:
    names = [f"{queue}-high", f"{queue}-low"]
    for name in names:
        admin.execute("select pgque.create_queue(%s)", [name])
        admin.execute("select pgque.subscribe(%s, 'shop')", [name])
    return names


async def test_coroutines_consume_several_streams_too(
    streams_dsn: str, producer: Producer, queues: list[str], admin: psycopg.Connection[Any]
) -> None:
    seen: list[tuple[str, Any]] = []
    consumer = AsyncMultiQueueConsumer(streams_dsn, [(name, "shop", 0) for name in queues])
    assert not consumer.health().running

    @consumer.on("*")
    async def handle(message: Message) -> None:
        seen.append((message.queue, message.payload))
        if len(seen) == 2:
            consumer.stop()

    for name in queues:
        producer.send(name, 1)
    async with asyncio.timeout(PATIENCE_S):
        await consumer.start()

    assert sorted(seen) == [(name, 1) for name in queues]


def test_the_queue_of_higher_priority_is_drained_first(
    streams_dsn: str, producer: Producer, queues: list[str], admin: psycopg.Connection[Any]
) -> None:
    high, low = queues
    seen: list[tuple[str, Any]] = []
    # The order they are named in does not matter, the number does.
    consumer = MultiQueueConsumer(streams_dsn, [(low, "shop", 1), (high, "shop", 0)], max_messages=2)

    @consumer.on("*")
    def handle(message: Message) -> None:
        seen.append((message.queue, message.payload))
        if len(seen) == 8:
            consumer.stop()

    for name in queues:
        producer.send_batch(name, [1, 2, 3, 4])
        admin.execute("select pgque.tick_if_waiting(%s)", [name])
    consumer.start()

    assert seen == [(high, number) for number in (1, 2, 3, 4)] + [(low, number) for number in (1, 2, 3, 4)]


def test_workers_that_share_a_position_share_the_work(
    streams_dsn: str, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    seen: list[int] = []
    guard = threading.Lock()
    workers: list[Consumer] = []
    for name in ("one", "two"):
        worker = Consumer(streams_dsn, queue, "shop", subconsumer=name, dead_interval=60)

        @worker.on("*")
        def handle(message: Message) -> None:
            with guard:
                seen.append(message.payload)

        admin.execute("select pgque.subscribe_subconsumer(%s, 'shop', %s)", [queue, name])
        workers.append(worker)
    threads = [threading.Thread(target=worker.start) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        for number in range(40):
            producer.send(queue, number)
        eventually(lambda: len(seen) >= 40)
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join(PATIENCE_S)

    assert sorted(seen) == list(range(40))


@pytest.mark.parametrize(
    ("options", "beats"),
    [
        ({"dead_interval": 0.3}, True),
        ({"heartbeat_interval": 0.1}, True),
        ({"dead_interval": 3600}, False),
    ],
    ids=["a third of dead_interval", "given", "not due yet"],
)
def test_a_worker_says_that_it_is_alive_while_a_handler_runs(
    start: Start,
    producer: Producer,
    queue: str,
    admin: psycopg.Connection[Any],
    options: dict[str, Any],
    beats: bool,
) -> None:
    admin.execute("select pgque.subscribe_subconsumer(%s, 'shop', 'one')", [queue])
    working, ending = threading.Event(), threading.Event()

    def handle(message: Message) -> None:
        working.set()
        ending.wait(PATIENCE_S)

    def active() -> Any:
        return admin.execute(
            "select s.sub_active from pgque.subscription as s join pgque.consumer as c on c.co_id = s.sub_consumer"
            " join pgque.queue as q on q.queue_id = s.sub_queue where q.queue_name = %s and c.co_name = 'shop.one'",
            [queue],
        ).fetchone()

    running = start(handle, subconsumer="one", **options)
    producer.send(queue, 1)
    assert working.wait(PATIENCE_S)
    before = active()
    try:
        if beats:
            eventually(lambda: active() > before)
            before = active()
            eventually(lambda: active() > before)
        else:
            assert active() == before
    finally:
        ending.set()
    running.end()
    assert running.error is None


SCRIPT = """
import sys, penstock
consumer = penstock.Consumer(sys.argv[1], sys.argv[2], "shop")

@consumer.on("*")
def handle(message):
    print("handling", flush=True)
    sys.stdin.readline()
    print("handled", message.payload, flush=True)

consumer.start()
print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_lets_the_batch_finish_and_ends_the_process(
    streams_dsn: str, producer: Producer, queue: str, admin: psycopg.Connection[Any], number: signal.Signals
) -> None:
    admin.execute("select pgque.subscribe(%s, 'shop')", [queue])
    producer.send(queue, 1)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, streams_dsn, queue],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "handling\n"
        process.send_signal(number)
        printed, _ = process.communicate("go on\n", timeout=PATIENCE_S)

    assert (printed, process.returncode) == ("handled 1\nstopped\n", 0)
    assert settled(admin, queue)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    if os.environ.get("PENSTOCK_TEST_DSN"):
        pytest.skip("the PostgreSQL under test was given, and is not ours to restart")
    server = EmbeddedPostgres(tmp_path, settings={"fsync": "off"})
    server.start()
    try:
        yield server
    finally:
        server.stop()


def test_a_consumer_outlives_a_restart_of_the_server(own_server: EmbeddedPostgres) -> None:
    asyncio.run(migrate(own_server.dsn))
    seen: list[int] = []
    consumer = Consumer(own_server.dsn, "orders", "shop")
    consumer.on("*")(lambda message: seen.append(message.payload))
    with connect(own_server.dsn) as producer:
        producer.connection.execute("select pgque.create_queue('orders')")
        producer.connection.execute("select pgque.subscribe('orders', 'shop')")
        producer.send("orders", 1)
    thread = threading.Thread(target=consumer.start)
    thread.start()
    try:
        eventually(lambda: seen == [1])
        own_server.stop()
        own_server.start()
        with connect(own_server.dsn) as producer:
            producer.send("orders", 2)
        eventually(lambda: seen[-1] == 2)
    finally:
        consumer.stop()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
