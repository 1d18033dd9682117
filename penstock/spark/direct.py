"""Writing events straight into tables of their stream, by one binary COPY for each task.

Many become a load: a table of their own, whose index is built at the end, and which is an event table from the moment
it is published. That is the task's last act, or one of the driver's for all tasks at once. A few go into the stream's
current table, for those who ask for it with `exactlyOnce=false`; otherwise they are staged.

What a task publishes by itself is not exactly once: Spark may run a task again whose transaction had been committed,
and then it writes its rows again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from penstock.spark.connection import Connection
from penstock.spark.database import Database

LOAD_ROWS = 100_000
LOAD_BYTES = 67_108_864
"""So much is worth a table. Below it, tables would come and go faster than a catalog likes."""

# The rules of every insert are checked here. It also gives the transaction its id before the table is looked up, and
# the table is in use from then on: a rotation counts on both.
_TABLE = "select pgque.current_event_table($1)"

_OPEN = "select l.load_id, l.load_table from pgque.open_load($1) as l"
_CLOSE = "select pgque.close_load($1)"
_PUBLISH = "select pgque.publish_loads($1, array[$2::bigint])::text"

_COLUMNS = {"type": "ev_type", "value": "ev_data", "headers": "ev_extra1", "key": "ev_extra4"}


def many(batches: Iterator[pa.RecordBatch]) -> tuple[bool, Iterator[pa.RecordBatch]]:
    """Whether they are worth a load, and all of them again."""
    seen: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        seen.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= LOAD_ROWS or size >= LOAD_BYTES:
            return True, chain(seen, batches)
    return False, iter(seen)


def append(database: Database, stream: str, names: list[str], batches: Iterator[pa.RecordBatch]) -> int:
    """Into the current table; how many rows were written."""
    events = _Events(names)
    if (reader := events.reader(batches)) is not None:
        with database.transaction() as connection:
            [[table]] = connection.rows(_TABLE, stream)
            _copy(connection, table, reader)
    return events.rows


def load(database: Database, stream: str, names: list[str], batches: Iterator[pa.RecordBatch], *, publish: bool) -> int:
    """Into a table of their own; the number of the load."""
    reader = _Events(names).reader(batches)
    with database.transaction() as connection:
        [[load_id, table]] = connection.rows(_OPEN, stream)
        if reader is not None:
            _copy(connection, table, reader)
        connection.rows(_CLOSE, load_id)
        if publish:
            connection.rows(_PUBLISH, stream, load_id)
    return int(load_id)


def _copy(connection: Connection, table: str, reader: pa.RecordBatchReader) -> None:
    schema, _, name = table.partition(".")
    connection.append(schema, name, reader)


class _Events:
    """Batches with the columns of an event table. The others have defaults: the id, the time, the transaction."""

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
