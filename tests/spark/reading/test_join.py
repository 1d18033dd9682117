"""Stream-static joins: each micro-batch sees the tables as they are when it is processed."""

from __future__ import annotations

import random
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark import streams

pytestmark = pytest.mark.timeout(300)

JOBS = 60
ROUNDS = 4

ENQUEUE = """
    insert into penstock.jobs (
      queue_id, id, tenant_id, place, due_at, run_at, created_at, updated_at, priority, max_retries, attempts, state,
      payload
    )
    select q.id, n, 1, 0, now(), now(), now(), now(), 0, 3, 0, 0, '{}'
    from penstock.job_queues as q, unnest(%s::bigint[]) as n
"""


def joined(spark: SparkSession, dsn: str) -> DataFrame:
    events = (
        spark.readStream.format("penstock")
        .options(url=dsn, subscribe="orders", consumer="join", startingOffsets="earliest")
        .load()
        .select(f.col("value").cast("bigint").alias("wanted"))
    )
    jobs = spark.read.format("penstock").options(url=dsn, table="jobs", columns="id,status", minPartitions="2").load()
    return events.join(jobs, events["wanted"] == jobs["id"], "left").select("wanted", "id")


@pytest.mark.slow
def test_a_job_that_was_written_before_its_event_is_joined_with_it(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    streams.make(database, "orders")
    database.execute("insert into penstock.job_queues (tenant_id, name, created_at) values (1, 'invoices', now())")
    ids = [*range(1, JOBS + 1)]
    random.Random(7).shuffle(ids)
    portions = [ids[start::ROUNDS] for start in range(ROUNDS)]
    writer = None
    for number, portion in enumerate(portions):
        if number in (0, ROUNDS - 1):
            # The last round is a restart.
            if writer is not None:
                writer.stop()
            writer = (
                joined(spark, dsn)
                .writeStream.format("parquet")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .start(str(tmp_path / "joined"))
            )
        database.execute(ENQUEUE, [portion])
        streams.send(database, "orders", map(str, portion))
        streams.tick(database, "orders")
        assert writer is not None
        writer.processAllAvailable()
        if number == 1:
            # As after a pause of minutes: nobody holds the snapshot of the first batch any more.
            end_snapshots(database)
    assert writer is not None
    writer.stop()

    rows = spark.read.parquet(str(tmp_path / "joined")).collect()

    assert sorted((row["wanted"], row["id"]) for row in rows) == [(id, id) for id in range(1, JOBS + 1)]


def end_snapshots(database: psycopg.Connection) -> None:
    database.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where datname = current_database() and state = 'idle in transaction' and query ilike '%%export_snapshot%%'"
    )
