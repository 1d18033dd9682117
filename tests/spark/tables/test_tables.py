"""The pipeline `tables`: each good row once and typed, each bad row once in the quarantine, across repeated batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars
import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.archive import Archive
from penstock.spark.pipelines.run import run_pipeline
from penstock.spark.pipelines.tables import Tables
from tests.spark import streams

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DECLARED = """
others = "tables"

[types.customer]
table = "customers"
schema = "id bigint not null, name string"
key = ["id"]
evolve = true
"""


class Lake:
    def __init__(self, spark: SparkSession, dsn: str, folder: Path) -> None:
        self._spark, self._dsn, self._folder = spark, dsn, folder
        (folder / "tables.toml").write_text(DECLARED)

    def run(self, *streams: str) -> None:
        pipeline = Tables(streams=streams, file=str(self._folder / "tables.toml"))
        run_pipeline(pipeline, spark=self._spark, url=self._dsn, lake=str(self._folder))

    def archive(self) -> None:
        run_pipeline(Archive(streams=("orders",)), spark=self._spark, url=self._dsn, lake=str(self._folder))

    def forget_last_commit(self) -> None:
        """As after a kill between the commits of the tables and that of Spark."""
        [commits] = (self._folder / "_checkpoints" / "tables").glob("*/commits")
        newest = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        newest.unlink()
        (commits / f".{newest.name}.crc").unlink(missing_ok=True)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(polars.read_delta(str(self._folder / "tables" / table)).select(columns).rows(), key=str)


@pytest.fixture
def lake(spark: SparkSession, dsn: str, tmp_path: Path) -> Lake:
    return Lake(spark, dsn, tmp_path)


def send(database: psycopg.Connection, kind: str, *payloads: object) -> None:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in payloads]
    streams.send(database, "orders", texts, kind)


def test_types_become_tables_that_grow_and_bad_rows_are_set_aside(lake: Lake, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    send(database, "made", {"id": 1, "total": 5}, {"id": 2, "total": 7}, {"id": "bad"}, "nonsense")
    send(database, "customer", {"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}, {"name": "no key"})
    lake.run("orders")
    send(database, "made", {"id": 3, "total": 1.5, "of": {"a": 1}}, {"id": None, "total": "x"})
    send(database, "customer", {"id": 1, "name": "Eve", "age": 40}, {"id": 1, "name": "Eva"}, {"id": 3, "name": "Cy"})
    send(database, "", {"x": 1})
    lake.run("orders")
    lake.forget_last_commit()
    lake.run("orders")

    assert lake.rows("made", "id", "total", "of") == [(1, 5.0, None), (2, 7.0, None), (3, 1.5, '{"a": 1}')]
    assert lake.rows("customers", "id", "name", "age") == [(1, "Eva", None), (2, "Bob", None), (3, "Cy", None)]
    assert lake.rows("~", "x") == [(1,)]
    assert set(lake.rows("_quarantine", "type", "value")) == {
        ("customer", '{"name": "no key"}'), ("made", '{"id": "bad"}'), ("made", '{"id": null, "total": "x"}'),
        ("made", "nonsense"),
    }  # fmt: skip
    assert len(lake.rows("_quarantine", "reason")) == 4


def test_tables_are_made_of_the_archive_too(lake: Lake, database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    for number in (1, 2):
        send(database, "made", {"id": number}, "bad")
        lake.archive()
        lake.run()

    assert lake.rows("made", "id", "_stream") == [(1, "orders"), (2, "orders")]
    assert len(lake.rows("_quarantine", "reason")) == 2
