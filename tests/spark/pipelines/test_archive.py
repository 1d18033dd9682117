"""`archive` and `replay`: into the lake and back, once each way."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars
import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from penstock.spark import lake
from penstock.spark.lake.partitions import NULL
from penstock.spark.options import read_options
from penstock.spark.pipelines.archive import Archive
from penstock.spark.pipelines.pipeline import PipelineError
from penstock.spark.pipelines.replay import Replay
from penstock.spark.pipelines.run import run_pipeline
from penstock.spark.reading import archive as archive_reader
from penstock.spark.reading.archive import ArchivePartition, ArchiveStreamReader
from penstock.spark.reading.tables import TABLES
from tests.spark import streams
from tests.spark.reading.queries import rotate

pytestmark = pytest.mark.timeout(300)


class Runner:
    def __init__(self, spark: SparkSession, dsn: str, folder: Path) -> None:
        self.spark = spark
        self.dsn = dsn
        self.lake = folder / "lake"

    def run(self, pipeline: Archive | Replay) -> None:
        run_pipeline(pipeline, spark=self.spark, url=self.dsn, lake=str(self.lake))

    def rows(self, table: str, column: str) -> list[Any]:
        """A column as both Spark and polars see it."""
        seen = sorted(row[column] for row in lake.read(self.spark, str(self.lake / table)).collect())
        assert sorted(polars.scan_delta(str(self.lake / table)).collect()[column].to_list()) == seen
        return seen


@pytest.fixture
def runner(spark: SparkSession, dsn: str, tmp_path: Path) -> Runner:
    return Runner(spark, dsn, tmp_path)


def archive_message(connection: psycopg.Connection, body: str, queue: str = "letters") -> int:
    """Sends a message and archives it, in the connection's transaction; gives its id."""
    [sent] = connection.execute("select penstock.send(%s, %s)", [queue, body]).fetchone() or [None]
    connection.execute("select penstock.archive(%s, %s)", [queue, sent])
    return int(str(sent))


def test_events_arrive_once_by_date_and_type(runner: Runner, dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.make(database, "bills/50%")
    with psycopg.connect(dsn) as late:
        streams.send(late, "orders", ["late"], "made")
        streams.send(database, "orders", ["a", "b"], "made")
        streams.send(database, "bills/50%", ["c"], "paid/cash")
        runner.run(Archive(streams=("orders", "bills/50%")))
        late.commit()
    streams.send(database, "orders", ["d"], "gone")
    runner.run(Archive(streams=("orders",)))
    runner.run(Archive(streams=("orders", "bills/50%"), compact=True))

    assert runner.rows("events", "value") == ["a", "b", "c", "d", "late"]
    frame = lake.read(runner.spark, str(runner.lake / "events"))
    assert frame.columns == [
        *("key", "value", "stream", "offset", "timestamp", "type", "txid", "retry", "headers", "extra2", "extra3"),
        *("tenant", "date", "full_type"),
    ]
    [paid] = frame.where("type = 'paid/cash'").collect()
    assert (paid["stream"], paid["value"], paid["date"]) == ("bills/50%", "c", paid["timestamp"].date())
    assert [table.partition_by for table in lake.tables(str(runner.lake))] == [("date", "type")]


@pytest.mark.slow
def test_events_that_are_gone_are_an_error_or_skipped_and_told_of(runner: Runner, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["a"])
    runner.run(Archive(streams=("orders",)))
    database.execute("select pgque.unregister_consumer('orders', 'archive')")
    for value in ("gone", "gone too", "gone as well", "b"):
        streams.send(database, "orders", [value])
        streams.tick(database, "orders")
        rotate(database, "orders")
    streams.send(database, "orders", ["c"])

    with pytest.raises(
        StreamingQueryException, match=r"stream 'orders': tick \d+ no longer exists, the oldest tick is \d+"
    ):
        runner.run(Archive(streams=("orders",)))
    runner.run(Archive(streams=("orders",), skip_lost=True))

    found = runner.rows("events", "value")
    assert found[0] == "a"
    assert "c" in found
    assert "gone" not in found
    query = "select note, state, progress #> '{queries,0,skipped,orders}' from penstock.pipeline_runs order by id desc"
    [note, state, ticks] = database.execute(query).fetchone() or ()
    assert state == "done"
    assert note == f"skipped lost events of stream 'orders', ticks {ticks['from']} to {ticks['to']}"


@pytest.mark.slow
def test_a_message_archived_late_with_an_early_id_is_not_lost(
    runner: Runner, dsn: str, database: psycopg.Connection
) -> None:
    database.execute("select penstock.create_queue('letters')")
    archive_message(database, "first")
    with psycopg.connect(dsn) as late, psycopg.connect(dsn) as undone:
        first = archive_message(late, "late")
        archive_message(undone, "undone")
        second = archive_message(database, "early")
        assert first < second
        runner.run(Archive(messages=True))
        assert runner.rows("messages", "body") == ["early", "first"]
        late.commit()
        undone.rollback()

    runner.run(Archive(messages=True))
    runner.run(Archive(messages=True))

    assert runner.rows("messages", "body") == ["early", "first", "late"]


def test_a_queue_that_is_named_later_comes_with_all_its_messages(runner: Runner, database: psycopg.Connection) -> None:
    for queue in ("letters", "parcels"):
        database.execute("select penstock.create_queue(%s)", [queue])
        archive_message(database, f"of {queue}", queue)
    runner.run(Archive(messages=True, queues=("letters",)))
    assert runner.rows("messages", "body") == ["of letters"]

    runner.run(Archive(messages=True, queues=("letters", "parcels")))

    assert runner.rows("messages", "body") == ["of letters", "of parcels"]
    with pytest.raises(PipelineError, match=r"single queues: name them \(letters, parcels\)"):
        runner.run(Archive(messages=True))


def test_single_queues_of_a_lake_that_has_all_are_refused(runner: Runner, database: psycopg.Connection) -> None:
    """Their rows would come a second time."""
    (runner.lake / "_checkpoints" / "archive" / "messages-default").mkdir(parents=True)

    with pytest.raises(PipelineError, match="archives the messages of all queues"):
        runner.run(Archive(messages=True, queues=("letters",)))


def test_an_event_comes_back_as_it_was_even_when_its_type_is_long_or_empty(
    runner: Runner, database: psycopg.Connection
) -> None:
    long = "com.example/" + "order-made." * 21
    for stream in ("orders", "again"):
        streams.make(database, stream)
    for kind in (long, NULL, "short", ""):
        database.execute("select pgque.insert_event('orders', %s, 'v', '{\"a\": 1}', null, 'third', 'k')", [kind])

    runner.run(Archive(streams=("orders",), compact=True))
    runner.run(Replay(id="long", to="again"))

    [short, null, named, empty] = runner.rows("events", "type")
    assert (short[:17], len(short), null[:7], named) == ("__HIVE_DEFAULT_PA", 43, "com.exa", "short")
    assert empty == "~e3b0c44298fc1c14"
    again = runner.spark.read.format("penstock").options(url=runner.dsn, subscribe="again", includeHeaders="true")
    rows = again.load().orderBy("offset").collect()
    assert [row["type"] for row in rows] == [long, NULL, "short", ""]
    assert rows[0]["headers"] == {"extra1": '{"a": 1}', "extra4": "k"}
    assert runner.rows("events", "tenant") == ["default"] * 4
    assert runner.rows("events", "extra3") == ["third"] * 4


def test_tasks_share_the_archive_by_its_index(dsn: str, database: psycopg.Connection) -> None:
    database.execute("select penstock.create_queue('letters')")
    for number in range(20):
        archive_message(database, str(number))
    # As many as make the wrong index dear.
    filling = """
        insert into penstock.archive (
          id, tenant_id, queue, sent_at, archived_at, receives, priority, is_json, body, txid
        )
        select n, 1, 'letters', now(), now(), 1, 0, false, '', 5 from generate_series(100001, 120000) as n
    """
    database.execute(filling)
    database.execute("vacuum analyze penstock.archive")
    options = read_options({"url": dsn, "table": "archive", "minPartitions": "3"})
    reader = ArchiveStreamReader(options, list(TABLES["archive"].columns))
    now = {"snapshot": reader._now()}

    pieces = reader.partitions({"snapshot": "6:6:"}, now)
    bodies = [body for piece in pieces for batch in reader.read(piece) for body in batch.column("body").to_pylist()]
    reader.stop()

    assert len(pieces) == 3
    assert sorted(bodies, key=int) == [str(number) for number in range(20)]
    assert isinstance(pieces[0], ArchivePartition)
    plan = database.execute(f"explain {pieces[0].queries[0]}".encode()).fetchall()
    assert any("archive_txid" in row[0] for row in plan), plan


def test_a_queue_with_nothing_new_moves_on_when_others_have_much(
    dsn: str, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be looked for among all of that again and again."""
    database.execute("select penstock.create_queue('letters')")
    options = read_options({"url": dsn, "table": "archive", "subscribe": "idle"})
    reader = ArchiveStreamReader(options, list(TABLES["archive"].columns))
    start = reader.initialOffset()
    archive_message(database, "a")
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start

    monkeypatch.setattr(archive_reader, "FAR", 1)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end != start
    assert reader.partitions(start, end) == []
    reader.stop()


def test_what_to_archive_must_be_said(runner: Runner) -> None:
    with pytest.raises(PipelineError, match="nothing to archive"):
        runner.run(Archive())


DAY = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def stored(runner: Runner, database: psycopg.Connection) -> Runner:
    """Three days of events in the lake, and where they may go."""
    rows = [
        (f"v{number}", f"k{number}", number, DAY.replace(day=number, hour=12), "odd" if number % 2 else "even")
        for number in (3, 2, 1)
    ]
    frame = runner.spark.createDataFrame(
        rows, "value string, key string, offset bigint, timestamp timestamp, type string"
    )
    lake.append(
        frame.selectExpr("*", "to_date(timestamp) as date"), str(runner.lake / "events"), partition_by=["date", "type"]
    )
    streams.make(database, "again")
    database.execute("select penstock.create_queue('letters')")
    return runner


def sent(runner: Runner) -> list[tuple[str, str, str]]:
    back = runner.spark.read.format("penstock").options(url=runner.dsn, subscribe="again").load()
    return [(row["value"], row["key"], row["type"]) for row in back.orderBy("offset").collect()]


def test_a_replay_sends_its_rows_once_and_in_order(stored: Runner) -> None:
    for _ in range(2):
        stored.run(Replay(id="fix", to="again"))

    assert sent(stored) == [("v1", "k1", "odd"), ("v2", "k2", "even"), ("v3", "k3", "odd")]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"since": "2026-03-02T12:00:00Z"}, ["v2", "v3"]),
        ({"until": "2026-03-02T14:00:00+02:00"}, ["v1"]),
        ({"since": "2026-03-01", "until": "2026-03-03", "where": "type = 'even' or value like '%3'"}, ["v2"]),
        ({"limit": 2}, ["v1", "v2"]),
        ({"dry_run": True}, []),
    ],
    ids=["since", "until", "where", "limit", "dry run"],
)
def test_a_replay_takes_a_part(stored: Runner, settings: dict[str, Any], expected: list[str]) -> None:
    stored.run(Replay(id="part", to="again", **settings))

    assert [value for value, _, _ in sent(stored)] == expected


def test_a_replay_into_a_queue(stored: Runner, database: psycopg.Connection) -> None:
    stored.run(Replay(id="q", to="letters", target="queue", where="offset < 3"))

    assert database.execute("select body from penstock.messages order by id").fetchall() == [("v1",), ("v2",)]


def test_a_replay_into_a_fifo_queue_stores_every_row_of_its_tenant(
    runner: Runner, database: psycopg.Connection
) -> None:
    rows = [("same", "k", 1, "default"), ("same", "k", 2, "default"), ("same", None, 3, None), ("not", "k", 4, "acme")]
    frame = runner.spark.createDataFrame(rows, "value string, key string, offset bigint, tenant string")
    headers = f.when(f.col("offset") == 1, '{"a": 1}').otherwise("no json")
    lake.append(frame.withColumn("headers", headers), str(runner.lake / "events"))
    database.execute("select penstock.create_queue('letters.fifo', '{\"content_dedup\": true}')")

    runner.run(Replay(id="fix", to="letters.fifo", target="queue"))

    found = database.execute("select body, group_id, headers from penstock.messages order by id").fetchall()
    assert found == [("same", "k", {"a": 1}), ("same", "k", None), ("same", "replay", None)]
    of_acme = Replay(id="fix", to="letters.fifo", target="queue", tenant="acme")._chosen(frame)
    assert [row["value"] for row in of_acme.collect()] == ["not"]


def test_messages_of_the_lake_go_back_into_their_queue(runner: Runner, database: psycopg.Connection) -> None:
    database.execute("select penstock.create_queue('letters')")
    archive_message(database, "a")
    runner.run(Archive(messages=True))
    runner.run(Replay(id="m", table="messages", to="letters", target="queue"))

    assert database.execute("select body from penstock.messages").fetchall() == [("a",)]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"since": "yesterday"}, "not a timestamp"), ({"target": "topic"}, "use one of stream, queue")],
    ids=["moment", "target"],
)
def test_a_replay_that_cannot_be_is_refused(stored: Runner, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(PipelineError, match=problem):
        stored.run(Replay(id="no", to="again", **settings))
