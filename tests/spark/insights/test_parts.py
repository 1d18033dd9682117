"""The parts of insights: shapes of errors, sketches that merge, and what they are made of."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.spark import lake
from penstock.spark.pipelines.insights import events as insights_events
from penstock.spark.pipelines.insights.errors import EXAMPLE_LENGTH, OTHERS, SHAPE_LENGTH, example, shape, top_errors
from penstock.spark.pipelines.insights.numbers import COUNTS, QUANTILES, merged, parts, starting
from tests.spark import streams
from tests.spark.insights.history import HOUR, NOW, History

pytestmark = pytest.mark.timeout(300)

SHAPES = {
    "timeout after 1500 ms": "timeout after <n> ms",
    "timeout after 1,500.25 ms": "timeout after <n> ms",
    "HTTP 503 from https://api.example.com:8443/v1/orders?id=7.": "HTTP <n> from <url>.",
    "no user 'O. Hara' in \"people\"": "no user <text> in <text>",
    "can't connect, don't ask": "can't connect, don't ask",
    "job 0f8fad5b-d9cb-469f-a165-70867728950e is gone": "job <uuid> is gone",
    "connect to 10.1.2.3:5432 refused": "connect to <address> refused",
    "connect to [2001:db8::8a2e:370:7334]:80 refused": "connect to <address> refused",
    "no such file: /var/data/in 7.csv": "no such file: <path> <n>.csv",
    "cannot open C:\\data\\in.csv": "cannot open <path>",
    "segfault at 0xDEADBEEF": "segfault at <hex>",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 not found": "commit <hex> not found",
    "defaced facade deadbeef": "defaced facade deadbeef",
    "late since 2026-03-10T12:30:00.5Z": "late since <time>",
    "mail to ada.lovelace@example.com bounced": "mail to <mail> bounced",
    "line one\n  line   two\t3": "line one line two <n>",
    "": "",
}


def of_texts(spark: SparkSession, texts: list[str]) -> DataFrame:
    return spark.createDataFrame([(text,) for text in texts], "error string")


def test_errors_that_differ_in_their_values_have_one_shape(spark: SparkSession) -> None:
    rows = of_texts(spark, list(SHAPES)).select("error", shape(f.col("error")).alias("shape")).collect()

    assert {row["error"]: row["shape"] for row in rows} == SHAPES


def test_shapes_and_examples_are_short_and_an_example_quotes_nothing(spark: SparkSession) -> None:
    long = "x y " * 10_000
    frame = of_texts(spark, [long, "card '4111' of \"ada\", ada@example.com: declined 3 times"])
    rows = frame.select(shape(f.col("error")).alias("shape"), example(f.col("error")).alias("example")).collect()

    assert len(rows[0]["shape"]) == SHAPE_LENGTH
    assert len(rows[0]["example"]) == EXAMPLE_LENGTH
    assert rows[1]["example"] == "card <text> of <text>, <mail>: declined 3 times"


def test_what_an_error_tells_of_a_person_is_in_neither_its_shape_nor_its_example(spark: SparkSession) -> None:
    texts = [
        r'bad body: "{\"name\": \"Anna Schmidt\", \"iban\": \"DE12\"}"',
        'could not parse "Anna Schmidt, Hauptstrasse, ' + "x" * 1200 + '" as an order',
        'violates "people" DETAIL: Key (full_name)=(Anna (A.) Schmidt) already exists.',
        "null value DETAIL: Failing row contains (7, Anna Schmidt, null).",
        "no user 'Anna O'Schmidt', nor „Anna“ or 'Anna\\' Schmidt",
        "no user müller.schmidt@example.com",
        "GET https://api.example.com/u?token=Schmidt failed for 4111 1111 1111 1111 and DE893704004405320130",
        "w " * 490 + "an address: anna@schmidt.example",
    ]
    rows = of_texts(spark, texts).select(shape(f.col("error")), example(f.col("error"))).collect()

    found = [text for row in rows for text in row]
    assert [text for text in found if re.search("(?i)anna|schmidt|müller|DE12|4111|8937", text)] == []
    assert found[4] == "violates <text> DETAIL: Key (full_name)=(<text>) already exists."
    assert found[13] == "GET <url> failed for <n> and DE<n>"


def test_rare_errors_are_counted_together_so_that_the_sum_stays_right(spark: SparkSession) -> None:
    texts = ["often"] * 5 + ["sometimes"] * 3 + ["once", "too"] + [None]
    facts = spark.createDataFrame(
        [("default", "job", "mail", NOW, text) for text in texts],
        "tenant string, kind string, name string, starts_at timestamp, error string",
    )

    found = {row["shape"]: row["count"] for row in top_errors(facts, top=2).collect()}

    assert found == {"often": 5, "sometimes": 3, OTHERS: 2}


def test_percentiles_of_merged_hours_are_those_of_all_values(spark: SparkSession) -> None:
    """Within the error of the sketch, whose size has a bound of 1.7 percent of the ranks."""
    values = spark.range(48_000, numPartitions=2).select(
        f.lit("default").alias("tenant"), f.lit("job").alias("kind"), f.lit("mail").alias("name"),
        f.timestamp_seconds(f.col("id") % 24 * 3600).alias("starts_at"),
        *(f.lit(1 if count in ("sent", "done") else 0).alias(count) for count in COUNTS),
        f.exp(f.randn(7)).alias("latency_s"),
    )  # fmt: skip
    exact = sorted(row[0] for row in values.select("latency_s").collect())

    hours = parts(values).persist()
    [day] = merged(hours, ["kind", "name"]).collect()
    hours.unpersist()

    assert (day["sent"], day["done"], day["max_s"]) == (48_000, 48_000, exact[-1])
    for name, rank in QUANTILES.items():
        found = sum(value <= day[name] for value in exact) / len(exact)
        assert found == pytest.approx(rank, abs=0.017), name


def test_rates_of_streams_are_of_what_was_sent_and_others_of_what_ended(spark: SparkSession) -> None:
    columns = "tenant string, kind string, name string, sent int, done int, retried int, failed int, dead int"
    rows = [
        ("t", "stream", "s", 80, 0, 20, 24, 4),
        ("t", "job", "j", 50, 18, 5, 7, 2),
        ("t", "queue", "q", 9, 0, 0, 0, 0),
    ]
    frame = spark.createDataFrame(rows, columns).withColumns(
        {"max_s": f.lit(None).cast("double"), "sketch": f.lit(None).cast("binary")}
    )

    found = {row["kind"]: (row["retry_rate"], row["dead_rate"], row["p50_s"]) for row in merged(frame).collect()}

    assert found == {"stream": (0.2, 0.05, None), "job": (0.2, 0.1, None), "queue": (None, None, None)}


def test_hours_begin_in_utc_whatever_the_time_zone_of_the_session(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        moment = f.timestamp_seconds(f.lit(NOW.timestamp()))
        row = spark.range(1).select(f.unix_seconds(starting(moment, 3600)), f.unix_seconds(starting(moment, 86_400)))
        found = [datetime.fromtimestamp(each, UTC) for each in row.collect()[0]]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))

    assert found == [NOW.replace(minute=0), NOW.replace(hour=0, minute=0)]


def test_counts_of_a_batch_that_comes_again_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    insights_events.make_table(path)
    write = insights_events.WriteCounts(path, 1)

    def batch(sent: int) -> DataFrame:
        window = f.struct(f.lit(NOW).alias("start")).alias("window")
        return spark.range(1).select(
            window, f.lit("orders").alias("stream"), f.lit("").alias("type"), f.lit(sent).alias("sent"),
            f.lit(1).alias("retried"),
        )  # fmt: skip

    found = []
    for number, sent in [(0, 3), (1, 5), (1, 5)]:
        write(batch(sent), number)
        [row] = lake.read(spark, path).collect()
        found.append((row["sent"], row["retried"], row["added"], row["batch"]))

    assert found == [(3, 1, 4, 0), (5, 1, 2, 1), (5, 1, 2, 1)]


def test_retried_events_are_read_when_asked_for(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["sent"])
    for retry in (1, None):  # the second is a dead letter that was sent again to one consumer
        database.execute(
            "select pgque.insert_event_raw('orders', null, now(), 1, %s, 't', 'again', null, null, null, null)", [retry]
        )

    def read(**options: str) -> list[tuple[str, int]]:
        frame = spark.read.format("penstock").options(url=dsn, subscribe="orders", **options).load()
        return sorted((row["value"], row["retry"]) for row in frame.collect())

    assert read() == [("sent", 0)]
    assert read(includeRetries="true") == [("again", 1), ("sent", 0)]


def test_tables_are_read_between_two_moments(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    History(database).write(NOW - 3 * HOUR, NOW)

    def count(table: str, **options: str) -> int:
        return spark.read.format("penstock").options(url=dsn, table=table, minPartitions="1", **options).load().count()

    since, until = NOW - 2 * HOUR, NOW - HOUR
    bounds = {"startingTimestamp": since.isoformat(), "endingTimestamp": until.isoformat()}
    for table, column in {"archive": "archived_at", "deliveries": "created_at"}.items():
        query = f"select count(*) from penstock.{table} where tenant_id = 1 and {column} >= %s and {column} < %s"
        assert database.execute(query, [since, until]).fetchone() == (count(table, **bounds),), table
    facts = "select count(*), count(*) filter (where at >= %s and at < %s) from penstock.facts(%s, 'infinity')"
    row = database.execute(facts, [since, until, NOW - timedelta(days=9)]).fetchone()
    assert row == (count("facts"), count("facts", **bounds))


def test_insights_are_a_table_of_their_tenant(spark: SparkSession, dsn: str, database: psycopg.Connection) -> None:
    database.execute("insert into penstock.tenants (name, created_at) values ('other', now())")
    database.execute(
        """
        insert into penstock.insights
        select t.id, 'hour', %s, 'job', 'mail', 10 * length(t.name), 9, 1, 2, 0, 0.1, null, 0.5, 1, 2, 3, 4, now()
        from penstock.tenants as t
        """,
        [NOW],
    )

    rows = spark.read.format("penstock").options(url=dsn, table="insights", tenant="other").load().collect()

    assert [(row["name"], row["step"], row["sent"], row["p99_s"], row["dead_rate"]) for row in rows] == [
        ("mail", "hour", 50, 3.0, None)
    ]
