"""Change data: tables of PostgreSQL in the lake, as they are and as they were."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.pipelines.change_data.batch import ApplyChanges
from penstock.spark.pipelines.change_data.columns import ChangeDataError
from penstock.spark.pipelines.change_data.copy import Mirror, copy, mirror_of
from penstock.spark.pipelines.change_data.source import SQL, TableName, tracked
from penstock.spark.pipelines.change_data.tables import HISTORY
from penstock.spark.pipelines.change_data.upkeep import tidy
from penstock.spark.pipelines.claims import in_lake
from penstock.spark.pipelines.run import Run
from penstock.spark.streams import Stream

EVENTS_PER_BATCH = 100_000
"""What a batch changes passes through the driver's memory, so it is bounded; a tick is not split."""
COMPACT_EVERY = 50
NAMED = "tables are named schema.table, in the letters of the catalog and without quotes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeData:
    """Tables of PostgreSQL into the lake: their current rows, and the history of every row."""

    name: ClassVar[str] = "cdc"
    has_queries: ClassVar[bool] = True
    streams: tuple[str, ...]
    """Where change triggers write to."""
    tables: tuple[str, ...] = ()
    """`schema.table`, in the letters of the catalog and without quotes; none means all that the streams tell of."""
    install: bool = False
    """Track the tables first; needs `tables`, one stream, and the rights of their owner."""
    snapshot: bool = True
    """Begin with a copy of each table; without it with the changes that the stream still has."""
    history: bool = True
    consumer: str = "cdc"
    """How its consumers' names begin. Two lakes of one stream need two, else one may lose what the other has read."""
    skip_lost: bool = False
    """Whether to go on when a stream has lost changes: then rows stay as they were before, until they change again."""
    max_events: int = EVENTS_PER_BATCH
    compact_every: int = COMPACT_EVERY
    """After how many batches small files are put together; at the end of a run too, unless 0."""

    def check(self, follow: bool) -> None:
        if not self.streams:
            raise ChangeDataError("name at least one stream")
        if self.install and (not self.tables or len(self.streams) != 1):
            raise ChangeDataError("install needs the names of tables, and one stream for them")

    def check_database(self, url: str) -> None:
        with closing(Database(url)) as database:
            for stream in () if self.install else self.streams:
                self._check_stream(database, stream)

    def claims(self, lake: str) -> list[str]:
        return [in_lake(f"the changes of stream {stream!r}", lake) for stream in self.streams]

    def run(self, run: Run) -> None:
        self.check(run.follow)
        with closing(Database(run.url)) as database:
            if self.install:
                self._track(database)
            self._check_tables(run, database)
            for stream in self.streams:
                self._prepare(run, database, stream)
            queries = [self._start(run, stream) for stream in self.streams]
            run.note("applying changes")
            run.watch(*queries)
            if self.compact_every:
                run.note("compacting")
                names = {each.name for stream in self.streams for each in tracked(database, stream, self.tables)}
                tidy([table for name in names for table in self._mirror(run, name).tables])
        run.note(None)

    def _track(self, database: Database) -> None:
        for table in self.tables:
            if not database.rows(SQL["track"], table, self.streams[0]):
                raise ChangeDataError(f"there is no table {table}; {NAMED}")

    def _check_tables(self, run: Run, database: Database) -> None:
        """A name that nothing has would be waited for in vain. A table that the lake has may be gone by now."""
        there = {str(each.name) for stream in self.streams for each in tracked(database, stream, self.tables)}
        for table in self.tables:
            name = TableName(*table.split(".", 1)) if "." in table else None
            if table not in there and (name is None or not lake.exists(run.place("current", name.folder))):
                raise ChangeDataError(f"no table {table} is tracked for {', '.join(self.streams)}; {NAMED}")

    def _check_stream(self, database: Database, stream: str) -> None:
        """A consumer that waits for nothing would hold up the rotation of its stream."""
        is_new = Stream(database, stream).position(f"{self.consumer}-{stream}") is None
        if self.snapshot and is_new and not any(tracked(database, stream)):
            raise ChangeDataError(f"no table is tracked for {stream}: call pgque.track_table first, or install")

    def _prepare(self, run: Run, database: Database, stream: str) -> None:
        self._check_stream(database, stream)
        self._place(Stream(database, stream), f"{self.consumer}-{stream}")
        wanted = [(self._mirror(run, each.name), each) for each in tracked(database, stream, self.tables)]
        for mirror, each in wanted:
            if mirror.history is None and lake.exists(run.place("history", each.name.folder)):
                raise ChangeDataError(
                    f"table {each.name} has a history, which would miss changes: run with it, or remove it"
                )
        if not self.snapshot:
            return
        missing = [(mirror, each) for mirror, each in wanted if not mirror.copied]
        if missing:
            run.note(f"copying {', '.join(str(each.name) for _, each in missing)}")
            run.count(copy(run.spark, run.url, missing))

    def _place(self, stream: Stream, consumer: str) -> None:
        """Before the copy, so that no change is rotated away between the copy and the first batch."""
        if stream.position(consumer) is None:
            if self.snapshot:
                stream.tick_now()
            stream.place(consumer, (stream.newest() if self.snapshot else stream.oldest()).id)

    def _start(self, run: Run, stream: str) -> StreamingQuery:
        checkpoint = run.checkpoint(stream)
        apply = ApplyChanges(
            url=run.url, stream=stream, tables=self.tables, current=run.place("current"),
            history=run.place("history") if self.history else None, snapshot=self.snapshot, checkpoint=checkpoint,
            compact_every=self.compact_every,
        )  # fmt: skip
        source = run.spark.readStream.format("penstock").options(
            url=run.url, subscribe=stream, consumer=f"{self.consumer}-{stream}", startingOffsets="committed",
            maxEventsPerTrigger=str(self.max_events), columns="type,value,offset,timestamp,txid",
            failOnDataLoss=str(not self.skip_lost).lower(),
        )  # fmt: skip
        written = source.load().writeStream.foreachBatch(apply).queryName(f"cdc {stream}")
        return written.option("checkpointLocation", checkpoint).trigger(**run.trigger()).start()

    def _mirror(self, run: Run, name: TableName) -> Mirror:
        return mirror_of(run.place("current"), run.place("history") if self.history else None, name)


def as_of(spark: SparkSession, path: str, moment: datetime) -> DataFrame:
    """The rows of a table as they were at a moment, from its history."""
    if moment.tzinfo is None:
        raise ValueError("a moment needs its time zone")
    at = f.timestamp_micros(f.lit(round(moment.timestamp() * 1_000_000)))
    began, ended = f.col("_valid_from") <= at, f.col("_valid_to") <= at
    found = lake.read(spark, path).where(began & ~f.coalesce(ended, f.lit(False)))
    return found.drop(*(column.name for column in HISTORY))
