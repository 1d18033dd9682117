"""Reading a range of ticks in Spark's tasks: the same for a read and for a micro-batch of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.spark.columns import Column, arrow_schema, fitted
from penstock.spark.database import Database
from penstock.spark.events import Piece, Range
from penstock.spark.worker import spare_imports


@dataclass
class RangePartition(InputPartition):
    """What one task reads."""

    events: Range
    pieces: tuple[Piece, ...]
    types: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    def read(self, database: Database, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        schema, constants = arrow_schema(columns), self.events.constants
        slices = (part for piece in self.pieces for part in piece.slices())
        queries = (self.events.query(columns, part, self.types, self.conditions) for part in slices)
        for batch in database.slices(queries):
            yield fitted(batch, columns, schema, constants)
