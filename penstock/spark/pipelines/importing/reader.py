"""Reads rows of a foreign queue in parallel, by position, in a snapshot that the driver holds open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.connection import Connection
from penstock.spark.database import SQL as DATABASE_SQL
from penstock.spark.database import Database
from penstock.spark.reading.columns import Column, arrow_schema, select_list, struct, to_schema
from penstock.spark.reading.tables import INT, LONG, MOMENT, TEXT

FORMAT = "penstock_import"

COLUMNS = [
    Column("position", LONG, "s.position"),
    Column("id", TEXT, "s.id"),
    Column("value", TEXT, "s.value"),
    Column("task", TEXT, "s.task"),
    Column("key", TEXT, "s.key"),
    Column("headers", TEXT, "s.headers"),
    Column("deliver_at", MOMENT, "case when isfinite(s.deliver_at) then s.deliver_at end"),
    Column("priority", INT, "s.priority"),
    Column("state", TEXT, "case when s.deliver_at = 'infinity' then 'delayed for ever' else s.state end"),
]


@dataclass
class Piece(InputPartition):
    after: int
    until: int


class ForeignSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return struct(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return ForeignReader(dict(self.options))


class ForeignReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def partitions(self) -> list[InputPartition]:
        bounds = json.loads(self._options["bounds"])
        return [Piece(after, until) for after, until in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        query = (
            f"select {select_list(COLUMNS)} from ({self._options['query']}) as s"  # noqa: S608
            f" where s.position > {int(partition.after)} and s.position <= {int(partition.until)}"
            f" {self._options['wanted']} order by s.position"
        )
        schema = arrow_schema(COLUMNS)
        for batch in Database(self._options["url"]).batches(query, self._options["snapshot"]):
            yield to_schema(batch, COLUMNS, schema)


def register(spark: SparkSession) -> None:
    spark.dataSource.register(ForeignSource)


def read(spark: SparkSession, *, url: str, snapshot: str, query: str, wanted: str, bounds: list[int]) -> DataFrame:
    options = {"url": url, "snapshot": snapshot, "query": query, "wanted": wanted, "bounds": json.dumps(bounds)}
    return spark.read.format(FORMAT).options(**options).load()


class SourceSnapshot:
    """A snapshot of the source that tasks import, and queries within it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.rows(DATABASE_SQL["begin_snapshot"])
        self.snapshot = str(self.rows(DATABASE_SQL["export_snapshot"])[0][0])

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.rows(query)


@contextmanager
def source_snapshot(database: Database) -> Iterator[SourceSnapshot]:
    """One snapshot for the whole import. Later rows are left to the next import."""
    connection = database.connect_without_timeouts()
    try:
        yield SourceSnapshot(connection)
    finally:
        connection.close()
