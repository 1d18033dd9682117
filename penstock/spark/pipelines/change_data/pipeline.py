"""The pipeline `cdc`: tables of PostgreSQL in the lake, with their current rows and their history."""

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
from penstock.spark.lake.storage import below
from penstock.spark.pipelines.change_data.batch import ApplyChanges, fill
from penstock.spark.pipelines.change_data.columns import UNFIT, ChangeDataError, check_names
from penstock.spark.pipelines.change_data.copy import Mirror, copy, mirror_of
from penstock.spark.pipelines.change_data.pieces import TextDatabase
from penstock.spark.pipelines.change_data.source import (
    SQL,
    TableName,
    Tracked,
    catalog_defaults,
    mirrored_columns,
    tracked,
)
from penstock.spark.pipelines.change_data.tables import HISTORY, OWN
from penstock.spark.pipelines.change_data.upkeep import compact_and_vacuum
from penstock.spark.pipelines.change_data.verifying import MOST_REPAIRED, Difference, verify
from penstock.spark.pipelines.claims import in_lake
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.run import Run
from penstock.spark.streams import Stream

EVENTS_PER_BATCH = 100_000
"""Changes pass through the driver's memory, so a batch is bounded. A tick is not split."""
COMPACT_EVERY = 50
NAMED = "write tables as schema.table, spelled as in the catalog and without quotes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeData(Pipeline):
    """Tables of PostgreSQL into the lake: their current rows, and the history of every row."""

    name: ClassVar[str] = "cdc"
    has_queries: ClassVar[bool] = True
    streams: tuple[str, ...]
    """Streams that change triggers write to."""
    tables: tuple[str, ...] = ()
    """Tables as `schema.table`, spelled as in the catalog and without quotes; empty means all tracked tables."""
    install: bool = False
    """Whether to create change triggers first; needs `tables`, one stream, and the rights of the tables' owner."""
    snapshot: bool = True
    """Whether to start with a copy of each table, and not with the oldest change that the stream still has."""
    history: bool = True
    consumer: str = "cdc"
    """Prefix of the consumer names. Use a different one for each lake."""
    skip_lost: bool = False
    """Whether to continue when a stream has lost changes. The rows concerned stay stale until they change again."""
    max_events: int = EVENTS_PER_BATCH
    compact_every: int = COMPACT_EVERY
    """Batches between compactions of small files. A run also compacts at its end, unless this is 0."""
    verify: bool = False
    """Whether to compare the lake with the source at the end; differences are an error unless they are repaired."""
    repair: bool = False
    """Whether to replace rows that differ by those of the source; includes `verify`."""

    def check(self, follow: bool) -> None:
        if not self.streams:
            raise ChangeDataError("give at least one --stream")
        if self.install and (not self.tables or len(self.streams) != 1):
            raise ChangeDataError("--install needs --table for each table, and exactly one --stream")
        if follow and (self.verify or self.repair):
            raise ChangeDataError("--verify and --repair compare once and end: omit --follow")

    def check_database(self, url: str) -> None:
        with closing(Database(url)) as database:
            for stream in () if self.install else self.streams:
                self._check_stream(database, stream)
            for table in self.tables if self.install else ():
                if database.value(SQL["has_table"], table) is None:
                    raise ChangeDataError(f"there is no table {table}; {NAMED}")

    def check_files(self, url: str, lake: str) -> None:
        with closing(Database(url)) as database:
            if not self.install:
                self._check_tables(database, lake)

    def claims(self, lake: str) -> list[str]:
        return [in_lake(f"the changes of stream {stream!r}", lake) for stream in self.streams]

    def run(self, run: Run) -> None:
        self.check(run.follow)
        with closing(Database(run.url)) as database:
            if self.install:
                self._track(database)
            self._check_tables(database, run.lake)
            for stream in self.streams:
                self._prepare(run, database, stream)
            queries = [self._start(run, stream) for stream in self.streams]
            run.note("applying changes")
            run.watch(*queries)
            if self.verify or self.repair:
                self._verify(run, database)
            if self.compact_every:
                run.note("compacting")
                names = {each.name for stream in self.streams for each in tracked(database, stream, self.tables)}
                compact_and_vacuum([table for name in names for table in self._mirror(run, name).tables])
        run.note(None)

    def _verify(self, run: Run, database: Database) -> None:
        found: list[Difference] = []
        for stream in self.streams:
            tick = Stream(database, stream).position(f"{self.consumer}-{stream}")
            assert tick is not None
            for table in tracked(database, stream, self.tables):
                mirror = self._mirror(run, table.name)
                if mirror.copied:
                    run.note(f"comparing {table.name}")
                    found += verify(
                        run.spark, run.url, mirror, table, stream=stream, tick=tick, repair=self.repair
                    )  # fmt: skip
        run.results += [each.described(self.repair) for each in found]
        wrong = [each for each in found if each.total or each.unjudged]
        if any(each.total > MOST_REPAIRED for each in wrong):
            raise ChangeDataError(f"more than {MOST_REPAIRED} rows differ: run --repair again, or make a new copy")
        if wrong and not self.repair:
            total = sum(each.total for each in wrong)
            raise ChangeDataError(
                f"{total} rows of the lake differ from their source: run with --repair to replace them"
            )

    def _track(self, database: Database) -> None:
        for table in self.tables:
            if not database.rows(SQL["track"], table, self.streams[0]):
                raise ChangeDataError(f"there is no table {table}; {NAMED}")

    def _check_tables(self, database: Database, lake_path: str) -> None:
        """Raises for a table that is not tracked, unless the lake has it: it may have been dropped since."""
        there = {str(each.name) for stream in self.streams for each in tracked(database, stream, self.tables)}
        for table in self.tables:
            name = TableName(*table.split(".", 1)) if "." in table else None
            if table not in there and (name is None or not lake.exists(below(lake_path, "current", name.folder))):
                raise ChangeDataError(f"table {table} is not tracked by stream {', '.join(self.streams)}; {NAMED}")

    def _check_stream(self, database: Database, stream: str) -> None:
        """Raises when no table is tracked: a consumer that never reads would stop the rotation of its stream."""
        is_new = Stream(database, stream).position(f"{self.consumer}-{stream}") is None
        if self.snapshot and is_new and not any(tracked(database, stream)):
            raise ChangeDataError(
                f"no table is tracked by stream {stream}: call pgque.track_table, or run with --install"
            )

    def _prepare(self, run: Run, database: Database, stream: str) -> None:
        self._check_stream(database, stream)
        self._register_consumer(Stream(database, stream), f"{self.consumer}-{stream}")
        wanted = [(self._mirror(run, each.name), each) for each in tracked(database, stream, self.tables)]
        for mirror, each in wanted:
            if mirror.history is None and lake.exists(run.path("history", each.name.folder)):
                raise ChangeDataError(
                    f"table {each.name} has a history in the lake, which would miss changes: run with --history, or"
                    " remove it"
                )
        for mirror, each in wanted:
            self._add_columns(run, mirror, each)
        if not self.snapshot:
            return
        missing = [(mirror, each) for mirror, each in wanted if not mirror.copied]
        if missing:
            run.note(f"copying {', '.join(str(each.name) for _, each in missing)}")
            run.count(copy(run.spark, run.url, missing))

    def _add_columns(self, run: Run, mirror: Mirror, table: Tracked) -> None:
        """Columns that were added to the source since the last run: no event reports them until a row changes."""
        if not mirror.copied:
            return
        with closing(TextDatabase(run.url)) as database:
            columns, defaults = mirrored_columns(database, table), catalog_defaults(database, table.name)
        unknown: set[str] = set()
        for each in mirror.tables:
            there = each.columns()
            added = [column for column in columns if column.name not in {known.name for known in there}]
            check_names(str(table.name), [column.name for column in (*there, *added)], OWN)
            each.fit([*there, *added], defaults)
            unknown |= {column.name for column in added if defaults.get(column.name, "") is None}
        fill(run.spark, mirror, defaults)
        for name in sorted(unknown):
            remark = "its default differs by row: null in the lake until the row changes"
            run.results.append({"table": str(table.name), "new column": name, "remark": remark})

    def _register_consumer(self, stream: Stream, consumer: str) -> None:
        """Runs before the copy, so that no change is rotated away between the copy and the first batch."""
        if stream.position(consumer) is None:
            if self.snapshot:
                stream.tick_now()
            stream.set_position(consumer, (stream.newest() if self.snapshot else stream.oldest()).id)

    def _start(self, run: Run, stream: str) -> StreamingQuery:
        checkpoint = run.checkpoint(stream)
        apply = ApplyChanges(
            url=run.url, stream=stream, tables=self.tables, current=run.path("current"),
            history=run.path("history") if self.history else None, snapshot=self.snapshot, checkpoint=checkpoint,
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
        return mirror_of(run.path("current"), run.path("history") if self.history else None, name)


def as_of(spark: SparkSession, path: str, moment: datetime) -> DataFrame:
    """The rows of a table as they were at a point in time, from its history."""
    if moment.tzinfo is None:
        raise ValueError("the moment has no time zone")
    at = f.timestamp_micros(f.lit(round(moment.timestamp() * 1_000_000)))
    began, ended = f.col("_valid_from") <= at, f.col("_valid_to") <= at
    found = lake.read(spark, path).where(began & ~f.coalesce(ended, f.lit(False)))
    # Values that the lake has no type for, such as infinity, are null in their columns and only here.
    return found.drop(*(column.name for column in HISTORY if column.name != UNFIT))
