"""Reading a range of ticks in Spark's tasks: the same for a read and for a micro-batch of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.spark.columns import Column, arrow_schema, fitted
from penstock.spark.database import FAILURES, Database, Reading
from penstock.spark.events import Piece, Range
from penstock.spark.streams import lost
from penstock.spark.worker import spare_imports


@dataclass
class RangePartition(InputPartition):
    """What one task reads."""

    events: Range
    pieces: tuple[Piece, ...]
    types: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    fail_on_data_loss: bool = True

    def read(self, database: Database, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        schema, constants = arrow_schema(columns), self.events.constants
        slices = (part for piece in self.pieces for part in piece.slices())
        with database.reading() as reading:
            try:
                for part in slices:
                    query = self.events.query(columns, part, self.types, self.conditions)
                    for batch in reading.rows(query):
                        yield fitted(batch, columns, schema, constants)
            except FAILURES:
                # The table of a load that was dropped is missing, which says less.
                self._check(reading)
                raise
            self._check(reading)

    def _check(self, reading: Reading) -> None:
        """Between two slices events may be rotated away. Their ticks go in the same transaction, the oldest first."""
        found = [row for batch in reading.rows(self.events.oldest_tick) for row in batch.column(0).to_pylist()]
        if self.fail_on_data_loss and (not found or found[0] > self.events.after.id):
            raise lost(self.events.stream, self.events.after.id, found[0] if found else None)
