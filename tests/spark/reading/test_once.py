"""Reading once, without a Spark: what tasks read of events by time and by tick, and of tables within one snapshot."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from penstock.spark.database import Database, SnapshotLost
from penstock.spark.options import OptionError
from penstock.spark.pipelines.importing.reader import source_snapshot
from penstock.spark.reading import batch as batch_reader
from penstock.spark.reading import snapshot
from penstock.spark.source import PenstockSource
from penstock.spark.streams import StreamError
from tests.spark import streams

pytestmark = pytest.mark.timeout(120)

KEEPERS = """
    select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and state = 'idle in transaction'
"""


def reader(dsn: str, **options: str) -> DataSourceReader:
    source = PenstockSource({"url": dsn, **options})
    return source.reader(source.schema())


def rows(found: DataSourceReader, pieces: Any = None, column: str = "value") -> list[str]:
    batches: Iterator[Any] = (batch for piece in pieces or found.partitions() for batch in found.read(piece))
    return sorted(value for batch in batches for value in batch.column(column).to_pylist())


def values(dsn: str, **options: str) -> list[str]:
    return rows(reader(dsn, subscribe="orders", **options))


def now() -> str:
    return datetime.now(UTC).isoformat()


@pytest.fixture
def letters(database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    """A queue with eight messages, and keepers that wait for a second rather than minutes."""
    for name, seconds in {"FIRST_S": 60.0, "IDLE_S": 1.0, "LOOK_S": 0.1}.items():
        monkeypatch.setattr(snapshot, name, seconds)
    database.execute("select penstock.create_queue('letters')")
    for number in range(8):
        database.execute("select penstock.send('letters', %s)", [str(number)])
    yield database
    for keeper in snapshot._holders:
        assert keeper.wait(20) == 0


def wait_for_the_end_of_keepers(database: psycopg.Connection) -> None:
    until = time.monotonic() + 20
    while database.execute(KEEPERS).fetchone() != (0,):
        assert time.monotonic() < until, "a snapshot is still open"
        time.sleep(0.1)


# Events


def test_what_was_sent_before_a_moment_and_committed_after_its_tick_is_read(
    dsn: str, database: psycopg.Connection
) -> None:
    streams.make(database, "orders")
    with psycopg.connect(dsn) as late:
        streams.send(late, "orders", ["late"])
        moment = now()
        streams.send(database, "orders", ["other"])
        streams.tick(database, "orders")
    streams.send(database, "orders", ["last"])

    assert values(dsn, endingTimestamp=moment) == ["late"]
    assert values(dsn, startingTimestamp=moment) == ["last", "other"]


def test_moments_bound_a_read_that_has_no_column_of_them(dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["early"])
    moment = now()
    streams.send(database, "orders", ["late"])

    assert values(dsn, startingTimestamp=moment, columns="value") == ["late"]
    assert values(dsn, endingTimestamp=moment, columns="value") == ["early"]


def test_a_tick_that_is_named_long_before_the_moment_holds_what_came_while_it_was_made(
    dsn: str, database: psycopg.Connection
) -> None:
    streams.make(database, "orders")
    moment = now()
    streams.send(database, "orders", ["meanwhile"])
    tick = streams.tick(database, "orders")
    database.execute("update pgque.tick set tick_time = %s where tick_id = %s", [moment, tick])

    assert values(dsn, startingTimestamp=moment) == ["meanwhile"]


def test_offsets_name_the_streams_that_are_read_and_no_others(dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")

    for option in ("startingOffsets", "endingOffsets"):
        with pytest.raises(OptionError, match=f"{option}: names 'order', but 'orders' are read"):
            values(dsn, **{option: '{"order": {"tick": 1}}'})


def test_a_read_goes_on_after_lost_ticks_when_told_so(dsn: str, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["a"])
    lost = {"startingOffsets": '{"orders": -5}', "endingOffsets": '{"orders": 999}'}
    streams.tick(database, "orders")

    with pytest.raises(StreamError, match="there is no tick -5"):
        values(dsn, **lost)
    assert values(dsn, failOnDataLoss="false", **lost) == ["a"]


# Options


@pytest.mark.parametrize(
    ("streaming", "options"),
    [
        (False, {"table": "messages", "eventTypes": "a"}),
        (False, {"table": "messages", "startingOffsets": "earliest"}),
        (False, {"table": "messages", "endingOffsets": "latest"}),
        (False, {"subscribe": "orders", "maxEventsPerTrigger": "5"}),
        (True, {"subscribe": "orders", "endingOffsets": "latest"}),
        (True, {"subscribe": "orders", "endingTimestamp": "0"}),
        (True, {"table": "archive", "maxEventsPerTrigger": "5"}),
        (True, {"table": "archive", "startingTimestamp": "0"}),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(streaming: bool, options: dict[str, str]) -> None:
    source = PenstockSource({"url": "postgresql://nowhere", **options})

    with pytest.raises(OptionError, match=f"option {list(options)[-1]}: does nothing for a"):
        (source.streamReader if streaming else source.reader)(source.schema())


def test_a_write_refuses_options_of_reads() -> None:
    with pytest.raises(OptionError, match="option startingOffsets: does nothing for a write"):
        PenstockSource({"url": "x", "name": "orders", "startingOffsets": "latest"}).writer(StructType(), False)


# Tables


def test_a_table_is_read_by_a_pattern_of_names(dsn: str, letters: psycopg.Connection) -> None:
    letters.execute("select penstock.create_queue('other')")
    letters.execute("select penstock.send('other', 'x')")

    assert rows(reader(dsn, table="messages", subscribePattern="oth.*"), column="body") == ["x"]
    assert rows(reader(dsn, table="messages", subscribePattern="oth"), column="body") == []


def test_a_snapshot_is_read_twice_and_stays_while_a_piece_is_at_work(dsn: str, letters: psycopg.Connection) -> None:
    found = reader(dsn, table="messages")
    pieces = found.partitions()
    letters.execute("select penstock.send('letters', 'later')")

    assert rows(found, pieces, "body") == [*"01234567"]
    at_work: Any = found.read(pieces[0])
    next(at_work)
    time.sleep(2)
    assert rows(found, pieces, "body") == [*"01234567"]

    # The rest of it is never read: that is how Spark shows the first rows, and how tasks fail.
    at_work.close()
    wait_for_the_end_of_keepers(letters)
    assert letters.execute("select count(*) from penstock.spark_pieces").fetchone() == (0,)
    with pytest.raises(SnapshotLost, match=r"has ended.*cache\(\)"):
        rows(found, pieces, "body")


def test_a_later_batch_of_a_streaming_query_reads_the_table_as_it_is_then(
    dsn: str, letters: psycopg.Connection
) -> None:
    found = reader(dsn, table="messages", minPartitions="1")
    piece: Any = found.partitions()[0]

    def bodies(batch: str | None) -> list[str]:
        read = snapshot.batches(Database(dsn), piece.query, piece.snapshot, piece.number, batch)
        return sorted(body for rows in read for body in rows.column("body").to_pylist())

    letters.execute("select penstock.send('letters', 'later')")
    assert bodies("query/0") == [*"01234567"]
    assert bodies("query/0") == [*"01234567"]
    assert bodies("query/1") == [*"01234567", "later"]
    wait_for_the_end_of_keepers(letters)
    # The snapshot is gone, and with it the note of its first batch.
    assert bodies("query/2") == [*"01234567", "later"]
    with pytest.raises(SnapshotLost):
        bodies(None)


def test_a_batch_does_not_read_a_snapshot_that_was_used_before_its_query_started(
    dsn: str, letters: psycopg.Connection
) -> None:
    found = reader(dsn, table="messages", minPartitions="1")
    piece: Any = found.partitions()[0]
    assert rows(found, [piece], "body") == [*"01234567"]
    letters.execute("select penstock.send('letters', 'later')")

    read = snapshot.batches(Database(dsn), piece.query, piece.snapshot, piece.number, "query/0")

    assert sorted(body for batch in read for body in batch.column("body").to_pylist()) == [*"01234567", "later"]


def test_who_may_only_read_leaves_no_snapshot_open(
    dsn: str, letters: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "FIRST_S", 3.0)
    letters.execute("create role penstock_looker")
    letters.execute("grant usage on schema penstock to penstock_looker")
    letters.execute("grant select on penstock.tenants, penstock.queues, penstock.messages to penstock_looker")
    as_looker = f"{dsn}{'&' if '?' in dsn else '?'}options=-crole%3Dpenstock_looker"
    try:
        found = reader(as_looker, table="messages")
        assert rows(found, column="body") == [*"01234567"]
        wait_for_the_end_of_keepers(letters)
    finally:
        letters.execute("drop owned by penstock_looker")
        letters.execute("drop role penstock_looker")


def test_why_there_is_no_snapshot_is_told(dsn: str) -> None:
    with pytest.raises(RuntimeError, match=r"no snapshot: .*nowhere"):
        snapshot.hold_snapshot(dsn.replace("/penstock_test_", "/nowhere_"))
    with pytest.raises(RuntimeError, match=r"no snapshot: option url: not of the form"):
        snapshot.hold_snapshot("nowhere")


def test_a_moment_outlives_what_the_server_gives_to_transactions(dsn: str, letters: psycopg.Connection) -> None:
    [version] = letters.execute("select current_setting('server_version_num')::integer").fetchone() or ()
    for limit in ("idle_in_transaction_session_timeout", *(["transaction_timeout"] if version >= 170000 else [])):
        letters.execute(
            SQL("alter database {} set {} = 200").format(Identifier(letters.info.dbname), Identifier(limit))
        )
    found = snapshot.hold_snapshot(dsn)
    with source_snapshot(Database(dsn)) as moment:
        time.sleep(0.5)

        assert moment.rows("select 1") == [(1,)]
    assert [batch.num_rows for batch in snapshot.batches(Database(dsn), "select 1 as n", found, 0)] == [1]


def test_the_tenant_is_asked_for_once(dsn: str, letters: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Asked(Database):
        def rows(self, query: str, *given: Any) -> list[tuple[Any, ...]]:
            asked.append(query)
            return super().rows(query, *given)

    monkeypatch.setattr(batch_reader, "Database", Asked)
    monkeypatch.setattr(snapshot, "hold_snapshot", lambda url: snapshot.ExportedSnapshot("none", 1))

    assert len(reader(dsn, table="messages", minPartitions="16").partitions()) == 16
    assert len(asked) == 1
    with pytest.raises(OptionError, match="tenant: table dead_letters has the rows of all tenants"):
        reader(dsn, table="dead_letters", tenant="default").partitions()


def test_findings_are_a_table(dsn: str, database: psycopg.Connection) -> None:
    row = {"tenant": "default", "step": "hour", "kind": "job", "name": "mail", "sent": 500, "done": 0}
    zero = dict.fromkeys(("retried", "failed", "dead", "per_second"), 0)
    database.execute(
        "select penstock.record_insights(jsonb_build_array(%s::jsonb || jsonb_build_object('starts_at', now())),"
        " now())",
        [json.dumps(row | zero)],
    )

    assert rows(reader(dsn, table="findings"), column="question") == ["growing", "tenant_growing"]
