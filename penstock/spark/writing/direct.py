"""Writes events directly into tables of their stream, by one binary COPY per task.

Many events become a load: a separate table whose index is built at the end, and which becomes an event table when it is
published. With `exactlyOnce=false` each task publishes its own load, otherwise the driver publishes all at once. Few
events go into the stream's current table with `exactlyOnce=false`, and are staged otherwise.

A task that publishes by itself does not write exactly once: Spark may repeat a task whose transaction was committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from penstock.queries import parse
from penstock.spark.connection import Connection
from penstock.spark.database import Database

LOAD_ROWS = 100_000
LOAD_BYTES = 67_108_864
"""Minimum size of a load, in rows or bytes: many small tables would bloat the catalog."""

SQL = parse((Path(__file__).parent / "writing.sql").read_text("utf-8"))

_COLUMNS = {"type": "ev_type", "value": "ev_data", "headers": "ev_extra1", "key": "ev_extra4"}


def many(batches: Iterator[pa.RecordBatch]) -> tuple[bool, Iterator[pa.RecordBatch]]:
    """Whether there are enough rows for a load, and an iterator over all of them."""
    seen: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        seen.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= LOAD_ROWS or size >= LOAD_BYTES:
            return True, chain(seen, batches)
    return False, iter(seen)


def append(database: Database, stream: str, names: list[str], batches: Iterator[pa.RecordBatch]) -> int:
    """Write to the current table; returns the number of rows."""
    events = _Events(names)
    if (reader := events.reader(batches)) is not None:
        with database.transaction() as connection:
            [[table]] = connection.rows(SQL["current_table"], stream)
            _copy(connection, table, reader)
    return events.rows


def load(database: Database, stream: str, names: list[str], batches: Iterator[pa.RecordBatch], *, publish: bool) -> int:
    """Write to a separate table; returns the number of the load."""
    reader = _Events(names).reader(batches)
    with database.transaction() as connection:
        [[load_id, table]] = connection.rows(SQL["open_load"], stream)
        if reader is not None:
            _copy(connection, table, reader)
        connection.rows(SQL["close_load"], load_id)
        if publish:
            connection.rows(SQL["publish_load"], stream, load_id)
    return int(load_id)


def _copy(connection: Connection, table: str, reader: pa.RecordBatchReader) -> None:
    schema, _, name = table.partition(".")
    connection.append(schema, name, reader)


class _Events:
    """Converts batches to the columns of an event table. Id, time and transaction are filled by defaults."""

    def __init__(self, names: list[str]) -> None:
        self._names = [name for name in names if name in _COLUMNS]
        self.rows = 0

    def reader(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader | None:
        """None when there are no rows."""
        found = self._of(batches)
        if (first := next(found, None)) is None:
            return None
        return pa.RecordBatchReader.from_batches(first.schema, chain([first], found))

    def _of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        text = pa.string()
        for batch in batches:
            if batch.num_rows == 0:
                continue
            self.rows += batch.num_rows
            arrays = {_COLUMNS[name]: batch.column(name).cast(text) for name in self._names}
            kind = arrays.get("ev_type")
            arrays["ev_type"] = (
                pa.repeat(pa.scalar("default", text), batch.num_rows) if kind is None else kind.fill_null("default")
            )
            yield pa.RecordBatch.from_pydict(arrays)
