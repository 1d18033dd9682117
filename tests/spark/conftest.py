"""One Spark session for all these tests: it takes ten seconds to start.

Tests that run whole pipelines or streaming queries on it are slow ones, and those of object stores. The others of the
data sources and of the lake, and those of parts that need no Spark, belong to every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark.running.session import session
from tests import cluster
from tests.spark import quick_java

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a handful of rows, compiling a plan takes longer than interpreting it. Tests with their own Spark compile."""


HERE = Path(__file__).parent
WHOLE_PIPELINES = ("change_data", "importing", "insights", "pipelines", "tables")
STREAMING = ("lake/test_object_store.py", "lake/test_older_lakes.py", "lake/test_stream.py", "reading/test_stream.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {HERE / name for name in (*WHOLE_PIPELINES, *STREAMING)}
    for item in items:
        if slow & {item.path, item.path.parent} and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def scratch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Temporary files of Spark are in pytest's folder, which also removes those of killed processes."""
    folder = tmp_path_factory.mktemp("spark")
    slow = any(item.get_closest_marker("slow") for item in request.session.items)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_HOME", str(quick_java.home(folder, archiving=slow)))
        environment.setenv("SPARK_LOCAL_DIRS", str(folder))
        yield


@pytest.fixture(scope="session")
def spark(scratch: None) -> Iterator[SparkSession]:
    made = session("tests", master="local[2]", settings=SMALL)
    yield made
    made.stop()


@pytest.fixture
def dsn(postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as found:
        yield found


@pytest.fixture
def database(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection
