"""Streaming reads: ticks as offsets, nothing lost and nothing twice."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark import streams

pytestmark = pytest.mark.timeout(300)


class Run:
    """A query that reads a stream into memory, as often as it is drained."""

    def __init__(self, spark: SparkSession, dsn: str, folder: Path) -> None:
        self._spark = spark
        self._options = {"url": dsn, "subscribe": "orders", "consumer": "lake", "startingOffsets": "earliest"}
        self._folder = folder
        self.batches: list[list[str]] = []

    def drain(self, **options: str) -> Run:
        source = self._spark.readStream.format("penstock").options(**self._options | options)
        query = (
            source.load()
            .writeStream.foreachBatch(lambda frame, _: self.batches.append(sorted(r["value"] for r in frame.collect())))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self

    @property
    def values(self) -> list[str]:
        return sorted(value for batch in self.batches for value in batch)


@pytest.fixture
def run(spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path) -> Run:
    streams.make(database, "orders")
    return Run(spark, dsn, tmp_path)


def test_a_late_commit_with_an_early_id_is_not_lost(run: Run, dsn: str, database: psycopg.Connection) -> None:
    with psycopg.connect(dsn) as late:
        [first] = streams.send(late, "orders", ["late"])
        [second] = streams.send(database, "orders", ["early"])
        assert first < second

        assert run.drain().values == ["early"]

        late.commit()
    assert run.drain().values == ["early", "late"]


def test_a_restart_goes_on_where_the_checkpoint_ends(run: Run, database: psycopg.Connection) -> None:
    streams.send(database, "orders", ["a"])
    run.drain()
    streams.send(database, "orders", ["b"])

    assert run.drain(startingOffsets="latest").values == ["a", "b"]


def test_a_micro_batch_takes_whole_ticks_up_to_its_limit(run: Run, database: psycopg.Connection) -> None:
    for letter in "abcd":
        streams.send(database, "orders", [letter * 2, letter * 3])
        streams.tick(database, "orders")

    run.drain(maxEventsPerTrigger="4")

    assert [batch for batch in run.batches if batch] == [["aa", "aaa", "bb", "bbb"], ["cc", "ccc", "dd", "ddd"]]


def test_the_consumer_follows_what_is_in_the_sink(run: Run, database: psycopg.Connection) -> None:
    streams.send(database, "orders", ["a"])
    run.drain()

    query = "select pending_events from pgque.consumer_stats() where consumer_name = 'lake'"
    row = database.execute(query).fetchone()
    assert row == (0,)


def test_events_that_are_gone_are_named(run: Run, database: psycopg.Connection) -> None:
    streams.send(database, "orders", ["a"])
    run.drain()
    database.execute("select pgque.unregister_consumer('orders', 'lake')")
    database.execute("delete from pgque.tick")
    streams.send(database, "orders", ["b"])
    oldest = streams.tick(database, "orders")

    with pytest.raises(
        StreamingQueryException, match=f"'orders': tick [0-9]+ no longer exists, the oldest tick is {oldest}"
    ):
        run.drain()
