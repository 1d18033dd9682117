"""Where subscriptions stand: a log in three tables that take turns, flat whatever snapshot is held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.store.statistics import FLUSH
from tests.store.streams.queue import Connection, Queue


def sizes(queue: Queue) -> list[int]:
    return [queue.one(f"select count(*) from pgque.progress_{number}") for number in range(3)]


def turn(queue: Queue) -> int:
    """The turn passes on, whatever the size, as far as others let it."""
    queue.rows("select pgque.maint_progress(0)")
    found: int = queue.one("select pgque.turn()")
    return found


def cycle(queue: Queue) -> None:
    queue.rows("select pgque.force_next_tick(%s)", queue.name)
    queue.rows("select pgque.ticker(%s)", queue.name)
    batch = queue.open()
    assert batch is not None
    queue.finish(batch)


@pytest.fixture
def analyst(own_dsn: str) -> Iterator[Connection]:
    """Reads, in a transaction that stays open."""
    with psycopg.connect(own_dsn) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from pgque.queue")
        yield connection
        connection.rollback()


def test_a_subscription_keeps_its_place_when_the_tables_turn(own_queue: Queue) -> None:
    own_queue.register("c")
    own_queue.insert("a")
    own_queue.tick()
    batch = own_queue.open()
    assert batch is not None

    turns = [turn(own_queue) for _ in range(7)]
    assert turns == [1, 2, 0, 1, 2, 0, 1]
    assert own_queue.open() == batch
    assert own_queue.data(batch) == ["a"]
    assert own_queue.finish(batch) == 1
    turn(own_queue)
    assert own_queue.open() is None


def test_what_is_left_behind_is_emptied(own_queue: Queue) -> None:
    own_queue.register("c", "idle")
    for _ in range(5):
        cycle(own_queue)
    assert sizes(own_queue) == [12, 0, 0]
    turn(own_queue)
    assert sizes(own_queue) == [0, 2, 0]


def test_a_subscription_that_somebody_works_on_is_carried_over_later(own_queue: Queue, own_dsn: str) -> None:
    own_queue.register("c")
    own_queue.insert("a")
    own_queue.tick()
    with psycopg.connect(own_dsn) as worker:
        [[batch]] = worker.execute("select pgque.next_batch(%s, 'c')", (own_queue.name,)).fetchall()
        assert [turn(own_queue) for _ in range(4)] == [1, 2, 2, 2]
        worker.execute("select pgque.finish_batch(%s)", (batch,))
        worker.commit()

    for _ in range(4):
        turn(own_queue)
    assert own_queue.open() is None
    assert sum(sizes(own_queue)) <= 3


def test_a_table_that_somebody_reads_is_emptied_later(own_queue: Queue, own_dsn: str) -> None:
    own_queue.register("c")
    cycle(own_queue)
    with psycopg.connect(own_dsn) as reader:
        reader.execute("select * from pgque.subscription")
        turn(own_queue)
        assert sizes(own_queue)[0] > 0
        cycle(own_queue)
    turn(own_queue)
    assert own_queue.open() is None


class TestOldSnapshots:
    @pytest.fixture
    def stale(self, own_queue: Queue, own_dsn: str) -> Iterator[Connection]:
        """A transaction that has looked before the consumer moved on."""
        own_queue.register("c")
        own_queue.insert("a")
        own_queue.tick()
        own_queue.insert("b")
        own_queue.tick()
        with psycopg.connect(own_dsn) as connection:
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("select * from pgque.queue")
            yield connection
            connection.rollback()

    def open_stale(self, stale: Connection, queue: Queue) -> None:
        stale.execute("select pgque.next_batch(%s, 'c')", (queue.name,))

    def test_it_works_as_long_as_nobody_else_does(self, own_queue: Queue, stale: Connection) -> None:
        [[batch]] = stale.execute("select pgque.next_batch(%s, 'c')", (own_queue.name,)).fetchall()
        assert stale.execute("select pgque.finish_batch(%s)", (batch,)).fetchall() == [(1,)]
        stale.commit()
        assert own_queue.take() == ["b"]

    def test_it_is_refused_when_the_consumer_has_moved(self, own_queue: Queue, stale: Connection) -> None:
        own_queue.take()
        with pytest.raises(psycopg.errors.SerializationFailure):
            self.open_stale(stale, own_queue)

    @pytest.mark.parametrize("turns", [1, 2, 3])
    @pytest.mark.parametrize("moves", [0, 1])
    def test_it_is_refused_when_the_tables_have_turned(
        self, own_queue: Queue, stale: Connection, turns: int, moves: int
    ) -> None:
        for _ in range(moves):
            own_queue.take()
        for _ in range(turns):
            turn(own_queue)
        with pytest.raises(psycopg.errors.SerializationFailure):
            self.open_stale(stale, own_queue)

    def test_its_writes_are_found_wherever_they_are_looked_for(self, own_queue: Queue, stale: Connection) -> None:
        self.open_stale(stale, own_queue)
        stale.commit()
        turn(own_queue)
        assert own_queue.take() == ["a"]


def processor_ticks(pid: int) -> int:
    """Time that a process has spent in user and system mode, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.slow
def test_the_bare_loop_stays_as_fast_while_a_snapshot_is_held(own_queue: Queue, analyst: Connection) -> None:
    """Ten thousand are in bench/streams.py; what a dead row costs is felt long before."""
    own_queue.register("c")

    backend = own_queue.connection.info.backend_pid

    def rate(count: int) -> float:
        """Per second of the backend's processor time, which other tests on the machine do not lengthen."""
        started = processor_ticks(backend)
        for _ in range(count):
            cycle(own_queue)
        return count / max(processor_ticks(backend) - started, 1)

    rate(50)
    early = max(rate(100) for _ in range(3))
    for _ in range(4):
        rate(200)
        own_queue.rows("select pgque.maint_progress()")
    late = max(rate(100) for _ in range(3))
    assert late >= 0.6 * early, (early, late)
    for statement in FLUSH:
        own_queue.connection.execute(statement)
    dead = own_queue.rows(
        """
        select relname, n_dead_tup
        from pg_stat_user_tables
        where schemaname = 'pgque'
          and n_dead_tup > 20
        """
    )
    assert dead == []


def test_looking_up_the_newest_row_does_not_depend_on_how_many_there_are(own_queue: Queue, analyst: Connection) -> None:
    """Counted in pages, as a clock would tell more about the machine. The least of some: caches fill again at times."""
    own_queue.register("c")
    for _ in range(3):
        cycle(own_queue)

    def pages() -> int:
        query = "explain (analyze, buffers, format json) select pgque.read_progress(%s)"
        member = own_queue.one("select sub_member from pgque.subscriber where sub_queue = %s", own_queue.id)
        plan = own_queue.rows(query, member)[0][0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    few = min(pages() for _ in range(3))
    own_queue.connection.execute(
        """
        insert into pgque.progress_0
        select p.sub_member, p.sub_step + n, p.sub_last_tick, p.sub_active, null, null, null, null, null
        from pgque.subscription as s
        join pgque.progress as p on p.sub_member = s.sub_member
        cross join generate_series(1, 100000) as n
        where s.sub_queue = %s
          and p.sub_step = (select max(sub_step) from pgque.progress where sub_member = s.sub_member)
        """,
        (own_queue.id,),
    )
    assert min(pages() for _ in range(3)) <= few + 3
