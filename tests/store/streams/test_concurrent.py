"""No event is skipped and none comes twice, whatever transactions, ticks, rotations and maintenance do in between.

Sessions are driven by one thread, so a seed is one exact order of steps: begin, insert, savepoint, roll back, commit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.store.streams.queue import Connection, Queue, queue_of

STEPS = 250
WRITERS = 4
CONSUMERS = ("c", "slow", "pieces")


@dataclass(frozen=True)
class Load:
    """Closed, to be published by anybody."""

    id: int
    data: list[str]


class Writer:
    """A session whose transaction may be open for long; knows what it will have committed."""

    def __init__(self, connection: Connection, queue: Queue, loads: list[Load]) -> None:
        self._connection = connection
        self._queue = queue
        self._loads = loads
        """Those that all writers have to publish."""
        self._open: list[str | Load] = []
        self._publishing: list[tuple[int, Load]] = []
        self._marks: list[int] = []
        self.committed: list[str] = []

    def step(self, choice: random.Random, number: int) -> None:
        weights = {
            "insert": 8, "many": 2, "load": 2, "publish": 2,
            "savepoint": 2, "undo": 1, "release": 1, "commit": 3, "rollback": 1, "xid": 1,
        }  # fmt: skip
        what = choice.choices(list(weights), list(weights.values()))[0]
        getattr(self, what)(number)

    def insert(self, number: int) -> None:
        data = f"event {number}"
        self._queue.insert(data, on=self._connection)
        self._open.append(data)

    def many(self, number: int) -> None:
        data = [f"event {number}.{each}" for each in range(5)]
        self._connection.execute("select pgque.insert_events(%s, 'many', %s::text[])", (self._queue.name, data))
        self._open += data

    def load(self, number: int) -> None:
        data = [f"event {number}:{each}" for each in range(4)]
        [[load, table]] = self._connection.execute("select * from pgque.open_load(%s)", [self._queue.name]).fetchall()
        insert = f"insert into {table} (ev_type, ev_data) select 'load', unnest(%s::text[])"
        self._connection.execute(insert.encode(), [data])
        self._connection.execute("select pgque.close_load(%s)", [load])
        self._open.append(Load(load, data))

    def publish(self, number: int) -> None:
        """One of its own that is not committed yet, or any of those that are."""
        own = [each for each in self._open if isinstance(each, Load)]
        published = {load.id for _, load in self._publishing}
        waiting = [load for load in own if load.id not in published]
        load = waiting[0] if waiting else self._loads.pop() if self._loads else None
        if load is not None:
            self._connection.execute("select pgque.publish_loads(%s, %s)", (self._queue.name, [load.id]))
            self._publishing.append((len(self._open), load))
            self._open += load.data

    def xid(self, number: int) -> None:
        """A transaction that is noticed before it inserts anything."""
        self._connection.execute("select pg_current_xact_id()")

    def savepoint(self, number: int) -> None:
        self._connection.execute("savepoint mark")
        self._marks.append(len(self._open))

    def undo(self, number: int) -> None:
        if self._marks:
            self._connection.execute("rollback to savepoint mark")
            self._forget(self._marks[-1])

    def release(self, number: int) -> None:
        if self._marks:
            self._connection.execute("release savepoint mark")
            self._marks.pop()

    def commit(self, number: int) -> None:
        self._connection.commit()
        self.committed += [each for each in self._open if isinstance(each, str)]
        published = {load.id for _, load in self._publishing}
        self._loads += [each for each in self._open if isinstance(each, Load) and each.id not in published]
        self._open, self._publishing, self._marks = [], [], []

    def rollback(self, number: int) -> None:
        self._connection.rollback()
        self._forget(0)
        self._marks = []

    def _forget(self, mark: int) -> None:
        """What was done since is undone; a load of somebody else's is to be published again."""
        made = {each.id for each in self._open if isinstance(each, Load)}
        undone = [load for position, load in self._publishing if position >= mark]
        self._loads += [load for load in undone if load.id not in made]
        self._publishing = [(position, load) for position, load in self._publishing if position < mark]
        del self._open[mark:]


class Reader:
    """Takes a batch now and then; may lose its session while it has one."""

    def __init__(self, queue: Queue, name: str) -> None:
        self._queue = queue
        self._name = name
        self.ids: list[int] = []
        self.seen: list[str] = []

    def step(self, choice: random.Random) -> bool:
        batch = self._queue.open(self._name)
        if batch is None:
            return False
        if self._name == "pieces":
            query = "select ev_id, ev_data from pgque.batch_hand_out(%s, %s)"
            rows = self._queue.rows(query, batch, choice.choice([1, 3, 10]))
        else:
            rows = self._queue.rows("select ev_id, ev_data from pgque.get_batch_events(%s)", batch)
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)
        if choice.random() < 0.2:
            return True  # died before it could finish: the same comes again
        self.ids += [row[0] for row in rows]
        self.seen += [row[1] for row in rows]
        assert self._queue.one("select pgque.batch_acknowledge(%s)", batch) == 1
        return True


@contextmanager
def world(dsn: str) -> Iterator[tuple[Queue, list[Writer]]]:
    with ExitStack() as stack:
        queue = stack.enter_context(queue_of(dsn, *CONSUMERS))
        sessions = [stack.enter_context(psycopg.connect(dsn)) for _ in range(WRITERS)]
        loads: list[Load] = []
        yield queue, [Writer(session, queue, loads) for session in sessions]
        for session in sessions:
            session.rollback()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_every_committed_event_comes_to_every_consumer_exactly_once(streams_dsn: str, seed: int) -> None:
    choice = random.Random(seed)
    with world(streams_dsn) as (queue, writers):
        readers = {name: Reader(queue, name) for name in CONSUMERS}
        rotations = 0
        before: Any = None
        for number in range(STEPS):
            what = choice.choices(["write", "tick", "read", "slow", "rotate", "turn"], [12, 3, 3, 0.3, 0.8, 0.5])[0]
            if what == "write":
                choice.choice(writers).step(choice, number)
            elif what == "tick":
                queue.rows("select pgque.tick_if_waiting(%s)", queue.name)
            elif what == "read":
                readers[choice.choice(["c", "pieces"])].step(choice)
            elif what == "slow":
                readers["slow"].step(choice)
            elif what == "rotate":
                current = queue.rotate()
                rotations += current != before
                before = current
            else:
                queue.rows("select pgque.maint_progress(0)")
        for writer in writers:
            writer.commit(STEPS)
        writers[0].publish(STEPS)
        writers[0].commit(STEPS)
        queue.tick()
        committed = sorted(data for writer in writers for data in writer.committed)
        for reader in readers.values():
            for _ in range(10_000):
                if not reader.step(choice):
                    break
            assert sorted(reader.seen) == committed
            assert len(set(reader.ids)) == len(reader.ids)
        assert committed
        assert rotations > 0


def test_an_event_that_commits_late_is_in_the_batch_of_its_commit(queue: Queue, other: Connection) -> None:
    queue.register("c")
    queue.insert("early number, late commit", on=other)
    queue.insert("late number, early commit")
    queue.tick()

    assert queue.take() == ["late number, early commit"]

    other.commit()
    queue.tick()
    assert queue.take() == ["early number, late commit"]


def test_a_long_transaction_keeps_nobody_waiting_and_loses_nothing(queue: Queue, other: Connection) -> None:
    queue.register("c")
    queue.insert("long", on=other)
    for number in range(5):
        queue.insert(f"short {number}")
        queue.tick()
    assert queue.drain() == [f"short {number}" for number in range(5)]

    other.commit()
    queue.tick()
    assert queue.drain() == ["long"]


def test_a_savepoint_that_is_undone_takes_its_events_along_and_the_others_stay(queue: Queue, other: Connection) -> None:
    queue.register("c")
    queue.insert("before", on=other)
    other.execute("savepoint mark")
    queue.insert("undone", on=other)
    other.execute("rollback to savepoint mark")
    queue.insert("after", on=other)
    other.execute("savepoint mark")
    queue.insert("kept", on=other)
    queue.tick()
    other.commit()
    queue.tick()

    assert queue.drain() == ["before", "after", "kept"]


def test_a_batch_reads_from_both_tables_when_they_turned_in_between(queue: Queue, other: Connection) -> None:
    queue.register("c")
    queue.tick()
    assert queue.take() == []
    queue.insert("before, still open", on=other)
    queue.insert("before")
    assert queue.rotate() == 1
    queue.insert("after")
    other.commit()
    queue.tick()

    assert sorted(queue.drain()) == ["after", "before", "before, still open"]


def test_the_order_in_a_batch_is_that_of_the_ids(queue: Queue, other: Connection) -> None:
    """The second transaction begins first and inserts last."""
    queue.register("c")
    other.execute("select pg_current_xact_id()")
    queue.insert("one")
    queue.insert("two", on=other)
    queue.insert("three")
    other.commit()
    queue.tick()

    assert queue.take() == ["one", "two", "three"]


def test_a_sender_that_looks_through_an_old_snapshot_is_refused_after_a_rotation(
    queue: Queue, other: Connection
) -> None:
    other.execute("set transaction isolation level repeatable read")
    other.execute("select 1 from pgque.queue")
    queue.rotate()

    with pytest.raises(psycopg.errors.SerializationFailure):
        queue.insert("into the wrong table", on=other)
