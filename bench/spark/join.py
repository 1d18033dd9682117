"""Does a stream that is joined with a table see the table as of each micro-batch?

10 000 jobs are written in random order, over 20 rounds. Each has an event in three random rounds, some of them before
the job exists. Every round also changes the jobs that are there. A query joins the events with the jobs. It is
restarted four times, and stands still for longer than PostgreSQL keeps the snapshot of the table. Every event must be
joined with its job as the job was in the round of the event, and with nothing when it did not exist.

    python -m bench.spark.join                    some minutes
    python -m bench.spark.join --jobs 1000 --pause 0
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import psycopg
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from bench.processes import conditions
from bench.spark.setting import Server, serving
from bench.streams import Report
from penstock.spark.running.session import session

ROUNDS = 20
EVENTS = 3
RESTARTS = (4, 8, 12, 16)
PAUSES = (6, 14)

_ENQUEUE = """
insert into penstock.jobs (
  queue_id, id, tenant_id, place, due_at, run_at, created_at, updated_at, priority, max_retries, attempts, state,
  payload
)
select q.id, n, 1, 0, now(), now(), now(), now(), 0, 3, 0, 0, '{}'
from penstock.job_queues as q, unnest(%s::bigint[]) as n
"""


def started(spark: SparkSession, server: Server, folder: Path) -> StreamingQuery:
    number = f.split("value", " ")
    events = (
        spark.readStream.format("penstock")
        .options(url=server.url, subscribe="orders", consumer="join", startingOffsets="earliest")
        .load().select(number[0].cast("bigint").alias("wanted"), number[1].cast("int").alias("round"))
    )  # fmt: skip
    jobs = spark.read.format("penstock").options(url=server.url, table="jobs", columns="id,attempts").load()
    joined = events.join(jobs, events["wanted"] == jobs["id"], "left").select("wanted", "round", "id", "attempts")
    return (
        joined.writeStream.format("penstock_lake").option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "joined"))
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pause", type=float, default=130.0, help="seconds without events, twice")
    given = parser.parse_args()
    report = Report()
    print(f"conditions: {conditions()}", flush=True)
    chance = random.Random(21)
    written = {number: chance.randrange(ROUNDS) for number in range(1, given.jobs + 1)}
    sent = [(number, chance.randrange(ROUNDS)) for number in written for _ in range(EVENTS)]
    chance.shuffle(sent)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as made:
        folder = Path(made)
        with serving(folder / "data") as server, psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("select pgque.create_queue('orders')")
            connection.execute(
                "insert into penstock.job_queues (tenant_id, name, created_at) values (1, 'jobs', now())"
            )
            spark = session("join", settings={"spark.log.level": "ERROR"})
            query = started(spark, server, folder)
            for number in range(ROUNDS):
                new = [job for job, at in written.items() if at == number]
                connection.execute(_ENQUEUE, [new])
                connection.execute("update penstock.jobs set attempts = %s", [number])
                events = [f"{job} {at}" for job, at in sent if at == number]
                connection.execute("select pgque.send_batch('orders', 'made', %s::text[])", [events])
                connection.execute("select pgque.tick_now('orders')")
                query.processAllAvailable()
                if number in RESTARTS:
                    query.stop()
                    query = started(spark, server, folder)
                if number in PAUSES:
                    time.sleep(given.pause)
            query.stop()
            rows = spark.read.format("penstock_lake").load(str(folder / "joined")).collect()
            spark.stop()
    found = sorted(tuple(row) for row in rows if row["id"] is not None)
    missing = sorted(tuple(row)[:2] for row in rows if row["id"] is None)
    report.fact(
        f"{len(rows):,} of {len(sent):,} events of {given.jobs:,} jobs arrived once, {len(RESTARTS)} restarts,"
        f" two pauses of {given.pause:.0f} s: {len(found):,} joined with the job as of their round,"
        f" {len(missing):,} with nothing, before the job was written",
        found == sorted((job, at, job, at) for job, at in sent if written[job] <= at)
        and missing == sorted((job, at) for job, at in sent if written[job] > at),
    )
    sys.exit(0 if report.kept else 1)


if __name__ == "__main__":
    main()
