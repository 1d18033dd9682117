"""Counts events per stream, type and hour in a streaming query. An hour accepts late events until its watermark.

Spark keeps the counts of open hours and outputs every changed hour with its full value, so a repeated batch writes the
same values again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.table import TableMerger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark import lake
from penstock.spark.lake.storage import folder
from penstock.spark.pipelines.insights.numbers import date_of
from penstock.spark.pipelines.insights.writing import fit

SETTINGS = {
    # There are few counts: more partitions would only make more files per checkpoint.
    "spark.sql.shuffle.partitions": "4",
    # An empty batch at the end advances the watermark for the next run.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
ALL_EVENTS = 2**62
"""One micro-batch takes all events. There is one watermark for all streams: if a long stream were read in several
batches, the others would advance it past the rest of that stream. Counting needs no memory for the events."""

SCHEMA = pa.schema(
    [
        pa.field("date", pa.date32()),
        pa.field("hour", pa.timestamp("us", tz="UTC")),
        pa.field("stream", pa.string()),
        pa.field("type", pa.string()),
        pa.field("sent", pa.int64()),
        pa.field("retried", pa.int64()),
        pa.field("added", pa.int64()),
        pa.field("batch", pa.int64()),
        pa.field("changed_at", pa.timestamp("us", tz="UTC")),
    ]
)
_SAME_HOUR = (
    "target.date = source.date and target.hour = source.hour and target.stream = source.stream"
    " and target.type = source.type"
)
_ADDED = (
    "case when target.batch = source.batch then target.added"
    " else source.sent + source.retried - target.sent - target.retried end"
)


@dataclass(frozen=True, slots=True)
class WriteCounts:
    """For `foreachBatch`. `added` is what a batch added to an hour; from it the number of late events is computed."""

    path: str
    moment_us: int

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = frame.select(
            date_of(f.col("window.start")).alias("date"),
            f.col("window.start").alias("hour"),
            "stream",
            "type",
            "sent",
            "retried",
            (f.col("sent") + f.col("retried")).alias("added"),
            f.lit(batch).cast("bigint").alias("batch"),
            f.timestamp_micros(f.lit(self.moment_us)).alias("changed_at"),
        )
        found: pa.Table = rows.toArrow()
        if found.num_rows:
            lake.merge(self.path, found, _SAME_HOUR, _whole_values)


def _whole_values(merger: TableMerger) -> TableMerger:
    updates = {name: f"source.{name}" for name in ("sent", "retried", "batch", "changed_at")}
    return merger.when_matched_update({**updates, "added": _ADDED}).when_not_matched_insert_all()


def make_table(path: str) -> None:
    schema = Schema.from_arrow(SCHEMA)
    if lake.exists(path):
        fit(path, schema)
    else:
        DeltaTable.create(folder(path), schema, mode="ignore", partition_by=["date"])


def start(
    spark: SparkSession,
    path: str,
    *,
    source: dict[str, str],
    lateness_s: int,
    checkpoint: str,
    moment: datetime,
) -> StreamingQuery:
    """Count the new events, then end. `source` has the options that select what to read."""
    events = (
        spark.readStream.format("penstock")
        .options(
            startingOffsets="earliest",
            columns="stream,timestamp,type,retry",
            includeRetries="true",
            maxEventsPerTrigger=str(ALL_EVENTS),
            **source,
        )
        .load()
    )
    is_retry = f.col("retry") > 0
    counts = (
        events.withWatermark("timestamp", f"{lateness_s} seconds")
        .groupBy(f.window("timestamp", "1 hour"), "stream", f.coalesce("type", f.lit("")).alias("type"))
        .agg(
            f.count(f.when(~is_retry, 1)).alias("sent"),
            f.count(f.when(is_retry, 1)).alias("retried"),
        )
    )
    write = WriteCounts(path, int(moment.timestamp() * 1_000_000))
    with _settings(spark, SETTINGS):
        return (
            counts.writeStream.outputMode("update")
            .foreachBatch(write)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )


def late(spark: SparkSession, path: str, query: StreamingQuery) -> int:
    """The number of events that the query read and did not count, because they were older than the watermark."""
    entries = [json.loads(progress.json) for progress in query.recentProgress]
    read = {entry["batchId"]: entry["numInputRows"] for entry in entries if entry["numInputRows"]}
    if not read:
        return 0
    counted = lake.read(spark, path).where(f.col("batch").isin(*read)).agg(f.sum("added")).collect()[0][0]
    return int(sum(read.values()) - (counted or 0))


def changed_hours(counts: DataFrame, since: datetime, before: datetime) -> list[datetime]:
    """Hours before `before` that late events have changed since `since`."""
    micros = f.unix_micros("hour").alias("micros")
    found = counts.where((f.col("changed_at") > since) & (f.col("hour") < before)).select(micros).distinct()
    return sorted(datetime.fromtimestamp(row["micros"] / 1_000_000, UTC) for row in found.collect())


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for the block. A query keeps the settings that it was started with."""
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
