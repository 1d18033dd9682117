"""The pipeline `archive`: events and archived messages into the lake, exactly once.

Each stream and each named queue has its own query, so that a later run may add or omit some. Events are read by ticks
and messages by snapshots, so late commits are not missed; the lake takes each micro-batch once.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote, unquote

import pyarrow.fs as arrow_fs
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.lake import partitions
from penstock.spark.lake.storage import filesystem
from penstock.spark.pipelines.claims import in_lake
from penstock.spark.pipelines.pipeline import Pipeline, PipelineError
from penstock.spark.pipelines.run import Run
from penstock.spark.streams import Stream
from penstock.spark.tenants import stream_prefix

EVENT_COLUMNS = "key,value,stream,offset,timestamp,type,txid,retry,headers"
SHORT = 40
"""Characters that are kept of a type that is too long for the name of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive(Pipeline):
    """Streams, or the message archive, into the lake."""

    name: ClassVar[str] = "archive"
    has_queries: ClassVar[bool] = True

    streams: tuple[str, ...] = ()
    messages: bool = False
    """Whether to include the archive of messages."""
    queues: tuple[str, ...] = ()
    """Queues whose messages are archived; empty means all."""
    tenant: str = "default"
    partition_by: tuple[str, ...] = ("date", "type")
    """Partition columns of events. A type that differs for every event would make a file for each."""
    consumer: str = "archive"
    """Consumer name. Use a different one for each lake: rotation keeps only what the consumer has not read."""
    skip_lost: bool = False
    """Whether to continue when a stream has lost events that were not archived."""
    max_events: int | None = None
    compact: bool = False
    """Whether to compact small files at the end."""

    @property
    def owner(self) -> str:
        return self.tenant

    def check(self, follow: bool) -> None:
        if not self.streams and not self.messages:
            raise PipelineError("nothing to archive: give --stream or --messages")

    def check_database(self, url: str) -> None:
        with closing(Database(url)) as database:
            prefix = stream_prefix(database, self.tenant)
            for stream in self.streams:
                Stream(database, stream, prefix=prefix).check()

    def claims(self, lake: str) -> list[str]:
        owner = "" if self.tenant == "default" else f" of tenant {self.tenant}"
        found = [f"the archive of stream {stream!r}{owner}" for stream in self.streams]
        if self.messages:
            # One claim for all queues: the first run decides whether they are archived one by one.
            found.append(f"the archive of messages{owner}")
        return [in_lake(each, lake) for each in found]

    def run(self, run: Run) -> None:
        self.check(run.follow)
        queries = [self._events(run, stream) for stream in self.streams]
        if self.messages:
            self._check_queues(run)
            queries += [self._messages(run, queue) for queue in self.queues or (None,)]
        run.watch(*queries)
        if self.compact:
            for table in [*(["events"] if self.streams else []), *(["messages"] if self.messages else [])]:
                run.note(f"compacting {table}")
                lake.compact(run.path(table))
            run.note(None)

    def _check_queues(self, run: Run) -> None:
        """Raises when a row would be read twice: by the query of its queue, and by the query of all queues."""
        all_queues = self._messages_name(None)
        before = [name for name in _checkpoints(run) if name.startswith(all_queues)]
        if self.queues and all_queues in before:
            raise PipelineError("this lake archives the messages of all queues: omit --queue, or use another lake")
        named = [unquote(name.removeprefix(f"{all_queues}=")) for name in before if name.startswith(f"{all_queues}=")]
        if named and not self.queues:
            raise PipelineError(
                f"this lake archives the messages of single queues: name them ({', '.join(sorted(named))}) and any"
                " others to add, or use another lake"
            )

    def _events(self, run: Run, stream: str) -> StreamingQuery:
        reader = run.spark.readStream.format("penstock").options(
            url=run.url,
            tenant=self.tenant,
            subscribe=stream,
            consumer=self.consumer,
            startingOffsets="earliest",
            failOnDataLoss=str(not self.skip_lost).lower(),
            includeHeaders="true",
            columns=EVENT_COLUMNS,
        )
        if self.max_events is not None:
            reader = reader.option("maxEventsPerTrigger", str(self.max_events))
        more = {"headers": "extra1", "extra2": "extra2", "extra3": "extra3"}
        rows = reader.load().withColumns({name: f.col("headers")[extra] for name, extra in more.items()})
        rows = rows.withColumns({"tenant": f.lit(self.tenant), "date": day("timestamp")})
        if "type" in self.partition_by:
            unnamed = is_unnamed("type")
            rows = rows.withColumns({"type": short("type"), "full_type": f.when(unnamed, f.col("type"))})
        owner = "" if self.tenant == "default" else f"{quote(self.tenant, safe='')}="
        return self._into(run, rows, "events", self.partition_by, f"events-{owner}{quote(stream, safe='')}")

    def _messages(self, run: Run, queue: str | None) -> StreamingQuery:
        reader = run.spark.readStream.format("penstock").options(
            url=run.url, table="archive", tenant=self.tenant, startingOffsets="earliest"
        )
        if queue is not None:
            reader = reader.option("subscribe", queue)
        rows = reader.load().withColumns({"tenant": f.lit(self.tenant), "date": day("archived_at")})
        return self._into(run, rows, "messages", ("date", "queue"), self._messages_name(queue))

    def _messages_name(self, queue: str | None) -> str:
        name = f"messages-{quote(self.tenant, safe='')}"
        return name if queue is None else f"{name}={quote(queue, safe='')}"

    def _into(self, run: Run, rows: DataFrame, table: str, partition_by: tuple[str, ...], name: str) -> StreamingQuery:
        writer = rows.writeStream.format("penstock_lake").option("partitionBy", ",".join(partition_by))
        writer = writer.option("checkpointLocation", run.checkpoint(name)).trigger(**run.trigger())
        # A lake of an earlier version has fewer columns.
        return writer.option("mergeSchema", "true").start(run.path(table))


def _checkpoints(run: Run) -> list[str]:
    try:
        files = filesystem(run.checkpoint("")[:-1], {})
        return [each.base_name for each in files.get_file_info(arrow_fs.FileSelector("", allow_not_found=True))]
    except TableNotFoundError:
        return []


def is_unnamed(column: str) -> Column:
    """Whether a text cannot be the name of a folder, from which some readers take the value.

    It is too long, or empty: to Delta an empty partition value is null.
    """
    escaped = f.regexp_replace(column, partitions.ESCAPED, "%00")
    return (f.octet_length(escaped) > partitions.LONGEST) | f.col(column).isin("", partitions.NULL)


def short(column: str) -> Column:
    """The text itself, or its first characters and a hash when no folder can have its name."""
    hashed = f.concat(f.substring(column, 1, SHORT), f.lit("~"), f.substring(f.sha2(f.col(column), 256), 1, 16))
    return f.when(is_unnamed(column), hashed).otherwise(f.col(column))


def day(column: str) -> Column:
    """The date of a timestamp in UTC, independent of the session's time zone."""
    return f.to_date(f.to_utc_timestamp(f.col(column), f.current_timezone()))
