"""Writing: once, whatever happens to tasks and drivers."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark import streams

pytestmark = pytest.mark.timeout(300)


def write(frame: DataFrame, dsn: str, **options: str) -> None:
    frame.write.format("penstock").options(url=dsn, **options).mode("append").save()


def texts(connection: psycopg.Connection, query: str) -> list[str]:
    return [row[0] for row in connection.execute(query.encode())]


def test_rows_become_messages_of_a_queue(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    database.execute("select penstock.create_queue('letters')")
    frame = spark.createDataFrame([("a", 5), ("b", None)], "value string, priority int")

    write(frame, dsn, target="queue", name="letters")

    assert sorted(texts(database, "select body from penstock.messages")) == ["a", "b"]
    assert texts(database, "select body from penstock.messages where priority = 5") == ["a"]
    assert texts(database, "select value from penstock.spark_staging") == []


def test_rows_become_jobs(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    frame = spark.createDataFrame([('{"n": 1}', "mail"), ('{"n": 2}', "sms")], "value string, name string")

    write(frame, dsn, target="jobs")

    query = """
        select q.name || (j.payload ->> 'n')
        from penstock.jobs as j
        join penstock.job_queues as q on q.id = j.queue_id
    """
    assert sorted(texts(database, query)) == ["mail1", "sms2"]


def test_rows_become_events_of_streams(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.make(database, "bills")
    frame = spark.createDataFrame(
        [("a", "orders", "made"), ("b", "bills", None)], "value string, name string, type string"
    )

    write(frame, dsn)
    back = spark.read.format("penstock").options(url=dsn, subscribe="orders,bills").load()

    assert sorted((row["stream"], row["type"], row["value"]) for row in back.collect()) == [
        ("bills", "default", "b"),
        ("orders", "made", "a"),
    ]


def test_a_write_with_a_transaction_id_happens_once(
    spark: SparkSession, dsn: str, database: psycopg.Connection
) -> None:
    database.execute("select penstock.create_queue('letters')")
    frame = spark.createDataFrame([("a",)], "value string")

    for version in ("1", "1", "2"):
        write(frame, dsn, target="queue", name="letters", txnAppId="nightly", txnVersion=version)

    assert texts(database, "select body from penstock.messages") == ["a", "a"]


def test_a_refused_message_refuses_the_whole_write(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    database.execute("select penstock.create_queue('small', '{\"max_length\": 2}')")

    with pytest.raises(PySparkException, match="maximum length"):
        write(spark.createDataFrame([("a",), ("b",), ("c",)], "value string"), dsn, target="queue", name="small")

    assert texts(database, "select body from penstock.messages") == []


def test_a_micro_batch_that_comes_again_writes_nothing(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    streams.make(database, "orders")
    database.execute("select penstock.create_queue('letters')")
    streams.send(database, "orders", ["a", "b"])

    def run() -> None:
        events = spark.readStream.format("penstock").options(url=dsn, subscribe="orders", startingOffsets="earliest")
        query = (
            events.load().select("value").writeStream.format("penstock")
            .options(url=dsn, target="queue", name="letters", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    run()
    # As after a kill between the commit of the sink and that of Spark.
    newest = max(
        (path for path in (tmp_path / "checkpoint" / "commits").iterdir() if path.name.isdigit()),
        key=lambda p: int(p.name),
    )
    newest.unlink()
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    run()

    assert sorted(texts(database, "select body from penstock.messages")) == ["a", "b"]


@pytest.mark.parametrize(
    ("schema", "row", "options", "problem"),
    [
        ("value string", ("a",), {"target": "queue"}, "missing: give this option"),
        ("text string", ("a",), {"name": "x"}, "cannot write the columns text"),
        ("value int", (1,), {"name": "x"}, "cast to value string"),
        ("value string", ("a",), {"name": "nowhere", "target": "queue"}, "does not exist"),
    ],
)
def test_what_cannot_be_written_is_named(
    spark: SparkSession, dsn: str, schema: str, row: tuple[object], options: dict[str, str], problem: str
) -> None:
    with pytest.raises(PySparkException, match=problem):
        write(spark.createDataFrame([row], schema), dsn, **options)
