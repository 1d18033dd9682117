"""Reading once: ranges of ticks, tables, filters and columns."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark import streams

pytestmark = pytest.mark.timeout(300)


def read(spark: SparkSession, dsn: str, **options: str) -> DataFrame:
    return spark.read.format("penstock").options(url=dsn, **options).load()


def values(frame: DataFrame) -> list[str]:
    return sorted(row["value"] for row in frame.collect())


def test_a_stream_is_a_table_without_registering_anything(
    spark: SparkSession, dsn: str, database: psycopg.Connection
) -> None:
    streams.make(database, "orders")
    ids = streams.send(database, "orders", ["a", "b", "c"], "order.created")

    rows = read(spark, dsn, subscribe="orders", startingOffsets="earliest").orderBy("offset").collect()

    assert [(row["offset"], row["value"], row["type"], row["stream"]) for row in rows] == [
        (id, value, "order.created", "orders") for id, value in zip(ids, "abc", strict=True)
    ]
    assert {row["retry"] for row in rows} == {0}


def test_what_is_not_committed_is_not_there(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    with psycopg.connect(dsn) as other:
        streams.send(other, "orders", ["open"])
        streams.send(database, "orders", ["done"])
        assert values(read(spark, dsn, subscribe="orders")) == ["done"]
        other.rollback()
    assert values(read(spark, dsn, subscribe="orders")) == ["done"]


def test_a_range_of_ticks_holds_what_was_committed_between_them(
    spark: SparkSession, dsn: str, database: psycopg.Connection
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["early"])
    first = streams.tick(database, "orders")
    streams.send(database, "orders", ["inside"])
    second = streams.tick(database, "orders")
    streams.send(database, "orders", ["late"])
    streams.tick(database, "orders")

    frame = read(
        spark, dsn, subscribe="orders",
        startingOffsets=f'{{"orders": {{"tick": {first}}}}}', endingOffsets=f'{{"orders": {second}}}',
    )  # fmt: skip

    assert values(frame) == ["inside"]


def test_pieces_together_hold_every_event_once(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", map(str, range(1000)))

    frame = read(spark, dsn, subscribe="orders", minPartitions="7")

    assert frame.rdd.getNumPartitions() == 7
    assert sorted(int(row["value"]) for row in frame.collect()) == list(range(1000))


def test_headers_are_a_map_and_the_value_may_be_binary(
    spark: SparkSession, dsn: str, database: psycopg.Connection
) -> None:
    streams.make(database, "orders")
    database.execute("select pgque.insert_event('orders', 't', 'ä', 'trace', null, 'x', 'ada')")

    row = read(spark, dsn, subscribe="orders", includeHeaders="true", valueFormat="binary").collect()[0]

    assert bytes(row["value"]) == "ä".encode()
    assert row["headers"] == {"extra1": "trace", "extra3": "x", "extra4": "ada"}
    assert row["key"] == "ada"


def test_types_and_columns_are_chosen_in_the_database(
    spark: SparkSession, dsn: str, database: psycopg.Connection
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["a"], "kept")
    streams.send(database, "orders", ["b"], "left")

    frame = read(spark, dsn, subscribe="orders", eventTypes="kept", columns="type,value")

    assert [tuple(row) for row in frame.collect()] == [("kept", "a")]


def test_filters_are_pushed_into_the_query(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["a'1", "b\\2", "c3"])
    frame = read(spark, dsn, subscribe="orders", pushDownFilters="true")

    assert values(frame.where('value = "a\'1" or false').where("type = 'plain'")) == ["a'1"]
    assert values(frame.where(frame.value.startswith("b\\"))) == ["b\\2"]
    assert values(frame.where(frame.value.isin("c3", "x") & (frame.retry == 0))) == ["c3"]
    assert values(frame.where((frame.value != "c3") & frame.key.isNull())) == ["a'1", "b\\2"]
    assert values(frame.where(frame.timestamp > datetime(2100, 1, 1, tzinfo=UTC))) == []


def test_several_streams_by_name_or_by_pattern(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    for name in ("orders.eu", "orders.us", "other"):
        streams.make(database, name)
        streams.send(database, name, [name])

    assert values(read(spark, dsn, subscribe="orders.eu,other")) == ["orders.eu", "other"]
    assert values(read(spark, dsn, subscribePattern=r"orders\..*")) == ["orders.eu", "orders.us"]


def test_waiting_messages_are_read_without_touching_them(
    spark: SparkSession, dsn: str, database: psycopg.Connection
) -> None:
    database.execute("select penstock.create_queue('letters')")
    database.execute("select penstock.send('letters', 'hello')")

    frame = read(spark, dsn, table="messages", subscribe="letters").orderBy("body")
    for _ in range(2):
        assert [(row["queue"], row["body"], row["state"], row["receives"]) for row in frame.collect()] == [
            ("letters", "hello", "ready", 0)
        ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "subscribe"),
        ({"subscribe": "nowhere"}, "there is no stream 'nowhere'"),
        ({"subscribe": "orders", "maxEventsPerTrigger": "many"}, "maxEventsPerTrigger"),
        ({"subscribe": "orders", "colums": "value"}, "unknown"),
        ({"subscribe": "orders", "columns": "value,colour"}, "colour"),
        ({"subscribe": "orders", "startingOffsets": '{"orders": {"tick": 999}}'}, "there is no tick 999"),
        ({"table": "nonsense", "subscribe": "orders"}, "nonsense"),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: SparkSession, dsn: str, database: psycopg.Connection, options: dict[str, str], problem: str
) -> None:
    streams.make(database, "orders")
    with pytest.raises(PySparkException, match=problem):
        read(spark, dsn, **options).collect()
