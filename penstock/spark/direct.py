"""Writing events straight into the stream's table: each task in a transaction of its own, by one binary COPY.

For those who ask for it with `exactlyOnce=false`. It costs half of a staged write, and promises less: a task that Spark
runs again, though its transaction had been committed, writes its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from penstock.spark.database import Database
from penstock.spark.options import WriteOptions

# The rules of every insert are checked here. It also gives the transaction its id before the table is looked up, and
# the table is in use from then on: a rotation counts on both.
_TABLE = "select pgque.current_event_table($1)"

_COLUMNS = {"type": "ev_type", "value": "ev_data", "headers": "ev_extra1", "key": "ev_extra4"}


def applies(options: WriteOptions) -> bool:
    """A version to remember needs the ledger; rows of several streams, and queues and jobs, their functions."""
    return (
        not options.exactly_once and options.target == "stream" and options.name is not None and options.app_id is None
    )


def write(database: Database, options: WriteOptions, names: list[str], batches: Iterator[pa.RecordBatch]) -> int:
    """How many rows were written."""
    events = _Events(names)
    found = events.of(batches)
    if (first := next(found, None)) is None:
        return 0
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], found))
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(_TABLE, [options.name])
        row = cursor.fetchone()
        assert row is not None
        schema, _, table = row[0].partition(".")
        cursor.adbc_ingest(table, reader, mode="append", db_schema_name=schema)
    return events.rows


class _Events:
    """Batches with the columns of an event table. The others have defaults: the id, the time, the transaction."""

    def __init__(self, names: list[str]) -> None:
        self._names = [name for name in names if name in _COLUMNS]
        self.rows = 0

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
