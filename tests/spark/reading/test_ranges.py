"""Ranges of ticks: every event once, whatever its id, and by the right index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
import pytest

from penstock.spark.database import SQL, Database
from penstock.spark.reading import events
from penstock.spark.reading.events import Piece, Range
from penstock.spark.reading.ranges import RangePartition
from penstock.spark.streams import Stream
from tests.spark import streams

COLUMNS = events.columns()


@pytest.fixture
def stream(dsn: str, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    monkeypatch.setattr(events, "EVENTS_PER_SLICE", 10)
    streams.make(database, "orders")
    asked = Database(dsn)
    yield Stream(asked, "orders")
    asked.close()


def whole(stream: Stream) -> Range:
    return stream.between(stream.oldest(), stream.newest())


def values(dsn: str, found: Range, pieces: Sequence[Piece]) -> list[str]:
    batches = [batch for piece in pieces for batch in RangePartition(found, (piece,)).read(Database(dsn), COLUMNS)]
    return sorted(value for batch in batches for value in batch.column("value").to_pylist())


def test_slices_hold_every_event_once(dsn: str, database: psycopg.Connection, stream: Stream) -> None:
    sent = sorted(map(str, range(95)))
    streams.send(database, "orders", sent)
    streams.tick(database, "orders")
    found = whole(stream)

    pieces = stream.pieces(found, 3)

    assert len(pieces) == 3
    assert sum(len(list(piece.slices())) for piece in pieces) == 12
    assert values(dsn, found, pieces) == sent


def test_a_late_commit_is_read_with_its_range_though_its_id_is_older(
    dsn: str, database: psycopg.Connection, stream: Stream
) -> None:
    with psycopg.connect(dsn) as late:
        streams.send(late, "orders", ["late"])
        streams.send(database, "orders", ["before"])
        streams.tick(database, "orders")
        first = stream.newest()
        streams.send(database, "orders", [f"after {number:02}" for number in range(30)])
        late.commit()
    streams.tick(database, "orders")
    found = stream.between(first, stream.newest())

    pieces = stream.pieces(found, 2)

    assert pieces[0].outside is not None
    assert values(dsn, found, pieces) == [f"after {number:02}" for number in range(30)] + ["late"]


@pytest.mark.parametrize("id", [1_000_000, -5])
def test_an_event_with_an_id_of_its_senders_choice_is_read(
    dsn: str, database: psycopg.Connection, stream: Stream, id: int
) -> None:
    streams.send(database, "orders", ["plain"] * 20)
    query = "select pgque.insert_event_raw('orders', %s, now(), null, null, 't', 'raw', null, null, null, null)"
    database.execute(query, [id])
    streams.tick(database, "orders")
    found = whole(stream)

    assert values(dsn, found, stream.pieces(found, 2)) == ["plain"] * 20 + ["raw"]


def test_strays_are_not_looked_for_where_there_are_none(dsn: str, database: psycopg.Connection, stream: Stream) -> None:
    streams.send(database, "orders", ["a"] * 20)
    streams.tick(database, "orders")
    first = whole(stream)
    streams.send(database, "orders", ["b"] * 20)
    streams.tick(database, "orders")

    assert [piece.outside for piece in stream.pieces(whole(stream), 2)] == [None, None]
    assert stream.pieces(first, 2)[0].outside == (1, 21)


def test_a_gap_in_the_ids_is_not_walked_through(dsn: str, database: psycopg.Connection, stream: Stream) -> None:
    streams.send(database, "orders", ["a"])
    streams.tick(database, "orders")
    before = stream.newest()
    database.execute("select setval('pgque.event_1_id_seq', 3000000000)")
    streams.send(database, "orders", ["b"] * 100)
    streams.tick(database, "orders")

    for found, sent in ((whole(stream), ["a"] + ["b"] * 100), (stream.between(before, stream.newest()), ["b"] * 100)):
        pieces = stream.pieces(found, 2)

        assert sum(len(list(piece.slices())) for piece in pieces) < 100
        assert values(dsn, found, pieces) == sent


def test_what_is_the_same_for_all_events_does_not_travel(
    dsn: str, database: psycopg.Connection, stream: Stream
) -> None:
    streams.send(database, "orders", ["a"])
    streams.tick(database, "orders")
    found = whole(stream)

    [batch] = RangePartition(found, (Piece(),)).read(Database(dsn), COLUMNS)

    assert "'orders'" not in found.query(COLUMNS, Piece())
    [row] = batch.to_pylist()
    [told] = database.execute("select ev_txid::text::bigint from pgque.event_1").fetchall()
    assert (row["stream"], row["tick"], row["txid"]) == ("orders", found.until.id, told[0])


@pytest.mark.parametrize("state", ["empty", "full", "full and analysed"])
@pytest.mark.parametrize(
    ("piece", "index"),
    [
        (Piece(100, 200), "event_1_0_id_idx"),
        (Piece(), "event_1_0_txid_idx"),
        (Piece(outside=(100, 200)), "event_1_0_txid_idx"),
    ],
    ids=["by id", "by transaction", "strays"],
)
def test_events_are_found_by_the_right_index(
    database: psycopg.Connection, stream: Stream, state: str, piece: Piece, index: str
) -> None:
    first = stream.newest()
    if state != "empty":
        for _ in range(5):
            streams.send(database, "orders", ["x"] * 400)
    if state == "full and analysed":
        database.execute("analyze pgque.event_1_0")
    with database.transaction():
        streams.send(database, "orders", ["last"])
    streams.tick(database, "orders")
    database.execute(SQL["use_indexes_only"].encode())

    query = stream.between(first, stream.newest()).query(COLUMNS, piece)
    plan = "\n".join(row[0] for row in database.execute(f"explain {query}".encode()))

    assert f"Index Scan using {index}" in plan
    assert "Seq Scan" not in plan
    assert index not in ("event_1_0_id_idx",) or "ev_txid >=" not in plan
