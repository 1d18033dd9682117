"""One scenario for every kind of cluster: `python -m tests.spark.processes.scenario DSN FOLDER WHERE`.

WHERE is a master, or the address of a Spark Connect server. What it found is printed as JSON, for the test to judge.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.spark import lake
from penstock.spark.pipelines.archive import Archive
from penstock.spark.pipelines.run import run_pipeline
from penstock.spark.running.session import session
from tests.spark import streams
from tests.system.serving import ROOT, environment

SETTINGS = {"spark.sql.shuffle.partitions": "2"}


EXPECTED = {
    "read": [1000, 3],
    "streamed": 1000,
    "each": 1000,
    "written": 503,
    "archived": [1400, 1400],
}


def prepare(database: psycopg.Connection) -> None:
    for name, count in (("orders", 1000), ("bills", 400)):
        streams.make(database, name)
        streams.send(database, name, (f"{name}-{number}" for number in range(count)))
    database.execute("select penstock.create_queue('letters')")
    for number in range(3):
        database.execute("select penstock.send('letters', %s::text)", [f"old-{number}"])


def find(spark: SparkSession, dsn: str, folder: Path) -> dict[str, Any]:
    return {
        "executors": executors(spark),
        "read": read(spark, dsn),
        "streamed": into_lake(spark, dsn, folder),
        "each": each_batch(spark, dsn, folder),
        "written": write(spark, dsn),
        "archived": archive(spark, dsn, folder),
    }


def executors(spark: SparkSession) -> int:
    """Over how many processes Spark spreads the tasks: each has a daemon of its own for its Python workers."""
    parents = spark.range(8, numPartitions=8).mapInArrow(_parent, "process long")
    return parents.distinct().count()


def _parent(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"process": [os.getppid()]})


def read(spark: SparkSession, dsn: str) -> list[int]:
    events = spark.read.format("penstock").options(url=dsn, subscribe="orders", minPartitions="4").load()
    waiting = spark.read.format("penstock").options(url=dsn, table="messages", subscribe="letters").load()
    return [events.select("value").distinct().count(), waiting.count()]


def _events(spark: SparkSession, dsn: str, consumer: str) -> DataFrame:
    options = {"url": dsn, "subscribe": "orders", "consumer": consumer, "startingOffsets": "earliest"}
    return spark.readStream.format("penstock").options(**options, minPartitions="4").load()


def into_lake(spark: SparkSession, dsn: str, folder: Path) -> int:
    place = str(folder / "orders")
    query = (
        _events(spark, dsn, "lake").writeStream.format("penstock_lake")
        .options(path=place, checkpointLocation=str(folder / "orders.checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return lake.read(spark, place).select("value").distinct().count()


def each_batch(spark: SparkSession, dsn: str, folder: Path) -> int:
    """A function of the user, which runs on the server when there is one; what it makes must be found elsewhere."""
    place = str(folder / "each")

    def keep(frame: DataFrame, batch: int) -> None:
        frame.withColumn("batch", f.lit(batch)).write.mode("append").parquet(place)

    query = (
        _events(spark, dsn, "each").writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "each.checkpoint"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    return spark.read.parquet(place).count()


def write(spark: SparkSession, dsn: str) -> int:
    frame = spark.range(500, numPartitions=4).select(f.concat(f.lit("w"), "id").alias("value"))
    options = {"url": dsn, "target": "queue", "name": "letters"}
    frame.write.format("penstock").options(**options).mode("append").save()
    return spark.read.format("penstock").options(url=dsn, table="messages", subscribe="letters").load().count()


def archive(spark: SparkSession, dsn: str, folder: Path) -> list[int]:
    """A whole pipeline, twice: the second run finds nothing new."""
    counts = []
    for _ in range(2):
        run_pipeline(Archive(streams=("orders", "bills")), spark=spark, url=dsn, lake=str(folder / "lake"))
        tables = sorted({path.parent for path in (folder / "lake").rglob("_delta_log")})
        counts.append(sum(lake.read(spark, str(table)).count() for table in tables))
    return counts


def play(dsn: str, folder: Path, where: str, patience_s: float = 560) -> dict[str, Any]:
    """For tests: the scenario in a process of its own, and what it found."""
    arguments = [sys.executable, "-m", "tests.spark.processes.scenario", dsn, str(folder), where]
    done = subprocess.run(arguments, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=patience_s)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(dsn: str, folder: str, where: str) -> None:
    chosen = {"remote": where} if where.startswith("sc://") else {"master": where}
    spark = session("scenario", settings=SETTINGS, **chosen)
    print(json.dumps(find(spark, dsn, Path(folder))), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
