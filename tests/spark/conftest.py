"""One Spark for all these tests: it takes ten seconds to start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark.session import session
from penstock.store.postgres.migrate import migrate
from tests import cluster


@pytest.fixture(scope="session", autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What Sparks leave behind when they are killed lies with what other tests leave, and goes with it.

    They live too short for thorough compiling: without it a run of a pipeline takes half of Java's processor time.
    """
    folder = tmp_path_factory.mktemp("spark")
    java = f"-Djava.io.tmpdir={folder} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.local.dir": folder,
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_CONF_DIR", str(folder))
        yield


@pytest.fixture(scope="session")
def spark(scratch: None) -> Iterator[SparkSession]:
    made = session("tests", master="local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    yield made
    made.stop()


@pytest.fixture
def dsn(postgres_dsn: str) -> Iterator[str]:
    with cluster.empty_database(postgres_dsn) as found:
        asyncio.run(migrate(found))
        yield found


@pytest.fixture
def database(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection
