"""How long does an event take from its sender into the hands of a Spark stream?

Events carry the moment they were sent, before their transaction was committed. A tick is made every tenth of a second,
and Spark begins a micro-batch as soon as the last one is over. An event has arrived when the batch's function has it.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg
from pyspark.sql import DataFrame, SparkSession

from bench.spark.setting import Server

PER_SECOND = 500
PER_SEND = 5
TICK_S = 0.1


def latencies(spark: SparkSession, server: Server, folder: Path, warm_s: float, seconds: float) -> list[float]:
    """Seconds of each event, sorted; those of the first moments are left out."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("select pgque.create_queue('live')")
    arrived: list[tuple[float, float]] = []

    def take(frame: DataFrame, _: int) -> None:
        moments = frame.select("value").toArrow().column(0).to_pylist()
        now = time.time()
        arrived.extend((float(moment), now) for moment in moments)

    stream = spark.readStream.format("penstock").options(url=server.url, subscribe="live", startingOffsets="earliest")
    query = (
        stream.load().writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint")).start()
    )  # fmt: skip
    stop = threading.Event()
    threads = [threading.Thread(target=each, args=(server, stop)) for each in (_send, _tick)]
    for thread in threads:
        thread.start()
    began = time.time()
    try:
        query.awaitTermination(int(warm_s + seconds))
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
        # Stopped in the middle of a batch, its function would fail with a great noise.
        query.processAllAvailable()
        query.stop()
    return sorted(got - sent for sent, got in arrived if sent > began + warm_s)


def _send(server: Server, stop: threading.Event) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        due = time.monotonic()
        while not stop.is_set():
            moments = [repr(time.time())] * PER_SEND
            connection.execute("select pgque.send_batch('live', 'moment', %s::text[])", [moments])
            due += PER_SEND / PER_SECOND
            stop.wait(max(due - time.monotonic(), 0))


def _tick(server: Server, stop: threading.Event) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        while not stop.wait(TICK_S):
            connection.execute("select pgque.tick_if_waiting('live')")
