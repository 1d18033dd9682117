"""Through Spark Connect the driver is elsewhere: the client has no Java, and sends plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.spark.processes import scenario
from tests.spark.processes.connect_server import ConnectServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    server = ConnectServer(tmp_path / "connect.log")
    try:
        yield server.address
    finally:
        server.stop()


def test_the_same_code_runs_through_spark_connect(
    address: str, dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    scenario.prepare(database)

    found = scenario.play(dsn, tmp_path, address)

    assert found == scenario.EXPECTED | {"executors": 1}
