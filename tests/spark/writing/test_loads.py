"""Many events of a task become a load of their stream: written without a copy more, and once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.spark.database import Database
from penstock.spark.reading import events
from penstock.spark.reading.ranges import RangePartition
from penstock.spark.streams import Stream
from penstock.spark.writing import direct
from penstock.store.postgres.migrate import migrate
from tests.spark import streams
from tests.spark.processes.killing import MortalPostgres
from tests.spark.writing.queries import Write, read_on, rows

pytestmark = pytest.mark.timeout(300)

MANY = [f"{number:03}" for number in range(100)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten events are many."""
    monkeypatch.setattr(direct, "LOAD_ROWS", 10)


@pytest.fixture
def stream(database: psycopg.Connection, small: None) -> str:
    streams.make(database, "orders")
    database.execute("select pgque.register_consumer('orders', 'reader')")
    return "orders"


def loads(connection: psycopg.Connection) -> int:
    row = connection.execute("select count(*) from pg_tables where tablename like 'event_1_load_%'").fetchone()
    assert row is not None
    return int(row[0])


def test_many_events_are_there_when_the_driver_commits_and_not_before(
    dsn: str, database: psycopg.Connection, stream: str
) -> None:
    write = Write(dsn)
    staged = [write.stage(*MANY[:60]), write.stage("few"), write.stage(*MANY[60:])]
    assert [message.load is not None for message in staged] == [True, False, True]
    assert read_on(database) == []

    write.commit(*staged)

    assert sorted(read_on(database)) == [*MANY, "few"]


def test_a_task_keeps_the_order_of_its_rows(dsn: str, database: psycopg.Connection, stream: str) -> None:
    write = Write(dsn)

    write.commit(write.stage(*reversed(MANY)))

    assert read_on(database) == MANY[::-1]


def test_without_exactly_once_the_task_publishes_them(dsn: str, database: psycopg.Connection, stream: str) -> None:
    staged = Write(dsn, exactlyOnce="false").stage(*MANY)

    assert (staged.attempt, staged.load) == (None, None)
    assert read_on(database) == MANY
    assert loads(database) == 1


def test_few_make_no_load(dsn: str, database: psycopg.Connection, stream: str) -> None:
    for once in ("true", "false"):
        write = Write(dsn, exactlyOnce=once)
        write.commit(write.stage(*MANY[:9]))

    assert sorted(read_on(database)) == sorted(MANY[:9] * 2)
    assert loads(database) == 0


def test_large_values_make_one_though_they_are_few(
    dsn: str, database: psycopg.Connection, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "LOAD_BYTES", 1000)

    assert Write(dsn).stage("x" * 2000).load is not None


def test_a_version_that_was_written_before_leaves_nothing(dsn: str, database: psycopg.Connection, stream: str) -> None:
    for _ in range(3):
        write = Write(dsn, txnAppId="nightly", txnVersion="7")
        write.commit(write.stage(*MANY))

    assert read_on(database) == MANY
    assert loads(database) == 1


def test_a_publish_whose_answer_was_lost_is_asked_again_and_publishes_once(
    dsn: str, database: psycopg.Connection, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Write(dsn)
    staged = write.stage(*MANY)
    ask = Database.rows

    def twice(self: Database, query: str, *values: object) -> list[tuple[object, ...]]:
        ask(self, query, *values)
        return ask(self, query, *values)

    monkeypatch.setattr(Database, "rows", twice)
    write.commit(staged)

    assert read_on(database) == MANY


def test_what_is_aborted_or_forgotten_goes(dsn: str, database: psycopg.Connection, stream: str) -> None:
    write = Write(dsn)
    write.abort(write.stage(*MANY))
    assert loads(database) == 0

    write.stage(*MANY)
    database.execute("update pgque.load set load_time = now() - interval '25 hours'")
    database.execute("select pgque.maint()")

    assert loads(database) == 0
    assert read_on(database) == []


def test_a_stream_that_takes_nothing_takes_no_load(dsn: str, database: psycopg.Connection, stream: str) -> None:
    write = Write(dsn)
    staged = write.stage(*MANY)
    database.execute("select pgque.set_queue_config('orders', 'disable_insert', 'true')")

    with pytest.raises(Exception, match="Insert into queue disallowed"):
        write.stage(*MANY)
    with pytest.raises(Exception, match="Insert into queue disallowed"):
        write.commit(staged)

    assert database.execute("select count(*) from penstock.spark_ledger").fetchone() == (0,)


def test_a_crash_of_postgresql_between_staging_and_publishing_loses_nothing(tmp_path: Path, small: None) -> None:
    server = MortalPostgres(tmp_path / "postgres")
    try:
        asyncio.run(migrate(server.dsn))
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            streams.make(connection, "orders")
            connection.execute("select pgque.register_consumer('orders', 'reader')")
        write = Write(server.dsn)
        staged = write.stage(*MANY)

        server.kill()
        write.commit(staged)

        with psycopg.connect(server.dsn, autocommit=True) as connection:
            assert read_on(connection) == MANY
    finally:
        server.stop()


class TestReading:
    @pytest.fixture(autouse=True)
    def slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "EVENTS_PER_SLICE", 10)

    @pytest.fixture
    def asked(self, dsn: str, stream: str) -> Iterator[Stream]:
        database = Database(dsn)
        yield Stream(database, stream)
        database.close()

    def values(self, dsn: str, asked: Stream, partitions: int | None = None) -> list[str]:
        """All there is, through every piece; each slice of a load of about as many rows as one may have."""
        found = asked.between(asked.oldest(), asked.newest())
        values: list[str] = []
        for piece in asked.pieces(found, partitions):
            for part in piece.slices():
                batches = list(RangePartition(found, (part,)).read(Database(dsn), events.columns()))
                assert part.load is None or sum(batch.num_rows for batch in batches) <= 12
                values += [value for batch in batches for value in batch.column("value").to_pylist()]
        return sorted(values)

    def test_every_event_comes_once(self, dsn: str, database: psycopg.Connection, asked: Stream) -> None:
        write = Write(dsn)
        streams.send(database, "orders", ["before"])
        staged = write.stage(*MANY)
        streams.send(database, "orders", ["between"])
        write.commit(staged)
        streams.send(database, "orders", ["after"])
        streams.tick(database, "orders")

        for partitions in (None, 1, 2, 7):
            assert self.values(dsn, asked, partitions) == [*MANY, "after", "before", "between"]

    def test_with_ids_from_before_its_ticks_too(self, dsn: str, database: psycopg.Connection, asked: Stream) -> None:
        write = Write(dsn)
        staged = write.stage(*MANY)
        streams.send(database, "orders", ["between"])
        streams.tick(database, "orders")
        first = asked.newest()
        write.commit(staged)
        streams.tick(database, "orders")

        found = asked.between(first, asked.newest())
        assert found.expected == 100
        assert not asked.is_empty(found)
        assert self.values(dsn, asked) == [*MANY, "between"]

    def test_two_that_took_turns_at_the_ids(self, dsn: str, database: psycopg.Connection, asked: Stream) -> None:
        """As tasks do that write side by side."""
        other = direct.many(rows(*(f"other {value}" for value in MANY)))[1]

        def in_turns() -> Iterator[pa.RecordBatch]:
            for batch in rows(*MANY):
                yield batch
                streams.send(database, "orders", [f"single {value}" for value in batch.column(0).to_pylist()])

        direct.load(Database(dsn), "orders", ["value"], in_turns(), publish=True)
        direct.load(Database(dsn), "orders", ["value"], other, publish=True)
        streams.tick(database, "orders")

        expected = [*MANY, *(f"{kind} {value}" for kind in ("other", "single") for value in MANY)]
        assert self.values(dsn, asked, 3) == sorted(expected)

    def test_many_loads_are_no_more_tasks_than_there_may_be(
        self, dsn: str, database: psycopg.Connection, asked: Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events, "MOST_PARTITIONS", 3)
        for number in range(7):
            Write(dsn, exactlyOnce="false").stage(*(f"{number}:{value}" for value in MANY[:10]))
        streams.tick(database, "orders")
        found = asked.between(asked.oldest(), asked.newest())
        tasks = events.group_pieces(asked.pieces(found, None))

        assert len(tasks) == 3
        batches = [
            batch for task in tasks for batch in RangePartition(found, task).read(Database(dsn), events.columns())
        ]
        assert sum(batch.num_rows for batch in batches) == 70

    def test_conditions_and_transactions_are_those_of_any_event(
        self, dsn: str, database: psycopg.Connection, asked: Stream
    ) -> None:
        Write(dsn, exactlyOnce="false").stage(*MANY)
        streams.tick(database, "orders")
        [told] = database.execute("select load_txid::text::bigint from pgque.load").fetchall()
        found = asked.between(asked.oldest(), asked.newest())
        [_, piece, *_] = asked.pieces(found, None)
        partition = RangePartition(found, (piece,), ("default",), ("\"value\" < '005'",))

        [batch] = [each for each in partition.read(Database(dsn), events.columns()) if each.num_rows]

        assert batch.column("value").to_pylist() == MANY[:5]
        assert set(batch.column("txid").to_pylist()) == set(told)
        assert set(batch.column("tick").to_pylist()) == {asked.newest().id}


@pytest.mark.slow
@pytest.mark.parametrize("once", ["true", "false"])
def test_spark_writes_loads_and_reads_them_back(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path, once: str
) -> None:
    streams.make(database, "orders")
    count = 240_000
    frame = spark.range(0, count, 1, 2).selectExpr("cast(id as string) as value", "cast(id % 7 as string) as key")

    frame.write.format("penstock").options(url=dsn, name="orders", exactlyOnce=once).mode("append").save()
    back = spark.read.format("penstock").options(url=dsn, subscribe="orders").load()

    assert loads(database) == 2
    assert back.selectExpr("count(*)", "count(distinct value)", "sum(cast(value as bigint))").collect() == [
        (count, count, count * (count - 1) // 2)
    ]
    # As a stream, once.
    followed = spark.readStream.format("penstock").options(url=dsn, subscribe="orders", startingOffsets="earliest")
    query = followed.load().writeStream.format("memory").queryName(f"loads_{once}").trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(120)
    assert spark.sql(f"select count(*), count(distinct value) from loads_{once}").collect() == [(count, count)]
