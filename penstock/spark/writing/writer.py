"""Writing: tasks stage their rows by binary COPY, and the driver publishes them in one transaction with a ledger.

A task with many events for one stream stages them as a load, which is not copied again.

A micro-batch that Spark repeats for the same target finds its number in the ledger and writes nothing. Rows staged by
an attempt that was killed belong to no commit, and are deleted later. A task that loses its database connection fails,
and Spark repeats it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as compute
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import IntegerType, StringType, StructType, TimestampType
from pyspark.taskcontext import TaskContext

from penstock.queries import parse
from penstock.spark.database import FAILURES, Database
from penstock.spark.options import OptionError, WriteOptions
from penstock.spark.reading.columns import ARROW
from penstock.spark.running.worker import freeze_imports
from penstock.spark.tenants import stream_prefix
from penstock.spark.writing import direct

COLUMNS = {
    "name": StringType(),
    "type": StringType(),
    "key": StringType(),
    "value": StringType(),
    "headers": StringType(),
    "deliver_at": TimestampType(),
    "priority": IntegerType(),
    "dedup_id": StringType(),
}
"""Columns that can be written. `value` is required, and `name` unless the option gives it."""

TAKEN = {
    "stream": ("name", "type", "key", "value", "headers"),
    "queue": ("name", "key", "value", "headers", "deliver_at", "priority", "dedup_id"),
    "jobs": ("name", "value", "deliver_at", "priority", "dedup_id"),
}
"""Columns that each target accepts."""

PROBLEM = "problem"
ZERO_BYTE = "a text has a zero byte, which PostgreSQL cannot store"

SETTLE_S = 86_400
"""Rows staged for longer than this, in seconds, belong to no write any more."""

SQL = parse((Path(__file__).parent / "writing.sql").read_text("utf-8"))


@dataclass
class Staged(WriterCommitMessage):
    """What a task has staged: rows under its attempt number, or a load; nothing when it wrote directly."""

    attempt: int | None = None
    rows: int = 0
    load: int | None = None
    query: str | None = None
    """Only tasks know the id of their query: the writer that commits is a new object."""


class _Staging:
    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._names = check(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        freeze_imports()
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        database = Database(self._options.url)
        stream = self._options.one_stream
        if stream is not None:
            stream = stream_prefix(database, self._options.tenant) + stream
            database.close()
        at_once = stream is not None and not self._options.remembered
        aside = _SetAside() if self._options.dead_letters is not None else None
        if aside is not None:
            iterator = aside.storable(iterator)
        load: int | None = None
        if stream is not None:
            many, iterator = direct.many(iterator)
            if many:
                load = direct.load(database, stream, self._names, iterator, publish=at_once)
                if aside is None or not aside.batches:
                    return Staged(load=None if at_once else load, query=query)
                iterator = iter(())
            elif at_once:
                direct.append(database, stream, self._names, iterator)
                return Staged(query=query)
        attempt = _attempt(context.partitionId() if context is not None else 0)
        counted = _Counted(attempt, self._names)
        batches = counted.staged(iterator if aside is None else chain(iterator, aside.rejected()))
        if (first := next(batches, None)) is not None:
            reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
            with database.transaction() as connection:
                connection.append("penstock", "spark_staging", reader)
        return Staged(attempt, counted.rows, load, query)

    def _publish(self, messages: list[WriterCommitMessage | None], query: str | None, batch: int) -> None:
        attempts, loads, rows = _found(messages)
        if not attempts and not loads:
            return
        options = self._options
        database = Database(options.url)
        # Every write has an id, because the call is repeated when its answer is lost.
        database.rows(
            SQL["publish"], query or f"write {uuid4().hex}", batch, attempts, rows, loads,
            options.target, options.tenant, options.name, query is None, options.dead_letters,
        )  # fmt: skip
        # The rows are published. If this fails, a later write deletes the old rows.
        with suppress(*FAILURES):
            database.rows(SQL["collect"], float(SETTLE_S))
        database.close()

    def _discard(self, messages: list[WriterCommitMessage | None]) -> None:
        attempts, loads, _ = _found(messages)
        database = Database(self._options.url)
        if attempts:
            database.rows(SQL["discard"], attempts)
        if loads:
            database.rows(SQL["discard_loads"], loads)
        database.close()


class BatchWriter(_Staging, DataSourceArrowWriter):
    """Writes once; with `txnAppId` and `txnVersion`, once however often it is run."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._publish(messages, self._options.app_id, self._options.version or 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._discard(messages)


class StreamWriter(_Staging, DataSourceStreamArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        queries = {message.query for message in messages if isinstance(message, Staged)}
        query = next(iter(queries), None) if self._options.exactly_once else None
        self._publish(messages, self._options.app_id or query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._discard(messages)


def _found(messages: list[WriterCommitMessage | None]) -> tuple[str, str, int]:
    """Attempts and loads as comma-separated texts, and the number of rows of the attempts."""
    staged = [message for message in messages if isinstance(message, Staged)]
    attempts = ",".join(str(message.attempt) for message in staged if message.attempt is not None)
    loads = ",".join(str(message.load) for message in staged if message.load is not None)
    return attempts, loads, sum(message.rows for message in staged)


def _attempt(partition: int) -> int:
    """A unique number per attempt. Numbers are ordered by partition, so that rows keep their order."""
    return partition << 40 | secrets.randbits(40)


class _SetAside:
    """Takes rows out that PostgreSQL cannot store: those with a zero byte in a text."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []

    def storable(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            wrong = pa.array([False] * batch.num_rows, pa.bool_())
            for column in batch.columns:
                if pa.types.is_string(column.type):
                    found = compute.fill_null(compute.match_substring(column, "\0"), False)
                    wrong = compute.or_(wrong, found)
            if compute.any(wrong).as_py():
                self.batches.append(batch.filter(wrong))
                batch = batch.filter(compute.invert(wrong))
            yield batch

    def rejected(self) -> Iterator[pa.RecordBatch]:
        """The rows, with the replacement character for zero bytes, and the problem. To be called at the end."""
        for batch in self.batches:
            columns = {
                name: compute.replace_substring(column, "\0", "\ufffd") if pa.types.is_string(column.type) else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }
            yield pa.RecordBatch.from_pydict({**columns, PROBLEM: [ZERO_BYTE] * batch.num_rows})


class _Counted:
    """Converts batches to the columns of the staging table, and counts their rows."""

    def __init__(self, attempt: int, names: list[str]) -> None:
        self._attempt = attempt
        self._names = names
        self.rows = 0

    def staged(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            first, self.rows = self.rows, self.rows + batch.num_rows
            arrays = {
                "attempt": pa.repeat(pa.scalar(self._attempt, pa.int64()), batch.num_rows),
                "position": pa.array(range(first, self.rows), pa.int64()),
                **{name: batch.column(name).cast(ARROW[type(COLUMNS[name])]) for name in self._names},
                PROBLEM: _problems(batch),
            }
            yield pa.RecordBatch.from_pydict(arrays)


def _problems(batch: pa.RecordBatch) -> pa.Array:
    if PROBLEM in batch.schema.names:
        return batch.column(PROBLEM)
    return pa.nulls(batch.num_rows, pa.string())


def check(schema: StructType, options: WriteOptions) -> list[str]:
    """The columns to write; raises `OptionError` for columns that the target does not accept."""
    names = list(schema.names)
    taken = TAKEN[options.target]
    if useless := [name for name in names if name not in taken]:
        raise OptionError(
            "target", f"{options.target} cannot write the columns {', '.join(useless)}; it takes {', '.join(taken)}"
        )
    if "value" not in names:
        raise OptionError("target", "the rows have no column 'value'")
    if options.name is None and "name" not in names:
        raise OptionError("name", "missing: give this option, or a column 'name'")
    wrong = [field.name for field in schema.fields if field.dataType != COLUMNS[field.name]]
    if wrong:
        wanted = ", ".join(f"{name} {COLUMNS[name].simpleString()}" for name in wrong)
        raise OptionError("target", f"cast to {wanted} first")
    return names
