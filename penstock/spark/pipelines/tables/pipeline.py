"""The pipeline `tables`: events as typed tables of the lake, one for each event type, and a quarantine."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark import lake as lakes
from penstock.spark.database import Database
from penstock.spark.lake.storage import below
from penstock.spark.pipelines.claims import in_lake
from penstock.spark.pipelines.pipeline import Pipeline, PipelineError
from penstock.spark.pipelines.run import Run
from penstock.spark.pipelines.tables.batch import ApplyEvents
from penstock.spark.pipelines.tables.settings import read_settings
from penstock.spark.streams import Stream
from penstock.spark.tenants import stream_prefix

FOLDER = "tables"
ARCHIVE = "events"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables(Pipeline):
    """Events into typed tables, one for each event type; those that do not fit into a quarantine."""

    name: ClassVar[str] = "tables"
    has_queries: ClassVar[bool] = True

    streams: tuple[str, ...] = ()
    """Streams to read; empty reads the table `events` of the lake, which `archive` writes."""
    file: str | None = None
    """TOML file that declares the tables; None makes a table for every type."""
    tenant: str = "default"
    consumer: str = "tables"
    """Consumer name. Use a different one for each lake."""
    skip_lost: bool = False
    max_events: int | None = None
    compact: bool = False

    @property
    def owner(self) -> str:
        return self.tenant

    def check(self, follow: bool) -> None:
        read_settings(self.file)

    def check_database(self, url: str) -> None:
        with closing(Database(url)) as database:
            prefix = stream_prefix(database, self.tenant)
            for stream in self.streams:
                Stream(database, stream, prefix=prefix).check()

    def check_files(self, url: str, lake: str) -> None:
        if not self.streams and not lakes.exists(below(lake, ARCHIVE)):
            raise PipelineError(f"there is no table at {below(lake, ARCHIVE)}: run `archive` first, or give --stream")

    def claims(self, lake: str) -> list[str]:
        # Queries of several streams write to the same tables; each commits batches of its own.
        names = self.streams or (None,)
        return [
            in_lake(f"the tables of {'the archive' if each is None else f'stream {each!r}'}", lake) for each in names
        ]

    def run(self, run: Run) -> None:
        self.check(run.follow)
        queries = [self._start(run, self._events(run, stream), stream) for stream in self.streams]
        if not self.streams:
            queries.append(self._start(run, self._archived(run), None))
        run.watch(*queries)
        if self.compact:
            for table in lakes.tables(run.path(FOLDER)):
                run.note(f"compacting {table.name}")
                lakes.compact(table.path)
            run.note(None)

    def _events(self, run: Run, stream: str) -> DataFrame:
        reader = run.spark.readStream.format("penstock").options(
            url=run.url, tenant=self.tenant, subscribe=stream, consumer=self.consumer, startingOffsets="earliest",
            failOnDataLoss=str(not self.skip_lost).lower(), columns="key,value,stream,offset,timestamp,type",
        )  # fmt: skip
        if self.max_events is not None:
            reader = reader.option("maxEventsPerTrigger", str(self.max_events))
        return reader.load()

    def _archived(self, run: Run) -> DataFrame:
        rows = run.spark.readStream.format("penstock_lake").load(run.path(ARCHIVE))
        rows = rows.where(f.coalesce("tenant", f.lit("default")) == self.tenant)
        kind = f.coalesce("full_type", "type") if "full_type" in rows.columns else f.col("type")
        return rows.withColumn("type", kind)

    def _start(self, run: Run, rows: DataFrame, stream: str | None) -> StreamingQuery:
        owner = "" if self.tenant == "default" else f"{quote(self.tenant, safe='')}="
        checkpoint = run.checkpoint("archive" if stream is None else f"events-{owner}{quote(stream, safe='')}")
        apply = ApplyEvents(root=run.path(FOLDER), settings=read_settings(self.file), checkpoint=checkpoint)
        written = rows.writeStream.foreachBatch(apply).queryName(f"tables {stream or ARCHIVE}")
        return written.option("checkpointLocation", checkpoint).trigger(**run.trigger()).start()
