"""Reading once: the events of a range of ticks, or the rows of a table as they are at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from penstock.spark import snapshot
from penstock.spark.columns import Column, arrow_schema, fitted, select_list
from penstock.spark.database import Database, literal, literals
from penstock.spark.events import Tick, dealt
from penstock.spark.filters import condition
from penstock.spark.options import OptionError, ReadOptions
from penstock.spark.ranges import RangePartition
from penstock.spark.streams import Stream, StreamError, find_streams
from penstock.spark.tables import TABLES
from penstock.spark.worker import spare_imports

PIECES = 4
"""Into how many a table is split unless `minPartitions` says otherwise: its size is not known without reading it."""

_TENANT = "select t.id from penstock.tenants as t where t.name = $1"


@dataclass
class Piece(InputPartition):
    query: str
    number: int = 0
    snapshot: str | None = None
    read_id: str | None = None


class _Reader(DataSourceReader):
    def __init__(self, options: ReadOptions, columns: list[Column]) -> None:
        self._options = options
        self._columns = columns
        self._conditions: list[str] = []


class EventsReader(_Reader):
    """A range of ticks is the same for every task and at any time, so it needs no snapshot."""

    def partitions(self) -> list[InputPartition]:
        found: list[InputPartition] = []
        options = self._options
        database = Database(options.url)
        for stream in find_streams(database, options.streams, options.pattern, options.retries):
            events = stream.between(*self._bounds(stream))
            conditions = (*self._moments(), *self._conditions)
            for pieces in dealt(stream.pieces(events, options.min_partitions)):
                found.append(RangePartition(events, pieces, options.event_types, conditions))
        database.close()
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return partition.read(Database(self._options.url), self._columns)

    def _bounds(self, stream: Stream) -> tuple[Tick, Tick]:
        options = self._options
        if options.starting in ("latest", "committed"):
            raise OptionError("startingOffsets", f"{options.starting!r} is for streaming reads")
        if options.ending == "latest" and options.ending_at is None:
            stream.tick_now()
        after = stream.before(options.starting_at) if options.starting_at else self._named(stream, options.starting)
        until = stream.after(options.ending_at) if options.ending_at else self._named(stream, options.ending)
        return after or stream.oldest(), until or stream.newest()

    def _named(self, stream: Stream, offsets: object) -> Tick | None:
        if not isinstance(offsets, dict) or stream.name not in offsets:
            return None
        found = stream.tick(offsets[stream.name])
        if found is None:
            wanted, oldest = offsets[stream.name], stream.oldest().id
            raise StreamError(f"stream {stream.name!r}: there is no tick {wanted}; the oldest is {oldest}")
        return found

    def _moments(self) -> list[str]:
        """Ticks come now and then; what lies between a moment and its tick is filtered."""
        found = []
        if self._options.starting_at is not None and "timestamp" in {column.name for column in self._columns}:
            found.append(f'"timestamp" >= {literal(self._options.starting_at.isoformat())}')
        if self._options.ending_at is not None and "timestamp" in {column.name for column in self._columns}:
            found.append(f'"timestamp" < {literal(self._options.ending_at.isoformat())}')
        return found


class TableReader(_Reader):
    """Tasks read one snapshot. Who loses the database loses it too, and says so: it cannot be read again."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        spare_imports()
        database = Database(self._options.url)
        schema = arrow_schema(self._columns)
        for batch in database.batches(partition.query, partition.snapshot):
            yield fitted(batch, self._columns, schema)
        if partition.read_id is not None:
            snapshot.done(database, partition.read_id, partition.number)

    def partitions(self) -> list[InputPartition]:
        pieces = self._options.min_partitions or PIECES
        name, read_id = snapshot.keep(self._options.url, pieces)
        return [Piece(self._query(number, pieces), number, name, read_id) for number in range(pieces)]

    def _query(self, number: int, pieces: int) -> str:
        table = TABLES[self._options.table]
        conditions = [f"{table.split} % {pieces} = {number}"]
        if table.tenant:
            conditions.append(f"{table.tenant} = {self._tenant()}")
        if self._options.streams:
            conditions.append(f"{table.name} = any ({literals(list(self._options.streams), 'text')})")
        since, until = _bound(self._options.starting_at, "-infinity"), _bound(self._options.ending_at, "infinity")
        if self._options.starting_at is not None:
            conditions.append(f"{table.time} >= {since}")
        if self._options.ending_at is not None:
            conditions.append(f"{table.time} < {until}")
        where = " and ".join(conditions)
        source = table.source.replace("{since}", since).replace("{until}", until)
        query = f"select {select_list(self._columns)} from {source} where {where}"  # noqa: S608
        return _narrowed(query, self._conditions)

    def _tenant(self) -> int:
        found = Database(self._options.url).value(_TENANT, self._options.tenant)
        if found is None:
            raise OptionError("tenant", f"there is no tenant {self._options.tenant!r}")
        return int(found)


class _Filtering(_Reader):
    """Spark fails reads of a class that has this method unless its setting allows it, so only who asks gets it."""

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


def _bound(moment: datetime | None, otherwise: str) -> str:
    return f"timestamptz {literal(otherwise if moment is None else moment.isoformat())}"


def _narrowed(query: str, conditions: list[str]) -> str:
    if not conditions:
        return query
    return f"select * from ({query}) as r where {' and '.join(conditions)}"  # noqa: S608
