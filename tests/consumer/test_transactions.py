"""Handlers that share the transaction of the acknowledgement: whatever happens, each effect is there once."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from penstock.consumer import Message, Producer
from tests.consumer.conftest import Start
from tests.consumer.looking import eventually, settled


def count(admin: psycopg.Connection[Any], table: str) -> int:
    row = admin.execute(f"select count(*) from {table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def done(admin: psycopg.Connection[Any], queue: str) -> str:
    """A table of the handlers' effects."""
    name = f"done_{queue[2:]}"
    admin.execute(f"create table {name} (number integer)".encode())
    return name


def test_a_transactional_handler_writes_with_the_acknowledgement(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any], done: str
) -> None:
    def handler(message: Message, connection: Any) -> Any:
        return statement(connection, f"insert into {done} values (%s)", message.payload)

    start(handler, transactional=True)
    producer.send_batch(queue, [1, 2, 3])

    eventually(lambda: count(admin, done) == 3)
    eventually(lambda: settled(admin, queue))


def statement(connection: Any, text: str, *values: Any) -> Any:
    """Executed by the driver for threads; for asyncio, something to wait for."""
    result = connection.execute(text, values)
    return result if isinstance(connection, psycopg.AsyncConnection) else None


def test_what_a_failed_transactional_handler_wrote_is_undone_and_the_rest_stays(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any], done: str
) -> None:
    def handler(message: Message, connection: Any) -> Any:
        # The second statement of message 2 fails in the database, after the first has worked.
        text = f"insert into {done} values (%s); select 1 / (%s - 2)"
        return statement(connection, text.replace("%s", str(message.payload)))

    running = start(handler, transactional=True, retry_after=3600)
    producer.send_batch(queue, [1, 2, 3])
    running.await_seen(3)

    eventually(lambda: settled(admin, queue))
    rows = admin.execute(f"select number from {done} order by number".encode()).fetchall()
    assert rows == [(1,), (3,)]


def test_a_connection_killed_in_the_middle_of_a_handler_leaves_each_effect_once(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any], done: str
) -> None:
    killed: list[int] = []

    def handler(message: Message, connection: Any) -> Any:
        if message.payload == 2 and not killed:
            killed.append(connection.info.backend_pid)
            admin.execute("select pg_terminate_backend(%s, 10000)", killed)
        return statement(connection, f"insert into {done} values (%s)", message.payload)

    start(handler, transactional=True)
    producer.send_batch(queue, [1, 2, 3])

    eventually(lambda: count(admin, done) == 3)
    eventually(lambda: settled(admin, queue))
    assert killed
    rows = admin.execute(f"select number from {done} order by number".encode()).fetchall()
    assert rows == [(1,), (2,), (3,)]


def test_two_processes_of_one_consumer_leave_each_effect_once(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any], done: str
) -> None:
    def handler(message: Message, connection: Any) -> Any:
        return statement(connection, f"insert into {done} values (%s)", message.payload)

    for _ in range(2):
        start(handler, transactional=True, max_messages=5)
    for number in range(10):
        producer.send_batch(queue, [number * 10 + place for place in range(10)])

    eventually(lambda: count(admin, done) >= 100)
    eventually(lambda: settled(admin, queue))
    rows = admin.execute(f"select number from {done} order by number".encode()).fetchall()
    assert rows == [(number,) for number in range(100)]
