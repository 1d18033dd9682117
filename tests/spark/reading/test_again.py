"""A database that dies while its events are read: they are read again, and none of them twice."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_manager as adbc
import psycopg
import pytest

from penstock.spark import connection
from penstock.spark import database as module
from penstock.spark.database import Database, SnapshotLost
from penstock.spark.reading import events
from penstock.spark.reading.events import Piece
from penstock.spark.reading.ranges import RangePartition
from penstock.spark.streams import Stream
from penstock.store.postgres.migrate import migrate
from tests.spark import streams
from tests.spark.processes.killing import MortalPostgres, wait_until

COLUMNS = [column for column in events.columns() if column.name in ("value", "offset", "tick", "txid")]
EVENTS = 3000

SLOW = f'case when "offset" = {EVENTS // 2} then pg_sleep(1) is not null else true end'
"""Stops a COPY half-way through, for long enough to be met there."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MortalPostgres]:
    found = MortalPostgres(tmp_path / "postgres")
    asyncio.run(migrate(found.dsn))
    yield found
    found.stop()


def filled(dsn: str) -> RangePartition:
    """All events of a stream, in one piece of one slice."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        streams.make(connection, "orders")
        streams.send(connection, "orders", map(str, range(EVENTS)))
        streams.tick(connection, "orders")
    database = Database(dsn)
    stream = Stream(database, "orders")
    found = stream.between(stream.oldest(), stream.newest())
    database.close()
    return RangePartition(found, (Piece(1, EVENTS + 1),))


def sleeping(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as connection:
        query = "select pid from pg_stat_activity where wait_event = 'PgSleep' and query ilike 'copy%'"
        return [row[0] for row in connection.execute(query)]


class Reading(threading.Thread):
    def __init__(self, dsn: str, partition: RangePartition) -> None:
        super().__init__()
        self._dsn = dsn
        self._partition = partition
        self.values: list[str] = []

    def run(self) -> None:
        for batch in self._partition.read(Database(self._dsn), COLUMNS):
            self.values += batch.column(0).to_pylist()


@pytest.mark.slow
def test_a_slice_is_read_again_when_postgresql_is_killed_in_the_middle_of_it(
    server: MortalPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Batches that come before the death must not have been passed on.
    monkeypatch.setattr(connection, "BATCH_BYTES", 1000)
    partition = filled(server.dsn)
    partition.conditions = (SLOW,)
    reading = Reading(server.dsn, partition)
    reading.start()
    wait_until(lambda: bool(sleeping(server.dsn)), lambda: "nobody reads")

    server.kill()
    reading.join(60)

    assert sorted(map(int, reading.values)) == list(range(EVENTS))


def test_a_connection_that_dies_between_two_slices_is_made_anew(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENTS_PER_SLICE", EVENTS // 3)
    found = filled(dsn).read(Database(dsn), COLUMNS)
    values = next(found).column(0).to_pylist()

    with psycopg.connect(dsn, autocommit=True) as connection:
        ended = connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        ).fetchall()
    values += [value for batch in found for value in batch.column(0).to_pylist()]

    assert set(ended) == {(True,)}, "a connection that was closed just now may be among them"
    assert sorted(map(int, values)) == list(range(EVENTS))


def test_a_slice_too_large_to_keep_is_passed_on_as_it_comes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BATCH_BYTES", 1000)
    monkeypatch.setattr(module, "BUFFER_BYTES", 10_000)

    found = list(filled(dsn).read(Database(dsn), COLUMNS))

    assert len(found) > 10
    assert sorted(int(value) for batch in found for value in batch.column(0).to_pylist()) == list(range(EVENTS))


def test_who_loses_a_deadlock_is_asked_again(dsn: str) -> None:
    """Two writes of many FIFO groups, say: each portion takes the locks of its own."""
    both = "select pg_advisory_xact_lock($1), pg_sleep(0.3), pg_advisory_xact_lock($2), set_config('x.y', $3, true)"
    settings = "set deadlock_timeout = '100ms'"
    found: list[str] = []

    def ask(first: int, second: int) -> None:
        database = Database(dsn)
        database.rows(settings)
        found.append(database.rows(both, first, second, "done")[0][-1])
        database.close()

    threads = [threading.Thread(target=ask, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert found == ["done", "done"]


@pytest.mark.parametrize("wrong", ["dbname=nowhere", "user=nobody"])
def test_who_is_refused_is_told_at_once(postgres_dsn: str, wrong: str) -> None:
    began = time.monotonic()
    with pytest.raises(adbc.Error, match=wrong.partition("=")[2]):
        Database(f"{postgres_dsn}&{wrong}").value("select 1")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("url", ["postgres:/u:secret@h/db", "postgresql://u:secret word@127.0.0.1/db"])
def test_an_address_that_cannot_be_read_is_not_told(url: str) -> None:
    with pytest.raises(ValueError, match="option url: not of the form") as raised:
        Database(url).value("select 1")
    assert "secret" not in "".join(traceback.format_exception(raised.value))


def test_a_read_of_one_moment_that_loses_the_database_says_so(dsn: str) -> None:
    query = "select n::bigint, case when n = 500 then pg_sleep(60) end::text from generate_series(1, 1000) as n"
    with psycopg.connect(dsn) as keeper:
        keeper.execute("set transaction isolation level repeatable read, read only")
        [snapshot] = keeper.execute("select pg_export_snapshot()").fetchone() or ()

        def end() -> None:
            wait_until(lambda: bool(sleeping(dsn)), lambda: "nobody reads")
            with psycopg.connect(dsn) as connection:
                connection.execute("select pg_terminate_backend(%s)", [sleeping(dsn)[0]])

        thread = threading.Thread(target=end)
        thread.start()
        began = time.monotonic()
        with pytest.raises(SnapshotLost, match="the snapshot is lost"):
            list(Database(dsn).batches(query, snapshot))
        thread.join()
    assert time.monotonic() - began < 30
