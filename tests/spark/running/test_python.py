"""The Python that Spark starts imports the installed package, which is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from penstock.spark.running.python import python_program

ARCHIVE = str(Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip")


def paths(program: str, path: str) -> list[str]:
    code = "import os, sys; print(os.environ['PYTHONPATH'], sys.executable, sep='\\n')"
    done = subprocess.run([program, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_only_the_archives_of_spark_are_left_out_of_the_path() -> None:
    py4j = ARCHIVE.replace("pyspark.zip", "py4j-0.10.9.9-src.zip")
    given = ["/a folder", ARCHIVE, py4j, "/b/pyspark.zip", "/c"]

    found, executable = paths(python_program(), ":".join(given))

    assert found == "/a folder:/b/pyspark.zip:/c"
    assert Path(executable).samefile(sys.executable)


def test_another_spark_keeps_its_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert python_program() == sys.executable


@pytest.mark.skipif("PYSPARK_PYTHON" in os.environ, reason="PYSPARK_PYTHON is set")
def test_tasks_import_the_installed_package(spark: SparkSession) -> None:
    def where(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    assert spark.sparkContext.parallelize([1], 1).map(where).collect() == [pyspark.__file__]
