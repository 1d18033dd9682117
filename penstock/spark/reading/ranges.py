"""Reads a range of ticks in Spark's tasks, for batch reads and micro-batches alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.spark.database import FAILURES, Database, Reading
from penstock.spark.reading.columns import Column, arrow_schema, to_schema
from penstock.spark.reading.events import Piece, Range
from penstock.spark.running.worker import freeze_imports
from penstock.spark.streams import data_loss_error


@dataclass
class RangePartition(InputPartition):
    """The part of a range that one task reads."""

    events: Range
    pieces: tuple[Piece, ...]
    types: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    fail_on_data_loss: bool = True

    def read(self, database: Database, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        schema, constants = arrow_schema(columns), self.events.constants
        slices = (part for piece in self.pieces for part in piece.slices())
        with database.reading() as reading:
            try:
                for part in slices:
                    query = self.events.query(columns, part, self.types, self.conditions)
                    for batch in reading.rows(query):
                        yield to_schema(batch, columns, schema, constants)
            except FAILURES:
                # A rotated load is a missing table to PostgreSQL; this error says more.
                self._check(reading)
                raise
            self._check(reading)

    def _check(self, reading: Reading) -> None:
        """Raises when events were rotated away between two slices: rotation deletes their ticks in its transaction."""
        found = [row for batch in reading.rows(self.events.oldest_tick) for row in batch.column(0).to_pylist()]
        if self.fail_on_data_loss and (not found or found[0] > self.events.after.id):
            raise data_loss_error(self.events.stream, self.events.after.id, found[0] if found else None)
