"""Rows of a foreign queue for Spark: pieces by position, read side by side in a snapshot that the driver keeps open."""

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

from penstock.spark.columns import Column, arrow_schema, fitted, select_list, struct
from penstock.spark.connection import Connection
from penstock.spark.database import Database
from penstock.spark.tables import INT, LONG, MOMENT, TEXT

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
            yield fitted(batch, COLUMNS, schema)


def register(spark: SparkSession) -> None:
    spark.dataSource.register(ForeignSource)


def read(spark: SparkSession, *, url: str, snapshot: str, query: str, wanted: str, bounds: list[int]) -> DataFrame:
    options = {"url": url, "snapshot": snapshot, "query": query, "wanted": wanted, "bounds": json.dumps(bounds)}
    return spark.read.format(FORMAT).options(**options).load()


class Moment:
    """A moment of the source: the snapshot that tasks import, and questions answered within it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.rows("set transaction isolation level repeatable read, read only")
        self.snapshot = str(self.rows("select pg_export_snapshot()")[0][0])

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.rows(query)


@contextmanager
def kept(database: Database) -> Iterator[Moment]:
    """One moment for the whole import, however long it takes: what comes later is left to the next import."""
    connection = database.connect_for_long()
    try:
        yield Moment(connection)
    finally:
        connection.close()
