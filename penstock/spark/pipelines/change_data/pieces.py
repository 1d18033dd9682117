"""The data source of the first copy: rows of a table as text, read by many tasks within one exported snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructType

from penstock.queries import parse
from penstock.spark.connection import Connection
from penstock.spark.database import Database
from penstock.spark.reading.columns import ARROW

SQL = parse((Path(__file__).parent / "change_data.sql").read_text("utf-8"))


class TextDatabase(Database):
    """A database whose values have the same text in every session."""

    def connect(self) -> Connection:
        connection = super().connect()
        connection.rows(SQL["text_settings"])
        connection.commit()
        return connection


@dataclass
class Piece(InputPartition):
    query: str


class PiecesSource(DataSource):
    """Options: `url`, `snapshot`, and `queries`, a JSON array of statements, one per task."""

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
