"""What only one order of events can show, into the lake: late commits, and a PostgreSQL that forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark import lake
from penstock.store.postgres.migrate import migrate
from tests.spark import streams
from tests.spark.processes.killing import MortalPostgres

pytestmark = pytest.mark.timeout(300)


def drained(spark: SparkSession, dsn: str, folder: Path, **options: str) -> list[str]:
    """Everything in the lake, after all that is committed now was written there."""
    source = {"url": dsn, "subscribe": "orders", "startingOffsets": "earliest", **options}
    query = (
        spark.readStream.format("penstock").options(**source).load()
        .writeStream.format("penstock_lake")
        .options(path=str(folder / "lake"), checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return sorted(row["value"] for row in lake.read(spark, str(folder / "lake")).select("value").collect())


@pytest.mark.slow
def test_a_late_commit_with_an_early_id_is_in_the_lake_once(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    streams.make(database, "orders")
    with psycopg.connect(dsn) as late, psycopg.connect(dsn) as never:
        [first] = streams.send(late, "orders", ["late"])
        streams.send(never, "orders", ["never"])
        [second] = streams.send(database, "orders", ["early"])
        assert first < second
        assert drained(spark, dsn, tmp_path) == ["early"]

        never.rollback()
        late.commit()
    assert drained(spark, dsn, tmp_path) == ["early", "late"]
    assert drained(spark, dsn, tmp_path) == ["early", "late"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MortalPostgres]:
    found = MortalPostgres(tmp_path / "postgres", autovacuum="off")
    asyncio.run(migrate(found.dsn))
    yield found
    found.stop()


@pytest.mark.slow
def test_what_spark_has_read_is_not_forgotten_by_a_crash_of_postgresql(
    spark: SparkSession, server: MortalPostgres, tmp_path: Path
) -> None:
    """Else the number of a tick would come to mean another moment than it did for Spark's checkpoint."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        streams.make(connection, "orders")
        streams.send(connection, "orders", ["a"])
        assert drained(spark, server.dsn, tmp_path, ackMode="none") == ["a"]
        server.suspend_log_writer()
        connection.execute("set synchronous_commit = off")
        streams.send(connection, "orders", ["b"])
        streams.tick(connection, "orders")
        assert drained(spark, server.dsn, tmp_path, ackMode="none") == ["a", "b"]

    server.kill()

    with psycopg.connect(server.dsn, autocommit=True) as connection:
        events = "select ev_data from pgque.event_1 order by ev_id"
        assert connection.execute(events).fetchall() == [("a",), ("b",)]
        streams.send(connection, "orders", ["c"])
    assert drained(spark, server.dsn, tmp_path, ackMode="none") == ["a", "b", "c"]
