"""The SQL API as a user has it: one connection, one queue, and time set by the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
from psycopg import sql

Connection = psycopg.Connection[Any]


class Message(NamedTuple):
    msg_id: int
    batch_id: int
    type: str | None
    payload: str | None
    retry_count: int | None
    created_at: Any
    extra1: str | None
    extra2: str | None
    extra3: str | None
    extra4: str | None


class Api:
    def __init__(self, dsn: str, connection: Connection, queue: str) -> None:
        self.dsn = dsn
        self.connection = connection
        self.queue = queue

    def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode(), arguments).fetchall()

    def one(self, query: str, *arguments: object) -> Any:
        [[value]] = self.rows(query, *arguments)
        return value

    def run(self, query: str, *arguments: object) -> None:
        self.connection.execute(query.encode(), arguments or None)

    def become(self, role: str) -> None:
        self.connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))

    def refused(self, query: str, *arguments: object) -> psycopg.Error:
        """The error the query must end in; whatever it did is undone."""
        try:
            with self.connection.transaction():
                self.connection.execute(query.encode(), arguments or None)
        except psycopg.Error as error:
            return error
        raise AssertionError(f"passed: {query}")

    def send(self, payload: str, type: str = "default") -> int:
        found: int = self.one("select pgque.send(%s, %s::text, %s::text)", self.queue, type, payload)
        return found

    def tick(self) -> None:
        """What was committed so far can now be received."""
        self.rows("select pgque.force_next_tick(%s)", self.queue)
        self.rows("select pgque.ticker(%s)", self.queue)

    def tick_at_once(self) -> None:
        """A tick although nothing was sent."""
        self.rows("select pgque.make_tick(q) from pgque.queue as q where queue_name = %s", self.queue)

    def receive(self, consumer: str = "app", most: int = 100) -> list[Message]:
        return [
            Message(*row) for row in self.rows("select * from pgque.receive(%s, %s, %s)", self.queue, consumer, most)
        ]

    def ack(self, batch: int) -> int:
        found: int = self.one("select pgque.ack(%s)", batch)
        return found

    def nack(self, message: Message, after: str = "0 seconds", reason: str | None = None) -> int:
        found: int = self.one(
            "select pgque.nack(%s, row(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)::pgque.message, %s::interval, %s)",
            *(message.batch_id, *message, after, reason),
        )
        return found

    def drain(self, consumer: str = "app", most: int = 100) -> list[Message]:
        """Everything there is, each piece acknowledged."""
        found: list[Message] = []
        for _ in range(1000):
            messages = self.receive(consumer, most)
            if not messages:
                return found
            found += messages
            self.ack(messages[0].batch_id)
        raise AssertionError("there is no end to it")

    def stored(self) -> list[tuple[Any, ...]]:
        """Type, data and extras of every event in the tables of the queue, ticked or not."""
        table = self.one("select queue_data_pfx from pgque.queue where queue_name = %s", self.queue)
        query = sql.SQL("select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4 from {} order by ev_id")
        return self.connection.execute(query.format(sql.Identifier(*table.split(".")))).fetchall()


@contextmanager
def api_of(dsn: str, *consumers: str, **options: object) -> Iterator[Api]:
    """A user with all rights, with a queue and its consumers."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        api = Api(dsn, connection, f"queue-{uuid4().hex}")
        api.rows("select pgque.create_queue(%s)", api.queue)
        for name, value in options.items():
            api.rows("select pgque.set_queue_config(%s, %s, %s)", api.queue, name, str(value))
        for consumer in consumers:
            api.rows("select pgque.subscribe(%s, %s)", api.queue, consumer)
        yield api
