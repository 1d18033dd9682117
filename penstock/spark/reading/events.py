"""The events of a stream between two ticks, as SQL that Spark's tasks run in parallel.

The events between two ticks are those visible in the later snapshot and not in the earlier one. That set never changes,
so tasks may read it in any order and repeatedly, and together they read each event once.

Many events are read in slices by event id, few by transaction id; see `_by_id` and `_by_transaction`. A slice is small
enough to be buffered, so that a failed connection costs one slice.

Loads are separate tables, each of which is in the range as a whole; they are sliced by their own event ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from pyspark.sql.types import BinaryType, IntegerType, LongType, MapType, StringType, TimestampType

from penstock.spark.database import literal, literals
from penstock.spark.reading.columns import Column, select_list

EVENTS_PER_PARTITION = 500_000
EVENTS_PER_SLICE = 32_768
WORTH_TWO = 100_000
"""From this many events on there are two partitions, though one task could read them: most machines have two cores."""
MOST_PARTITIONS = 256
LEAST_BYTES = 60
"""Minimum size of an event in its table."""

_VALUE = Column("value", StringType(), "e.ev_data")
_BINARY_VALUE = Column("value", BinaryType(), "convert_to(e.ev_data, 'UTF8')")
_HEADERS = Column(
    "headers",
    MapType(StringType(), StringType()),
    """array_remove(array[
      case when e.ev_extra1 is not null then 'extra1' end, e.ev_extra1,
      case when e.ev_extra2 is not null then 'extra2' end, e.ev_extra2,
      case when e.ev_extra3 is not null then 'extra3' end, e.ev_extra3,
      case when e.ev_extra4 is not null then 'extra4' end, e.ev_extra4
    ], null)""",
)


def columns(*, binary: bool = False, headers: bool = False) -> list[Column]:
    """The columns of an event. `stream` and `tick` are constant within a range: see `Range.constants`."""
    return [
        Column("key", StringType(), "e.ev_extra4"),
        _BINARY_VALUE if binary else _VALUE,
        Column("stream", StringType(), "{stream}"),
        Column("offset", LongType(), "e.ev_id"),
        Column("timestamp", TimestampType(), "e.ev_time"),
        Column("type", StringType(), "e.ev_type"),
        Column("tick", LongType(), "{tick}::bigint"),
        Column("txid", LongType(), "e.ev_txid::text::bigint", raw="e.ev_txid"),
        Column("retry", IntegerType(), "coalesce(e.ev_retry, 0)"),
        *([_HEADERS] if headers else []),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    id: int
    snapshot: str
    event_seq: int
    time: float = 0.0
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Load:
    """A table of events that were written at once, ordered by id."""

    source: str
    """Expression that a query reads the events from."""
    first: int
    last: int
    rows: int

    @property
    def ids_per_slice(self) -> int:
        """Ids per slice: tasks that write in parallel draw ids alternately, so a load has gaps between its ids."""
        return max((self.last - self.first + 1) * EVENTS_PER_SLICE // self.rows, 1)


@dataclass(frozen=True, slots=True)
class Extent:
    """Bounds of the event tables that are known without scanning them."""

    first: int
    last: int
    rows: int
    """Upper bound."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a range: the events with ids between the bounds; without bounds, all events by transaction id."""

    first: int | None = None
    below: int | None = None
    outside: tuple[int, int] | None = None
    """If set, also the events whose ids are outside of this range, which no other piece reads."""
    load: Load | None = None
    """The load to read; None for the event tables."""
    spread: int = 1
    """Approximate number of ids per event: rolled back transactions leave gaps."""

    def slices(self) -> Iterator[Piece]:
        if self.outside is not None:
            yield Piece(outside=self.outside)
        if self.first is None or self.below is None:
            if self.outside is None:
                yield self
            return
        step = EVENTS_PER_SLICE * self.spread if self.load is None else self.load.ids_per_slice
        for first in range(self.first, self.below, step):
            yield Piece(first, min(first + step, self.below), load=self.load)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The events of one stream after one tick, up to another."""

    stream: str
    queue_id: int
    tables: tuple[str, ...]
    """Quoted names of the event tables that may hold them."""
    loads: tuple[Load, ...] = ()
    """Loads that were published between the two ticks."""
    after: Tick
    until: Tick
    retries: bool = False
    """Whether to include retried events."""
    sent_since: datetime | None = None
    sent_before: datetime | None = None
    """Bounds on the time an event was sent. Ticks are coarser, and include late commits."""

    @property
    def expected(self) -> int:
        """Approximate number of events: late commits and rollbacks are not considered."""
        return self._single + sum(load.rows for load in self.loads)

    @property
    def _single(self) -> int:
        """Approximate number of events in the event tables: loads have used some of the ids."""
        loaded = sum(load.rows for load in self.loads if load.first > self.after.event_seq)
        return max(self.until.event_seq - self.after.event_seq - loaded, 0)

    @property
    def oldest_tick(self) -> str:
        """Query for the oldest tick of the stream."""
        return f"select t.tick_id from pgque.tick as t where t.tick_queue = {self.queue_id} order by t.tick_id limit 1"  # noqa: S608

    @property
    def constants(self) -> dict[str, str | int]:
        """Columns with one value for all events, which need not be transferred for each."""
        return {"stream": self.stream, "tick": self.until.id}

    def pieces(self, at_least: int | None, extent: Extent | None = None) -> list[Piece]:
        """Pieces with about the same number of ids. The first one also reads events outside of the id range, unless
        there are none: late commits with ids from before the first tick, and events with ids that the sender chose."""
        single = self._single if extent is None else min(self._single, extent.rows)
        expected = single + sum(load.rows for load in self.loads)
        count = max(-(-expected // EVENTS_PER_PARTITION), at_least or 1, 2 if expected >= WORTH_TWO else 1)
        count = min(count, MOST_PARTITIONS, expected)
        found = [*self._table_pieces(_share(count, single, expected), single, extent)]
        for load in self.loads:
            borders = _borders(load.first, load.last + 1, _share(count, load.rows, expected))
            found += [Piece(first, below, load=load) for first, below in pairwise(borders)]
        return found

    def _table_pieces(self, count: int, single: int, extent: Extent | None) -> Iterator[Piece]:
        start, end = self.after.event_seq + 1, self.until.event_seq + 1
        outside: tuple[int, int] | None = (start, end)
        if extent is not None:
            if start <= extent.first and extent.last < end:
                outside = None
            start, end = max(start, extent.first), min(end, extent.last + 1)
        if (count <= 1 and single <= EVENTS_PER_SLICE) or start >= end:
            yield Piece()
            return
        spread = max((end - start) // single, 1)
        for first, below in pairwise(_borders(start, end, count)):
            yield Piece(first, below, outside, spread=spread)
            outside = None

    def query(
        self, wanted: Sequence[Column], piece: Piece, types: Sequence[str] = (), conditions: Sequence[str] = ()
    ) -> str:
        """The SQL of a piece. `conditions` refer to columns by name, constant ones included."""
        given = [column for column in wanted if column.name not in self.constants]
        if not conditions:
            return self._union(select_list(given, raw=True), piece, types)
        everything = self._union(select_list(wanted), piece, types)
        names = ", ".join(f'"{column.name}"' for column in given)
        return f"select {names} from ({everything}) as r where {' and '.join(conditions)}"  # noqa: S608

    def _union(self, listed: str, piece: Piece, types: Sequence[str]) -> str:
        listed = listed.replace("{stream}", literal(self.stream)).replace("{tick}", str(self.until.id))
        # A retried event belongs to the consumer that asked for the retry.
        common = ["(e.ev_owner is null or e.ev_retry > 0)" if self.retries else "e.ev_owner is null"]
        if types:
            common.append(f"e.ev_type = any ({literals(list(types), 'text')})")
        if self.sent_since is not None:
            common.append(f"e.ev_time >= timestamptz {literal(self.sent_since.isoformat())}")
        if self.sent_before is not None:
            common.append(f"e.ev_time < timestamptz {literal(self.sent_before.isoformat())}")
        ways = self._by_transaction(piece) if piece.first is None else [self._by_id(piece)]
        sources = self.tables if piece.load is None else (piece.load.source,)
        parts = [
            f"select {listed} from {source} as e where {' and '.join([*way, *common])}"  # noqa: S608
            for source in sources
            for way in ways
        ]
        return " union all ".join(parts)

    def _by_id(self, piece: Piece) -> list[str]:
        """A range of the index on the event id. The condition keeps the planner from the index on transaction ids."""
        return [
            f"e.ev_id >= {piece.first}",
            f"e.ev_id < {piece.below}",
            f"pg_visible_in_snapshot(e.ev_txid, {literal(self.until.snapshot)}::pg_snapshot)",
            f"not pg_visible_in_snapshot(e.ev_txid, {literal(self.after.snapshot)}::pg_snapshot)",
        ]

    def _by_transaction(self, piece: Piece) -> list[list[str]]:
        """Transactions that started after the earlier tick are an index range; those running at it are a list."""
        earlier, later = snapshot_parts(self.after.snapshot), snapshot_parts(self.until.snapshot)
        visible = f"pg_visible_in_snapshot(e.ev_txid, {literal(self.until.snapshot)}::pg_snapshot)"
        ways = [[f"e.ev_txid >= '{earlier.xmax}'", f"e.ev_txid < '{later.xmax}'", visible]]
        if earlier.running:
            running = ", ".join(f"'{xid}'" for xid in earlier.running)
            ways.append([f"e.ev_txid = any (array[{running}]::xid8[])", visible])
        if piece.outside is not None:
            start, end = piece.outside
            ways = [[*way, f"(e.ev_id + 0 < {start} or e.ev_id + 0 >= {end})"] for way in ways]
        return ways


def group_pieces(pieces: Sequence[Piece]) -> list[tuple[Piece, ...]]:
    """The pieces of each task: one, or several when there would be too many tasks."""
    each = -(-len(pieces) // MOST_PARTITIONS)
    return [tuple(pieces[first : first + each]) for first in range(0, len(pieces), each)]


def _share(count: int, events: int, of: int) -> int:
    """The share of the pieces for this many of the events: at least one, and not more than there are events."""
    return max(min(-(-count * events // max(of, 1)), events), 1)


def _borders(first: int, below: int, count: int) -> list[int]:
    return [first + (below - first) * number // count for number in range(count + 1)]


@dataclass(frozen=True, slots=True)
class SnapshotParts:
    xmin: int
    xmax: int
    running: tuple[int, ...]


def snapshot_parts(text: str) -> SnapshotParts:
    if not re.fullmatch(r"\d+:\d+:(\d+(,\d+)*)?", text):
        raise ValueError(f"not a snapshot: {text!r}")
    xmin, xmax, running = text.split(":")
    return SnapshotParts(int(xmin), int(xmax), tuple(map(int, running.split(","))) if running else ())
