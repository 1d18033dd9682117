"""The events of a stream between two ticks, as SQL that Spark's tasks can run side by side.

What lies between two ticks never changes: it is the set of events visible in the later snapshot and not in the
earlier one. So tasks may read it in any order, and read it again, and together they see each event once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import BinaryType, IntegerType, LongType, MapType, StringType, TimestampType

from penstock.spark.columns import Column, select_list
from penstock.spark.database import literal, literals

EVENTS_PER_PARTITION = 250_000
MOST_PARTITIONS = 256

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
    """What an event is to Spark. `stream` and `tick` are the same for a whole range: see `Range.query`."""
    return [
        Column("key", StringType(), "e.ev_extra4"),
        _BINARY_VALUE if binary else _VALUE,
        Column("stream", StringType(), "{stream}"),
        Column("offset", LongType(), "e.ev_id"),
        Column("timestamp", TimestampType(), "e.ev_time"),
        Column("type", StringType(), "e.ev_type"),
        Column("tick", LongType(), "{tick}::bigint"),
        Column("txid", LongType(), "e.ev_txid::text::bigint"),
        Column("retry", IntegerType(), "coalesce(e.ev_retry, 0)"),
        *([_HEADERS] if headers else []),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    id: int
    snapshot: str
    event_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The events of one stream after one tick, up to another."""

    stream: str
    tables: tuple[str, ...]
    """Quoted names of the event tables that may hold them."""
    after: Tick
    until: Tick

    @property
    def expected(self) -> int:
        """About how many events there are; late commits and roll-backs make it wrong."""
        return max(self.until.event_seq - self.after.event_seq, 0)

    def pieces(self, at_least: int | None) -> Iterator[tuple[int | None, int | None]]:
        """Bounds of event ids, `(from, below)`, open at both ends: an old id may have been committed late."""
        count = max(-(-self.expected // EVENTS_PER_PARTITION), at_least or 1)
        count = max(min(count, MOST_PARTITIONS, self.expected), 1)
        start, width = self.after.event_seq + 1, self.expected
        borders = [start + width * number // count for number in range(1, count)]
        yield from zip([None, *borders], [*borders, None], strict=True)

    def query(self, chosen: Sequence[Column], piece: tuple[int | None, int | None], types: Sequence[str] = ()) -> str:
        wanted = select_list(chosen).replace("{stream}", literal(self.stream)).replace("{tick}", str(self.until.id))
        where = self._where(piece, types)
        parts = [f"select {wanted} from {table} as e where {where}" for table in self.tables]  # noqa: S608
        return " union all ".join(parts)

    def _where(self, piece: tuple[int | None, int | None], types: Sequence[str]) -> str:
        earlier, later = snapshot_parts(self.after.snapshot), snapshot_parts(self.until.snapshot)
        # Transactions that began after the earlier tick, and those that were under way at it.
        born = f"(e.ev_txid >= '{earlier.xmax}' and e.ev_txid < '{later.xmax}')"
        if earlier.running:
            running = ", ".join(f"'{xid}'" for xid in earlier.running)
            born = f"({born} or e.ev_txid in ({running}))"
        conditions = [born, f"pg_visible_in_snapshot(e.ev_txid, {literal(self.until.snapshot)}::pg_snapshot)"]
        # A retried event belongs to the consumer that asked for it.
        conditions.append("e.ev_owner is null")
        first, below = piece
        if first is not None:
            conditions.append(f"e.ev_id >= {first}")
        if below is not None:
            conditions.append(f"e.ev_id < {below}")
        if types:
            conditions.append(f"e.ev_type = any ({literals(list(types), 'text')})")
        return " and ".join(conditions)


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
