"""Producers that make the life of a reader hard: they commit out of order, hold transactions open, and roll back.

Each writes what it sends into a plain table too, in the same transaction. That table is the truth: a commit whose
answer was lost in a crash is in both or in neither.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import psycopg

from tests.spark import streams

STREAMS = ("orders", "bills")
AWAY_S = 0.05
LONGEST_HOLD_S = 4.0


class Book:
    """What the producers know for certain, whatever became of the database meanwhile."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.confirmed: set[str] = set()
        self.withdrawn: set[str] = set()

    def confirm(self, values: list[str]) -> None:
        with self._changed:
            self.confirmed.update(values)
            self._changed.notify_all()

    def withdraw(self, values: list[str]) -> None:
        with self._changed:
            self.withdrawn.update(values)

    def wait_for(self, more: int) -> None:
        """Until others have committed so many events, so that this one's ids are the oldest by far."""
        with self._changed:
            target = len(self.confirmed) + more
            self._changed.wait_for(lambda: len(self.confirmed) >= target, LONGEST_HOLD_S)


class Persistent(threading.Thread, ABC):
    """Does one thing over and over on a connection of its own, and comes back when the database was away."""

    def __init__(self, dsn: str, name: str, pause_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self._dsn = dsn
        self._pause_s = pause_s
        self._over = threading.Event()

    @abstractmethod
    def step(self, connection: psycopg.Connection) -> None:
        """The one thing."""

    def run(self) -> None:
        while not self._over.is_set():
            try:
                with psycopg.connect(self._dsn, connect_timeout=5) as connection:
                    while not self._over.is_set():
                        self.step(connection)
                        self._over.wait(self._pause_s)
            except psycopg.OperationalError:
                self._over.wait(AWAY_S)

    def end(self) -> None:
        self._over.set()
        self.join(30)
        assert not self.is_alive(), self.name


class Producer(Persistent):
    def __init__(self, dsn: str, number: int, book: Book) -> None:
        super().__init__(dsn, f"producer-{number}", pause_s=0.1)
        self._number = number
        self._book = book
        self._dice = random.Random(number)
        self._sent = 0

    def step(self, connection: psycopg.Connection) -> None:
        values: list[str] = []
        for _ in range(self._dice.randint(1, 3)):
            values += self._send(connection)
        chance = self._dice.random()
        if chance < 0.15:
            connection.rollback()
            self._book.withdraw(values)
            return
        if chance < 0.3:
            self._book.wait_for(self._dice.randint(50, 500))
        connection.commit()
        self._book.confirm(values)

    def _send(self, connection: psycopg.Connection) -> list[str]:
        stream = self._dice.choice(STREAMS)
        count = self._dice.randint(1, 30)
        values = [f"{stream}-{self._number}-{self._sent + place}" for place in range(count)]
        self._sent += count
        streams.send(connection, stream, values)
        connection.execute("insert into sent (stream, value) select %s, unnest(%s::text[])", [stream, values])
        return values


class Upkeep(Persistent):
    """Ticks and turns the tables over, as the server does. Ticks that are not on disk yet are the hardest."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, "upkeep", pause_s=0.05)

    def step(self, connection: psycopg.Connection) -> None:
        connection.execute("set synchronous_commit = off")
        connection.execute("select pgque.tick_waiting()")
        connection.commit()
        connection.execute("select pgque.maint()")
        connection.commit()


def prepare(dsn: str, consumers: Mapping[str, Sequence[str]]) -> None:
    """Consumers are there before the first event: rotation waits for nobody who has not come yet."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table sent (stream text not null, value text primary key)")
        for name in STREAMS:
            streams.make(connection, name)
            connection.execute("select pgque.set_queue_config(%s, 'rotation_period', '3 seconds')", [name])
        for consumer, names in consumers.items():
            for name in names:
                connection.execute("select pgque.register_consumer(%s, %s)", [name, consumer])


def sent(dsn: str, stream: str | None = None) -> set[str]:
    with psycopg.connect(dsn) as connection:
        query = "select value from sent where %s::text is null or stream = %s"
        return {row[0] for row in connection.execute(query, [stream, stream])}


def producing(dsn: str, book: Book, count: int) -> Callable[[], None]:
    """Start them all; the call that ends them all."""
    threads: list[Persistent] = [Producer(dsn, number, book) for number in range(count)]
    threads.append(Upkeep(dsn))
    for thread in threads:
        thread.start()

    def end() -> None:
        for thread in threads:
            thread.end()

    return end
