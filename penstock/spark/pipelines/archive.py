"""`archive`: events and archived messages into the lake, exactly once.

Each stream has a query of its own, so that streams can be added and left out from run to run. Events come by ticks and
messages by snapshots, so what is committed late is not missed; the lake takes each micro-batch once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark import lake
from penstock.spark.pipelines.run import PipelineError, Run

EVENT_COLUMNS = "key,value,stream,offset,timestamp,type,txid,retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Streams, or the message archive, into the lake."""

    name: ClassVar[str] = "archive"

    streams: tuple[str, ...] = ()
    messages: bool = False
    """Whether to archive the archive of messages too."""
    queues: tuple[str, ...] = ()
    """Of these queues only; all when empty."""
    tenant: str = "default"
    partition_by: tuple[str, ...] = ("date", "type")
    """Of events. A type that is different for each event would make a file for each."""
    max_events: int | None = None
    compact: bool = False
    """Whether to put small files together at the end."""

    def run(self, run: Run) -> None:
        if not self.streams and not self.messages:
            raise PipelineError("name a stream to archive, or ask for the messages")
        queries = [self._events(run, stream) for stream in self.streams]
        if self.messages:
            queries.append(self._messages(run))
        run.watch(*queries)
        if self.compact:
            for table in [*(["events"] if self.streams else []), *(["messages"] if self.messages else [])]:
                run.note(f"compacting {table}")
                lake.compact(run.place(table))

    def _events(self, run: Run, stream: str) -> StreamingQuery:
        reader = run.spark.readStream.format("penstock").options(
            url=run.url,
            subscribe=stream,
            consumer="archive",
            startingOffsets="earliest",
            columns=EVENT_COLUMNS,
        )
        if self.max_events is not None:
            reader = reader.option("maxEventsPerTrigger", str(self.max_events))
        rows = reader.load().withColumn("date", day("timestamp"))
        return self._into(run, rows, "events", self.partition_by, f"events-{quote(stream, safe='')}")

    def _messages(self, run: Run) -> StreamingQuery:
        reader = run.spark.readStream.format("penstock").options(
            url=run.url, table="archive", tenant=self.tenant, startingOffsets="earliest"
        )
        if self.queues:
            reader = reader.option("subscribe", ",".join(self.queues))
        rows = reader.load().withColumn("date", day("archived_at"))
        return self._into(run, rows, "messages", ("date", "queue"), f"messages-{quote(self.tenant, safe='')}")

    def _into(self, run: Run, rows: DataFrame, table: str, partition_by: tuple[str, ...], name: str) -> StreamingQuery:
        writer = rows.writeStream.format("penstock_lake").option("partitionBy", ",".join(partition_by))
        writer = writer.option("checkpointLocation", run.checkpoint(name)).trigger(**run.trigger())
        return writer.start(run.place(table))


def day(column: str) -> Column:
    """The date of a moment in UTC, whatever the session's time zone is."""
    return f.to_date(f.to_utc_timestamp(f.col(column), f.current_timezone()))
