"""A driver that its test kills: `python -m tests.spark.processes.archiver DSN FOLDER`.

Two queries: both streams into the lake, and one of them into a queue. A query that fails is restarted, as in
production; its error is printed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.running.session import session
from tests.spark.processes.producers import STREAMS

SINKS = ("lake", "queue")
CONSUMERS = {"archive": STREAMS, "forward": STREAMS[:1]}
FAILURES = 20
"""More than PostgreSQL is killed; then something else is wrong, and the test should hear of it soon."""


def events(spark: SparkSession, dsn: str, consumer: str) -> DataFrame:
    names = ",".join(CONSUMERS[consumer])
    options = {"url": dsn, "subscribe": names, "consumer": consumer, "startingOffsets": "earliest"}
    return spark.readStream.format("penstock").options(**options, maxEventsPerTrigger="4000", minPartitions="2").load()


def start(spark: SparkSession, dsn: str, folder: Path, sink: str, **trigger: bool | str) -> StreamingQuery:
    """One of the two queries; each goes on at its checkpoint."""
    if sink == "lake":
        frame = events(spark, dsn, "archive")
        writer = frame.writeStream.format("penstock_lake").options(path=str(folder / "lake"))
    else:
        frame = events(spark, dsn, "forward").select("value")
        writer = frame.writeStream.format("penstock").options(url=dsn, target="queue", name="letters")
    writer = writer.queryName(sink).option("checkpointLocation", str(folder / f"{sink}.checkpoint"))
    return writer.trigger(**trigger).start()  # type: ignore[arg-type]


def main(dsn: str, place: str) -> None:
    # It does not outlive the test, whatever happens to that.
    parent = os.getppid()
    folder = Path(place)
    spark = session("archiver", master="local[2,4]", settings={"spark.sql.shuffle.partitions": "2"})
    queries = {sink: start(spark, dsn, folder, sink, processingTime="0 seconds") for sink in SINKS}
    print("ready", flush=True)
    failures = 0
    while os.getppid() == parent and failures < FAILURES:
        for sink, query in queries.items():
            try:
                query.awaitTermination(1)
            except PySparkException as error:
                failures += 1
                print(f"failed: {sink}: {' '.join(str(error).split())}", flush=True)
                queries[sink] = start(spark, dsn, folder, sink, processingTime="0 seconds")


if __name__ == "__main__":
    main(*sys.argv[1:])
