"""Writes to a stream: straight into its table, or staged; what each promises."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.spark.database import Database
from penstock.spark.options import WriteOptions, write_options
from penstock.spark.writing import direct
from tests.spark import streams
from tests.spark.writing.queries import Write, read_on, rows

pytestmark = pytest.mark.timeout(300)


def options(dsn: str, **given: str) -> WriteOptions:
    return write_options({"url": dsn, "name": "orders", "exactlyOnce": "false", **given})


def sent(connection: psycopg.Connection) -> list[tuple[str | None, ...]]:
    query = "select ev_type, ev_data, ev_extra1, ev_extra4 from pgque.event_1 order by ev_id"
    return connection.execute(query).fetchall()


@pytest.fixture
def stream(database: psycopg.Connection) -> str:
    streams.make(database, "orders")
    return "orders"


def test_rows_are_events_at_once_with_all_that_senders_give_them(
    dsn: str, database: psycopg.Connection, stream: str
) -> None:
    given = rows("a", "b", "c", type=["made", None, "made"], key=["k", None, "l"], headers=[None, "h", None])

    count = direct.append(Database(dsn), stream, ["value", "type", "key", "headers"], given)

    assert count == 3
    assert sent(database) == [("made", "a", None, "k"), ("default", "b", "h", None), ("made", "c", None, "l")]
    assert streams.tick(database, stream) > 1
    row = database.execute("select count(distinct ev_txid), count(distinct ev_id), min(ev_id) from pgque.event_1")
    assert row.fetchone() == (1, 3, 1)


def test_spark_writes_directly_when_it_need_not_be_exactly_once(
    spark: SparkSession, dsn: str, database: psycopg.Connection, stream: str
) -> None:
    frame = spark.range(0, 1000, 1, 3).selectExpr("cast(id as string) as value")

    frame.write.format("penstock").options(url=dsn, name=stream, exactlyOnce="false").mode("append").save()

    assert sorted(int(row[1] or "") for row in sent(database)) == list(range(1000))
    assert database.execute("select count(*) from penstock.spark_ledger").fetchone() == (0,)


@pytest.mark.parametrize("once", ["true", "false"])
def test_a_stream_that_takes_nothing_is_not_written_to(
    spark: SparkSession, dsn: str, database: psycopg.Connection, stream: str, once: str
) -> None:
    database.execute("select pgque.set_queue_config('orders', 'disable_insert', 'true')")
    frame = spark.createDataFrame([("a",)], "value string")

    with pytest.raises(PySparkException, match="Insert into queue disallowed"):
        frame.write.format("penstock").options(url=dsn, name=stream, exactlyOnce=once).mode("append").save()

    assert sent(database) == []


def test_a_write_under_way_keeps_its_table_through_a_rotation(
    dsn: str, database: psycopg.Connection, stream: str
) -> None:
    database.execute("select pgque.register_consumer('orders', 'reader')")
    database.execute("select pgque.set_queue_config('orders', 'rotation_period', '0')")

    turned = []

    def rotating() -> Iterator[pa.RecordBatch]:
        yield from rows("before", "before")
        for _ in range(3):
            read_on(database)
            database.execute("select pgque.maint_rotate_tables_step1('orders')")
            database.execute("select pgque.maint_rotate_tables_step2()")
            turned.append(database.execute("select queue_cur_table from pgque.queue").fetchone())
        yield from rows("after")

    direct.append(Database(dsn), stream, ["value"], rotating())

    assert turned[-1] != (0,)
    assert read_on(database) == ["before", "before", "after"]


@pytest.mark.parametrize(
    "given",
    [
        {"exactlyOnce": "true"},
        {"target": "queue"},
        {"target": "jobs"},
        {"name": ""},
        {"txnAppId": "nightly", "txnVersion": "1"},
    ],
    ids=lambda given: next(iter(given)) + "=" + next(iter(given.values())),
)
def test_what_needs_more_than_a_table_is_staged(given: dict[str, str]) -> None:
    found = options("postgresql://nowhere", **given)

    assert found.remembered or found.one_stream is None


def test_staged_rows_keep_their_order(dsn: str, database: psycopg.Connection, stream: str) -> None:
    write = Write(dsn)
    values = [f"{number:04}" for number in range(999, 0, -1)]

    write.commit(write.stage(*values))

    assert [row[1] for row in sent(database)] == values


def test_a_publish_whose_answer_was_lost_is_asked_again_and_writes_once(
    dsn: str, database: psycopg.Connection, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Write(dsn)
    staged = write.stage("a", "b")
    ask = Database.rows

    def twice(self: Database, query: str, *values: object) -> list[tuple[object, ...]]:
        ask(self, query, *values)
        return ask(self, query, *values)

    monkeypatch.setattr(Database, "rows", twice)
    write.commit(staged)

    assert [row[1] for row in sent(database)] == ["a", "b"]


def test_staged_rows_that_a_crash_lost_are_missed(dsn: str, database: psycopg.Connection, stream: str) -> None:
    write = Write(dsn)
    staged = write.stage("a", "b")
    database.execute("truncate penstock.spark_staging")

    with pytest.raises(Exception, match="0 of 2 staged rows are left; write the batch again"):
        write.commit(staged)

    assert sent(database) == []
    assert database.execute("select count(*) from penstock.spark_ledger").fetchone() == (0,)


def test_names_of_single_writes_are_forgotten_with_what_is_collected(
    dsn: str, database: psycopg.Connection, stream: str
) -> None:
    write = Write(dsn)
    write.commit(write.stage("a"))
    database.execute("insert into penstock.spark_ledger (query, batch, written_at) values ('q', 7, now())")

    database.execute("select penstock.collect_staged(now() + interval '1 minute')")

    assert database.execute("select query, batch from penstock.spark_ledger").fetchall() == [("q", 7)]
