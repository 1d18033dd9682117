"""A session that is not made by this package, in a program that runs outside of an activated environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.spark import streams
from tests.system.serving import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = """
import pyspark_penstock
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.read.format("penstock").options(url="env:DATABASE_URL", subscribe="orders").load().count())
"""


def test_a_plain_session_reads_a_stream_though_its_path_has_another_python(
    dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["a", "b"])
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    variables = {**environment(), "DATABASE_URL": dsn, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    variables.pop("PYSPARK_PYTHON", None)

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, timeout=200, check=False
    )

    assert done.stdout == "2\n", done.stderr
