"""Reads the message archive as a Spark stream. The offset is a snapshot of PostgreSQL.

The rows between two snapshots are those whose transaction the later snapshot sees and the earlier does not. That set
never changes, whatever the order of ids and commits. So a micro-batch can be repeated, and late commits are not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from penstock.queries import parse
from penstock.spark.database import Database, literal
from penstock.spark.options import OptionError, ReadOptions
from penstock.spark.reading.columns import Column, arrow_schema, select_list, to_schema
from penstock.spark.reading.events import snapshot_parts
from penstock.spark.reading.tables import TABLES
from penstock.spark.tenants import tenant_id

BEGINNING = "1:1:"
"""A snapshot that sees nothing."""
ROWS_PER_TASK = 250_000
MOST_TASKS = 256
FAR = 100_000
"""After this many transactions the offset advances by an empty batch: every poll looks for new rows of a queue among
all rows that other queues have archived since the offset."""
SLICES = 10
"""Queries per task. A query that fails with its connection is repeated."""

SQL = parse(Path(__file__).with_suffix(".sql").read_text("utf-8"))


@dataclass
class ArchivePartition(InputPartition):
    queries: list[str]


class ArchiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, columns: list[Column]) -> None:
        if options.starting not in (None, "earliest", "latest") or options.starting_at is not None:
            raise OptionError("startingOffsets", "the archive can be read from earliest or latest only")
        self._options = options
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._database = Database(options.url)
        self._target: str | None = None
        self._tenant_id: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._options.starting == "earliest":
            return {"snapshot": BEGINNING}
        now = self._now()
        self._database.flush_commits()
        return {"snapshot": now}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """There is no snapshot between two snapshots, so a batch cannot be limited; its tasks share the rows."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        until = self._target or self._now()
        rows = f"select true from {TABLES['archive'].source} where {self._where(start['snapshot'], until)} limit 1"  # noqa: S608
        if not self._database.rows(rows) and not _is_far(start["snapshot"], until):
            # An empty micro-batch costs half a second.
            return start
        self._database.flush_commits()
        return {"snapshot": until}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        table, where = TABLES["archive"], self._where(start["snapshot"], end["snapshot"])
        extent = f"select count(*), min(t.txid), max(t.txid) from {table.source} where {where}"  # noqa: S608
        [(rows, first, last)] = self._database.rows(extent)
        if rows == 0:
            return []
        tasks = min(max(-(-rows // ROWS_PER_TASK), self._options.min_partitions or 1), MOST_TASKS, last - first + 1)
        query = f"select {select_list(self._columns)} from {table.source} where {where}"  # noqa: S608
        # Split by transaction ids, which the index is ordered by: a task reads only its part of the table.
        return [
            ArchivePartition([f"{query} and t.txid >= {a} and t.txid < {b}" for a, b in _cut(low, high, SLICES)])
            for low, high in _cut(first, last + 1, tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ArchivePartition)
        with Database(self._options.url).reading() as reading:
            for query in partition.queries:
                for batch in reading.rows(query):
                    yield to_schema(batch, self._columns, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the archive is not rotated."""

    def stop(self) -> None:
        self._database.close()

    def _now(self) -> str:
        return str(self._database.value(SQL["current_snapshot"]))

    def _where(self, after: str, until: str) -> str:
        earlier, later = snapshot_parts(after), snapshot_parts(until)
        table = TABLES["archive"]
        conditions = [
            f"{table.tenant} = {self._tenant()}",
            # By index: transactions that were running at the earlier snapshot, and later ones.
            f"t.txid >= {earlier.xmin} and t.txid < {later.xmax}",
            f"not pg_visible_in_snapshot(t.txid::text::xid8, {literal(after)}::pg_snapshot)",
            f"pg_visible_in_snapshot(t.txid::text::xid8, {literal(until)}::pg_snapshot)",
        ]
        conditions += table.named(self._options.streams, self._options.pattern)
        return " and ".join(conditions)

    def _tenant(self) -> int:
        if self._tenant_id is None:
            self._tenant_id = tenant_id(self._database, self._options.tenant)
        return self._tenant_id


def _is_far(after: str, until: str) -> bool:
    return snapshot_parts(until).xmin - snapshot_parts(after).xmin >= FAR


def _cut(low: int, high: int, pieces: int) -> Iterator[tuple[int, int]]:
    """A range of integers in this many parts, or fewer when it is short."""
    count = min(pieces, high - low)
    borders = [low + (high - low) * number // count for number in range(count + 1)]
    yield from pairwise(borders)
