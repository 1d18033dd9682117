"""On a standalone cluster: a pipeline runs there as it does here, and outlives its worker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars
import psycopg
import pytest

from tests.spark import streams
from tests.spark.processes.connect_server import HERE
from tests.spark.processes.killing import wait_until
from tests.spark.processes.standalone import Standalone
from tests.spark.processes.test_crash import Progress
from tests.system.serving import COMMAND, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BATCHES = 3
EVENTS = 100
"""In each batch."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    made = Standalone(tmp_path_factory.mktemp("standalone"))
    yield made
    made.close()


@pytest.fixture
def orders(database: psycopg.Connection) -> list[str]:
    """Events in so many ticks that each is a batch of its own."""
    streams.make(database, "orders")
    sent = [f"order-{number}" for number in range(BATCHES * EVENTS)]
    for first in range(0, len(sent), EVENTS):
        streams.send(database, "orders", sent[first : first + EVENTS])
        streams.tick(database, "orders")
    return sorted(sent)


class Archiving:
    """The command, as a process of its own."""

    def __init__(self, master: str, dsn: str, folder: Path) -> None:
        self._log = folder / "driver.log"
        self._lake = folder / "lake"
        self._python = folder / "python"
        self._python.write_text(f'#!/bin/sh\necho "$*" >> "$0.log"\nexec {sys.executable} "$@"\n')
        self._python.chmod(0o755)
        self.progress = Progress(self._lake / "_checkpoints" / "archive" / "events-orders")
        command = [*COMMAND, "pipeline", "run", "archive", "--once", "--stream", "orders", "--master", master]
        command += ["--max-events", str(EVENTS), "--lake", str(self._lake), "--database-url", dsn, "--verbose"]
        more = {"SPARK_LOCAL_IP": HERE, "PYSPARK_PYTHON": str(self._python)}
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(command, cwd=folder, env=environment(more), stdout=output, stderr=output)

    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        assert self._process.wait(400) == 0, self.said()

    def kill(self) -> None:
        """At the end of a test, whatever became of it."""
        self._process.kill()
        self._process.wait(30)

    def ran_by_named_python(self) -> bool:
        """Whether tasks were, whatever Python the driver itself is."""
        return "pyspark.worker" in self._python.with_suffix(".log").read_text()

    def values(self) -> list[str]:
        return sorted(polars.read_delta(str(self._lake / "events"))["value"].to_list())

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


@pytest.fixture
def archiving(cluster: Standalone, dsn: str, orders: list[str], tmp_path: Path) -> Iterator[Archiving]:
    made = Archiving(cluster.address, dsn, tmp_path)
    yield made
    made.kill()


def test_a_run_goes_on_when_its_worker_is_killed_and_another_one_comes(
    cluster: Standalone, archiving: Archiving, orders: list[str]
) -> None:
    before, progress = len(cluster.finished()), archiving.progress
    wait_until(lambda: not archiving.runs() or progress.done() >= 0, archiving.said)
    cluster.freeze_worker()
    wait_until(lambda: not archiving.runs() or progress.under_way(), archiving.said)
    cluster.kill_worker()
    # What is left can be done by nobody but the new one.
    assert archiving.runs(), archiving.said()
    assert progress.done() < BATCHES - 1
    cluster.start_worker()

    archiving.end()

    assert progress.done() == BATCHES - 1
    assert archiving.values() == orders
    assert archiving.ran_by_named_python()
    cluster.wait_until(lambda: cluster.finished()[before:] == ["FINISHED"])
