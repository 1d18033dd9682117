"""On a cluster of several processes nothing may lean on the driver's memory, nor on one process for all tasks."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import polars
import psycopg
import pyspark
import pytest

from penstock.spark.running.java import from_wheel
from tests.spark import quick_java
from tests.spark.processes import scenario
from tests.spark.processes.connect_server import program, spark_environment
from tests.system.serving import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def work() -> Iterator[Path]:
    """Where the workers of such a cluster keep the folders of their executors: beside Spark's programs."""
    folder = Path(pyspark.__file__).parent / "work"
    shutil.rmtree(folder, ignore_errors=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_the_same_code_runs_on_a_cluster(dsn: str, database: psycopg.Connection, tmp_path: Path, work: Path) -> None:
    scenario.prepare(database)

    found = scenario.play(dsn, tmp_path, "local-cluster[2,1,1024]")

    assert found == scenario.EXPECTED | {"executors": 2}


def test_a_submitted_program_runs_on_the_cluster_it_was_submitted_to_with_the_java_of_the_wheel(
    dsn: str, database: psycopg.Connection, tmp_path: Path, work: Path
) -> None:
    scenario.prepare(database)
    command = [program("spark-submit"), "--master", "local-cluster[1,1,1024]", "--conf", "spark.driver.host=127.0.0.1"]
    command += [str(ROOT / "examples" / "spark_archive.py"), str(tmp_path / "lake"), "orders"]
    java = {"JAVA_HOME": str(from_wheel()), "JDK_JAVA_OPTIONS": " ".join(quick_java.FLAGS)}
    environment = {**spark_environment(), **java, "DATABASE_URL": dsn}

    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=560)

    assert done.returncode == 0, done.stderr[-4000:]
    assert polars.read_delta(str(tmp_path / "lake" / "events"))["value"].n_unique() == 1000
    executors = [path for path in work.glob("app-*/*") if path.is_dir()]
    assert len(executors) == 1
