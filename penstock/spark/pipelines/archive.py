"""`archive`: events and archived messages into the lake, exactly once.

Each stream has a query of its own, and so has each queue that is named, so that they can be added and left out from run
to run. Events come by ticks and messages by snapshots, so what is committed late is not missed; the lake takes each
micro-batch once.
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
from penstock.spark.pipelines.run import PipelineError, Run
from penstock.spark.streams import Stream
from penstock.spark.tenants import stream_prefix

EVENT_COLUMNS = "key,value,stream,offset,timestamp,type,txid,retry,headers"
SHORT = 40
"""So many characters of a type that is too long are kept in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Streams, or the message archive, into the lake."""

    name: ClassVar[str] = "archive"
    has_queries: ClassVar[bool] = True

    streams: tuple[str, ...] = ()
    messages: bool = False
    """Whether to archive the archive of messages too."""
    queues: tuple[str, ...] = ()
    """Of these queues only; all when empty."""
    tenant: str = "default"
    partition_by: tuple[str, ...] = ("date", "type")
    """Of events. A type that is different for each event would make a file for each."""
    consumer: str = "archive"
    """Two lakes of one stream need two, else one may lose what the other has read."""
    skip_lost: bool = False
    """Whether to go on when a stream has lost events that were not archived."""
    max_events: int | None = None
    compact: bool = False
    """Whether to put small files together at the end."""

    def check(self, follow: bool) -> None:
        if not self.streams and not self.messages:
            raise PipelineError("name a stream to archive, or ask for the messages")

    def check_database(self, url: str) -> None:
        with closing(Database(url)) as database:
            prefix = stream_prefix(database, self.tenant)
            for stream in self.streams:
                Stream(database, stream, prefix=prefix).check()

    def claims(self, lake: str) -> list[str]:
        owner = "" if self.tenant == "default" else f" of tenant {self.tenant}"
        found = [f"the archive of stream {stream!r}{owner}" for stream in self.streams]
        if self.messages:
            # One for all queues: whether they come one by one is for the first run to say.
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
                lake.compact(run.place(table))
            run.note(None)

    def _check_queues(self, run: Run) -> None:
        """A row is read by one query only: either by that of its queue, or by that of all."""
        all_queues = self._messages_name(None)
        before = [name for name in _checkpoints(run) if name.startswith(all_queues)]
        if self.queues and all_queues in before:
            raise PipelineError("this lake has the messages of all queues: name none, or use another lake")
        named = [unquote(name.removeprefix(f"{all_queues}=")) for name in before if name.startswith(f"{all_queues}=")]
        if named and not self.queues:
            raise PipelineError(
                f"this lake has the messages of single queues: name them ({', '.join(sorted(named))}) and those that"
                " are to be added, or use another lake"
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
            rows = rows.withColumns({"type": short("type"), "full_type": f.when(is_long("type"), f.col("type"))})
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
        # A lake of an earlier version lacks some of the columns.
        return writer.option("mergeSchema", "true").start(run.place(table))


def _checkpoints(run: Run) -> list[str]:
    try:
        place = filesystem(run.checkpoint("")[:-1], {})
        return [each.base_name for each in place.get_file_info(arrow_fs.FileSelector("", allow_not_found=True))]
    except TableNotFoundError:
        return []


def is_long(column: str) -> Column:
    """Whether a text cannot be the name of a folder, in which some readers look for it."""
    escaped = f.regexp_replace(column, partitions.ESCAPED, "%00")
    return (f.octet_length(escaped) > partitions.LONGEST) | (f.col(column) == partitions.NULL)


def short(column: str) -> Column:
    """The text itself, or its beginning and a hash."""
    hashed = f.concat(f.substring(column, 1, SHORT), f.lit("~"), f.substring(f.sha2(f.col(column), 256), 1, 16))
    return f.when(is_long(column), hashed).otherwise(f.col(column))


def day(column: str) -> Column:
    """The date of a moment in UTC, whatever the session's time zone is."""
    return f.to_date(f.to_utc_timestamp(f.col(column), f.current_timezone()))
