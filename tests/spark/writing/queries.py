"""Writes as Spark's tasks and driver make them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import psycopg
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from penstock.spark.options import write_options
from penstock.spark.reading.columns import ARROW
from penstock.spark.writing.writer import COLUMNS, BatchWriter, Staged

VALUE = StructType([StructField("value", StringType())])


def rows(*values: str, **columns: list[str | None]) -> Iterator[pa.RecordBatch]:
    """An empty batch and then some of two rows, as Spark's tasks may get them."""
    everything = pa.table({"value": pa.array(values, pa.string()), **columns})
    yield everything.to_batches()[0].slice(0, 0)
    yield from everything.to_batches(max_chunksize=2)


def write(dsn: str, columns: Mapping[str, Sequence[object]], **options: str) -> None:
    """Rows in one task, and the commit."""
    schema = StructType([StructField(name, COLUMNS[name]) for name in columns])
    arrays = {name: pa.array(values, ARROW[type(COLUMNS[name])]) for name, values in columns.items()}
    writer = BatchWriter(write_options({"url": dsn, **options}), schema)
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(arrays)]))])


class Write:
    """A write to the stream `orders` in its parts."""

    def __init__(self, dsn: str, **given: str) -> None:
        self._writer = BatchWriter(write_options({"url": dsn, "name": "orders", **given}), VALUE)

    def stage(self, *values: str) -> Staged:
        message = self._writer.write(rows(*values))
        assert isinstance(message, Staged)
        return message

    def commit(self, *messages: Staged) -> None:
        self._writer.commit(list(messages))

    def abort(self, *messages: Staged) -> None:
        self._writer.abort(list(messages))


def read_on(connection: psycopg.Connection) -> list[str]:
    """What the consumer finds up to a tick made now."""
    for statement in ("force_next_tick", "ticker"):
        connection.execute(f"select pgque.{statement}('orders')".encode())
    found: list[str] = []
    while (batch := connection.execute("select pgque.next_batch('orders', 'reader')").fetchone()) != (None,):
        assert batch is not None
        found += [row[0] for row in connection.execute("select ev_data from pgque.get_batch_events(%s)", batch)]
        connection.execute("select pgque.finish_batch(%s)", batch)
    return found
