"""Batch reads: the events of a range of ticks, or the rows of a table in one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from penstock.spark.database import Database, literal
from penstock.spark.options import Offsets, OptionError, ReadOptions
from penstock.spark.reading import snapshot
from penstock.spark.reading.columns import Column, arrow_schema, select_list, to_schema
from penstock.spark.reading.events import Tick, group_pieces
from penstock.spark.reading.filters import condition
from penstock.spark.reading.ranges import RangePartition
from penstock.spark.reading.tables import TABLES
from penstock.spark.running.worker import freeze_imports
from penstock.spark.streams import Stream, StreamError, find_streams
from penstock.spark.tenants import tenant_id

PIECES = 4
"""Partitions of a table unless `minPartitions` is set: its size is not known without reading it."""

TICKING = timedelta(minutes=1)
"""How long creating a tick may take. A tick has the time it was started at, and includes commits up to its end."""


@dataclass
class Piece(InputPartition):
    query: str
    number: int
    snapshot: snapshot.ExportedSnapshot


class _Reader(DataSourceReader):
    def __init__(self, options: ReadOptions, columns: list[Column]) -> None:
        self._options = options
        self._columns = columns
        self._conditions: list[str] = []


class EventsReader(_Reader):
    """A range of ticks never changes, so its tasks need no shared snapshot."""

    def partitions(self) -> list[InputPartition]:
        options, conditions = self._options, tuple(self._conditions)
        found: list[InputPartition] = []
        with closing(Database(options.url)) as database:
            streams = find_streams(database, options)
            for name, offsets in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
                _refuse_others(name, offsets, {stream.name for stream in streams})
            for stream in streams:
                between = stream.between(*self._bounds(stream))
                events = replace(between, sent_since=options.starting_at, sent_before=options.ending_at)
                for pieces in group_pieces(stream.pieces(events, options.min_partitions)):
                    found.append(
                        RangePartition(events, pieces, options.event_types, conditions, options.fail_on_data_loss)
                    )
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return partition.read(Database(self._options.url), self._columns)

    def _bounds(self, stream: Stream) -> tuple[Tick, Tick]:
        """An ending timestamp does not choose the last tick: events sent before it may be committed much later."""
        options = self._options
        if options.starting in ("latest", "committed"):
            raise OptionError("startingOffsets", f"{options.starting!r} is for streaming reads")
        if options.ending == "latest":
            stream.tick_now()
        if options.starting_at is not None:
            after = stream.tick_before(options.starting_at - TICKING)
        else:
            after = self._named(stream, options.starting) or stream.oldest()
        return after, self._named(stream, options.ending) or stream.newest()

    def _named(self, stream: Stream, offsets: Offsets | None) -> Tick | None:
        if not isinstance(offsets, dict):
            return None
        wanted, oldest = offsets[stream.name], stream.oldest()
        found = stream.tick(wanted)
        if found is None and self._options.fail_on_data_loss:
            raise StreamError(
                f"stream {stream.name!r}: there is no tick {wanted}; the oldest is {oldest.id}. Set failOnDataLoss to"
                " false to read the events that exist."
            )
        return found or (oldest if wanted < oldest.id else stream.newest())


class TableReader(_Reader):
    """All tasks read one snapshot. A task that loses its database connection fails: the snapshot cannot be restored."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        freeze_imports()
        schema = arrow_schema(self._columns)
        database, batch = Database(self._options.url), snapshot.streaming_batch()
        for rows in snapshot.batches(database, partition.query, partition.snapshot, partition.number, batch):
            yield to_schema(rows, self._columns, schema)

    def partitions(self) -> list[InputPartition]:
        pieces = self._options.min_partitions or PIECES
        table, conditions = TABLES[self._options.table], self._where()
        held = snapshot.hold_snapshot(self._options.url)
        return [
            Piece(self._query([f"{table.split} % {pieces} = {number}", *conditions]), number, held)
            for number in range(pieces)
        ]

    def _where(self) -> list[str]:
        options, table = self._options, TABLES[self._options.table]
        found = []
        if table.tenant:
            found.append(f"{table.tenant} = {self._tenant()}")
        elif options.owner is not None:
            if not table.tenant_name:
                raise OptionError(
                    "tenant", f"table {options.table} has the rows of all tenants, and cannot be read for one"
                )
            found.append(f"{table.tenant_name} = {literal(options.owner)}")
        found += table.named(options.streams, options.pattern)
        if options.starting_at is not None:
            found.append(f"{table.time} >= {_bound(options.starting_at)}")
        if options.ending_at is not None:
            found.append(f"{table.time} < {_bound(options.ending_at)}")
        return found

    def _query(self, conditions: list[str]) -> str:
        options, source = self._options, TABLES[self._options.table].source
        source = source.replace("{since}", _bound(options.starting_at, "-infinity"))
        source = source.replace("{until}", _bound(options.ending_at, "infinity"))
        query = f"select {select_list(self._columns)} from {source} where {' and '.join(conditions)}"  # noqa: S608
        return _narrowed(query, self._conditions)

    def _tenant(self) -> int:
        with closing(Database(self._options.url)) as database:
            return tenant_id(database, self._options.tenant)


class _Filtering(_Reader):
    """A class of its own: Spark fails reads of a class with this method unless filter push-down is enabled."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        names = {column.name for column in self._columns}
        for offered in filters:
            understood = condition(offered, names)
            if understood is None:
                yield offered
            else:
                self._conditions.append(understood)


class FilteringEventsReader(_Filtering, EventsReader):
    pass


class FilteringTableReader(_Filtering, TableReader):
    pass


def _refuse_others(name: str, offsets: Offsets | None, streams: Set[str]) -> None:
    """Refuse offsets that name other streams: a misspelled stream would be read as a whole."""
    if isinstance(offsets, dict) and offsets.keys() != streams:
        raise OptionError(name, f"names {_listed(offsets)}, but {_listed(streams)} are read: name a tick for each")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _bound(moment: datetime | None, otherwise: str = "") -> str:
    return f"timestamptz {literal(otherwise if moment is None else moment.isoformat())}"


def _narrowed(query: str, conditions: list[str]) -> str:
    if not conditions:
        return query
    return f"select * from ({query}) as r where {' and '.join(conditions)}"  # noqa: S608
