"""The example of Spark Declarative Pipelines runs as its page says, and a second run takes only what is new."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import polars
import psycopg
import pytest

from tests.spark import streams
from tests.spark.processes.connect_server import program, spark_environment
from tests.system.serving import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

EXAMPLE = ROOT / "examples" / "declarative"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, with its checkpoints in the folder of this test."""
    folder = tmp_path / "declarative"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    lines = spec.read_text().splitlines()
    spec.write_text("\n".join(f"storage: file://{tmp_path}/storage" if "storage:" in x else x for x in lines))
    return folder


def run(project: Path, dsn: str) -> None:
    command = [program("spark-pipelines"), "--conf", "spark.sql.catalogImplementation=hive", "run"]
    environment = {**spark_environment(), "DATABASE_URL": dsn}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def send(connection: psycopg.Connection, amounts: list[int]) -> None:
    streams.send(connection, "orders", [json.dumps({"amount": amount}) for amount in amounts], "order.created")


def rows(project: Path, table: str) -> polars.DataFrame:
    return polars.read_parquet(project / "spark-warehouse" / table / "*.parquet")


def letters(connection: psycopg.Connection) -> list[int]:
    found = connection.execute("select body from penstock.messages")
    return sorted(json.loads(row[0])["amount"] for row in found)


def test_a_declared_pipeline_takes_each_event_once_over_its_runs(
    project: Path, dsn: str, database: psycopg.Connection
) -> None:
    streams.make(database, "orders")
    database.execute("select penstock.create_queue('large-orders')")

    send(database, [10, 100])
    run(project, dsn)
    assert sorted(rows(project, "orders")["amount"]) == [10, 100]
    assert letters(database) == [100]

    send(database, [20, 200])
    run(project, dsn)
    assert sorted(rows(project, "orders")["amount"]) == [10, 20, 100, 200]
    assert rows(project, "orders_by_hour").select("orders", "amount").sum().row(0) == (4, 330.0)
    assert letters(database) == [100, 200]
