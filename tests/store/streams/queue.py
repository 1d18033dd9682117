"""A queue through the functions of the core, on a connection that commits each call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

Connection = psycopg.Connection[Any]


class Queue:
    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name
        self.id: int = self.one("select pgque.queue_id(%s)", name)

    def rows(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        return self.connection.execute(query.encode(), arguments).fetchall()

    def one(self, query: str, *arguments: object) -> Any:
        [[value]] = self.rows(query, *arguments)
        return value

    def refused(self, query: str, *arguments: object) -> psycopg.Error:
        """The error the query must end in; whatever it did is undone."""
        try:
            with self.connection.transaction():
                self.connection.execute(query.encode(), arguments)
        except psycopg.Error as error:
            return error
        raise AssertionError(f"passed: {query}")

    def register(self, *consumers: str) -> None:
        for consumer in consumers:
            assert self.one("select pgque.register_consumer(%s, %s)", self.name, consumer) == 1

    def insert(self, *data: str, on: Connection | None = None) -> list[int]:
        session = on or self.connection
        query = "select pgque.insert_event(%s, 'type', %s)"
        return [session.execute(query, (self.name, each)).fetchall()[0][0] for each in data]

    def tick(self) -> int:
        """What was committed so far is now behind a tick, even if that is nothing."""
        self.wait_for_strangers()
        self.rows("select pgque.force_next_tick(%s)", self.name)
        found: int = self.one("select pgque.ticker(%s)", self.name)
        assert found is not None
        return found

    def wait_for_strangers(self) -> None:
        """A transaction of another database on the server is in our snapshots too, and would postpone rotations."""
        query = "select count(*) from pg_stat_activity where backend_xid is not null and datname <> current_database()"
        for _ in range(1000):
            if self.one(query) == 0:
                return
            time.sleep(0.01)

    def open(self, consumer: str = "c") -> int | None:
        found: int | None = self.one("select pgque.next_batch(%s, %s)", self.name, consumer)
        return found

    def data(self, batch: int) -> list[str]:
        return [row[0] for row in self.rows("select ev_data from pgque.get_batch_events(%s)", batch)]

    def finish(self, batch: int) -> int:
        found: int = self.one("select pgque.finish_batch(%s)", batch)
        return found

    def take(self, consumer: str = "c") -> list[str]:
        """The next batch, opened, read and finished."""
        batch = self.open(consumer)
        assert batch is not None, "no batch"
        found = self.data(batch)
        assert self.finish(batch) == 1
        return found

    def drain(self, consumer: str = "c") -> list[str]:
        """Everything behind a tick."""
        found: list[str] = []
        for _ in range(10_000):
            batch = self.open(consumer)
            if batch is None:
                return found
            found += self.data(batch)
            self.finish(batch)
        raise AssertionError("there is no end to it")

    def rotate(self) -> int:
        """Both steps, each in its transaction, as if the period were over; the table that is current then."""
        self.rows("select pgque.set_queue_config(%s, 'rotation_period', '0')", self.name)
        self.rows("select pgque.maint_rotate_tables_step1(%s)", self.name)
        self.rows("select pgque.maint_rotate_tables_step2()")
        found: int = self.one("select queue_cur_table from pgque.queue where queue_name = %s", self.name)
        return found

    def table(self, number: int) -> sql.Composable:
        return sql.Identifier("pgque", f"event_{self.id}_{number}")

    def stored(self, number: int) -> int:
        [[count]] = self.connection.execute(sql.SQL("select count(*) from {}").format(self.table(number))).fetchall()
        found: int = count
        return found


@contextmanager
def queue_of(dsn: str, *consumers: str) -> Iterator[Queue]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        name = f"queue-{uuid4().hex}"
        connection.execute("select pgque.create_queue(%s)", (name,))
        queue = Queue(connection, name)
        queue.register(*consumers)
        yield queue
