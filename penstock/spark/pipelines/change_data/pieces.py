"""Rows of a table as texts, read by many tasks within one exported snapshot: a data source of the first copy alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructType

from penstock.spark.columns import ARROW
from penstock.spark.connection import Connection
from penstock.spark.database import Database

# Values are written as the change trigger writes them.
_SETTINGS = (
    "set datestyle = 'ISO, YMD'", "set intervalstyle = 'postgres'", "set bytea_output = 'hex'",
    "set extra_float_digits = 1", "set timezone = 'UTC'", "set search_path = pg_catalog, pg_temp",
)  # fmt: skip


class TextDatabase(Database):
    """A database whose values have the same text whoever asks."""

    def connect(self) -> Connection:
        connection = super().connect()
        for setting in _SETTINGS:
            connection.rows(setting)
        connection.commit()
        return connection


@dataclass
class Piece(InputPartition):
    query: str


class PiecesSource(DataSource):
    """The options `url` and `snapshot`, and `queries`: a JSON array of statements, one for each task."""

    @classmethod
    def name(cls) -> str:
        return "penstock_pieces"

    def reader(self, schema: StructType) -> DataSourceReader:
        return PiecesReader(self.options["url"], self.options["snapshot"], json.loads(self.options["queries"]), schema)


class PiecesReader(DataSourceReader):
    def __init__(self, url: str, snapshot: str, queries: list[str], schema: StructType) -> None:
        self._database = TextDatabase(url)
        self._snapshot = snapshot
        self._queries = queries
        self._schema = pa.schema([pa.field(name, ARROW[StringType]) for name in schema.names])

    def partitions(self) -> list[InputPartition]:
        return [Piece(query) for query in self._queries]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        for rows in self._database.batches(partition.query, self._snapshot):
            yield rows.cast(self._schema)
