"""Once each, in the lake and in a queue, however often PostgreSQL and Spark's driver are killed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import polars
import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark import lake
from penstock.store.postgres.migrate import migrate
from tests.spark.processes import archiver, producers
from tests.spark.processes.killing import MortalDriver, MortalPostgres, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PRODUCERS = 4
DEATHS = ["driver"] * 2 + ["server"] * 4 + ["backend"] * 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MortalPostgres]:
    found = MortalPostgres(tmp_path / "postgres")
    asyncio.run(migrate(found.dsn))
    yield found
    found.stop()


class Progress:
    """How far a query has come, by its checkpoint: a batch is under way from its offset to its commit."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint

    def begun(self) -> int:
        return self._newest("offsets")

    def done(self) -> int:
        return self._newest("commits")

    def under_way(self) -> bool:
        return self.begun() > self.done()

    def _newest(self, log: str) -> int:
        folder = self._checkpoint / log
        if not folder.is_dir():
            return -1
        return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=-1)


class Executioner:
    """Chooses moments by what the queries do: so many batches later, and then some way into a batch."""

    def __init__(self, server: MortalPostgres, driver: MortalDriver, folder: Path, seed: int) -> None:
        self._server = server
        self._driver = driver
        self._lake = Progress(folder / "lake.checkpoint")
        self._queue = Progress(folder / "queue.checkpoint")
        self._dice = random.Random(seed)
        self.in_a_batch = 0

    def wait_for_batches(self) -> None:
        """Both queries get on, so that each death meets a living system."""
        lake_goal, queue_goal = self._lake.done() + self._dice.randint(1, 3), self._queue.done() + 1
        wait_until(
            lambda: self._alive() and self._lake.done() >= lake_goal and self._queue.done() >= queue_goal,
            lambda: f"no progress:\n{self._driver.said()}",
        )

    def kill(self, victim: str) -> None:
        progress = self._dice.choice([self._lake, self._queue])
        wait_until(progress.under_way, lambda: "no batch begins")
        pause = self._dice.choice([0.0, 0.1, 0.2, 0.4])
        if pause:
            time.sleep(pause)
        self.in_a_batch += self._lake.under_way() or self._queue.under_way()
        if victim == "driver":
            self._driver.kill()
            self._driver.start()
        elif victim == "server":
            self._server.kill()
        else:
            self._server.kill_backend()

    def kill_between_publish_and_commit(self) -> bool:
        """At the moment that only the ledger can tell: the queue has the batch, Spark does not know it yet."""
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:

            def published() -> bool:
                row = connection.execute("select max(batch) from penstock.spark_ledger").fetchone()
                return row is not None and row[0] is not None and row[0] > self._queue.done()

            wait_until(published, lambda: "nothing is published")
            self._driver.kill()
            return published()

    def _alive(self) -> bool:
        self._driver.check()
        return True


def drain(spark: SparkSession, dsn: str, folder: Path) -> None:
    """What is left, in a driver that nobody kills, from the same checkpoints."""
    for sink in archiver.SINKS:
        archiver.start(spark, dsn, folder, sink, availableNow=True).awaitTermination()


def test_every_committed_event_arrives_once_however_often_driver_and_database_are_killed(
    spark: SparkSession, server: MortalPostgres, tmp_path: Path
) -> None:
    book = producers.Book()
    producers.prepare(server.dsn, archiver.CONSUMERS)
    with psycopg.connect(server.dsn) as connection:
        connection.execute("select penstock.create_queue('letters')")
    stop_producing = producers.producing(server.dsn, book, PRODUCERS)
    driver = MortalDriver(server.dsn, tmp_path)
    executioner = Executioner(server, driver, tmp_path, seed=5)
    deaths = DEATHS.copy()
    random.Random(5).shuffle(deaths)
    try:
        for victim in deaths:
            executioner.wait_for_batches()
            executioner.kill(victim)
        executioner.wait_for_batches()
        while not executioner.kill_between_publish_and_commit():
            driver.start()
            executioner.wait_for_batches()
    finally:
        driver.kill()
        stop_producing()
    drain(spark, server.dsn, tmp_path)

    committed = producers.sent(server.dsn)
    assert book.confirmed <= committed
    assert not book.withdrawn & committed
    assert executioner.in_a_batch >= len(DEATHS) // 2
    by_spark = [row["value"] for row in lake.read(spark, str(tmp_path / "lake")).select("value").collect()]
    by_polars = polars.scan_delta(str(tmp_path / "lake")).select("value").collect()["value"].to_list()
    for found in (by_spark, by_polars):
        assert len(found) == len(set(found))
        assert set(found) == committed
    check_queue(server.dsn)


def check_queue(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        bodies = [row[0] for row in connection.execute("select body from penstock.messages")]
    assert len(bodies) == len(set(bodies))
    assert set(bodies) == producers.sent(dsn, producers.STREAMS[0])
