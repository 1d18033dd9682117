"""PostgreSQL for Spark's processes: small queries that are retried after a failure, and bulk reads as Arrow batches.

An exception in a reader ends its streaming query, so every small query survives a restart of the database.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import adbc_driver_manager as adbc
import pyarrow as pa

from penstock.queries import parse
from penstock.spark.connection import Connection

SQL = parse(Path(__file__).with_suffix(".sql").read_text("utf-8"))

PATIENCE_S = 60.0
"""How long the database may be unavailable before a query fails."""
BUFFER_BYTES = 67_108_864
"""Results up to this size are buffered, so that a failed query can be repeated. Larger ones are passed on."""

FAILURES = (adbc.Error, OSError)
"""While rows arrive, Arrow reports errors of the driver as `OSError`."""

T = TypeVar("T")

_UNAVAILABLE = ("08", "57P", "53300", "55P03", "40001", "40P01")
"""Prefixes of SQLSTATEs worth a retry: connection failures, shutdowns, too many connections, lock timeouts,
serialization failures and deadlocks."""

_UNREACHED = ("connection to server", "translate host name")
_REFUSED = ("does not exist", "authentication failed", "no pg_hba.conf entry", "no password supplied")
"""A failed connection attempt has no SQLSTATE. Errors with these texts are not worth a retry."""


class SnapshotLost(RuntimeError):
    """A read within a snapshot was interrupted, and the snapshot is gone."""


def resolve(url: str) -> str:
    """The URL itself; `env:NAME` names a variable that holds it, which keeps it out of plans and logs."""
    if not url.startswith("env:"):
        return url
    name = url.removeprefix("env:")
    found = os.environ.get(name)
    if not found:
        raise ValueError(f"option url: the environment variable {name} is not set")
    return found


class Database:
    """Picklable: the connection is made on first use, in the process that uses it."""

    def __init__(self, url: str, patience_s: float = PATIENCE_S) -> None:
        self._url = url
        self._patience_s = patience_s
        self._connection: Connection | None = None
        self._by_index: Reading | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self._url, "_patience_s": self._patience_s, "_connection": None, "_by_index": None}

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a query and commit. It is retried when the connection fails, so it must be safe to repeat."""
        return self._with_connection(lambda connection: _ask(connection, query, values))

    def row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        found = self.rows(query, *values)
        return found[0] if found else None

    def value(self, query: str, *values: Any) -> Any:
        found = self.row(query, *values)
        return None if found is None else found[0]

    def flush_commits(self) -> None:
        """Wait until everything committed before is on disk, including asynchronous commits.

        After a crash PostgreSQL would assign the same tick and transaction numbers again, and those in Spark's
        checkpoint would mean something else.
        """
        self.rows(SQL["flush_commits"])

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A separate connection, committed at the end and rolled back on an error. Nothing is retried."""
        connection = self.connect()
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    def batches(self, query: str, snapshot: str | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a query by binary COPY, within an exported snapshot when one is named.

        Nothing is retried after the start: rows that were passed on cannot be taken back, and a snapshot does not
        survive a restart of the database.
        """
        connection = self.retry(self.connect)
        try:
            if snapshot is not None:
                connection.rows(SQL["begin_snapshot"])
                connection.rows(f"set transaction snapshot {literal(snapshot)}")
            yield from connection.batches(query)
        except FAILURES as error:
            if snapshot is not None and _is_unavailable(error):
                raise SnapshotLost(f"the database connection failed, and the snapshot is lost: {error}") from error
            raise
        finally:
            _close(connection)

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """A connection for queries whose results never change. A query that fails with its connection is repeated."""
        reading = Reading(self)
        try:
            yield reading
        finally:
            reading.close()

    @property
    def by_index(self) -> Reading:
        """A cached connection for small queries on event tables."""
        if self._by_index is None:
            self._by_index = Reading(self)
        return self._by_index

    def connect(self) -> Connection:
        return _connected(resolve(self._url))

    def connect_without_timeouts(self) -> Connection:
        """For a transaction that stays open while others work: the timeouts of the server do not apply to it."""
        connection = self.connect()
        connection.rows(SQL["disable_timeouts"])
        connection.commit()
        return connection

    def connect_using_indexes(self) -> Connection:
        """Autocommit, and index scans only: event tables have no statistics."""
        connection = _connected(resolve(self._url), autocommit=True)
        connection.rows(SQL["use_indexes_only"])
        return connection

    def close(self) -> None:
        if self._connection is not None:
            _close(self._connection)
            self._connection = None
        if self._by_index is not None:
            self._by_index.close()

    def _with_connection(self, work: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            if self._connection is None:
                self._connection = self.connect()
            return work(self._connection)

        return self.retry(attempt)

    def retry(self, attempt: Callable[[], T]) -> T:
        until = time.monotonic() + self._patience_s
        pause = 0.1
        while True:
            try:
                return attempt()
            except FAILURES as error:
                self.close()
                if not _is_unavailable(error) or time.monotonic() > until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 2.0)


class Reading:
    """A connection that runs one query after another."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None

    def rows(self, query: str) -> Iterable[pa.RecordBatch]:
        return self._database.retry(partial(self._all_rows, query))

    def _all_rows(self, query: str) -> Iterable[pa.RecordBatch]:
        """All rows, or an error before the first; larger results are passed on as they arrive."""
        try:
            reader = self._begun(query)
            found, size = [], 0
            for batch in reader:
                found.append(batch)
                size += batch.nbytes
                if size > BUFFER_BYTES:
                    return chain(found, reader)
            return found
        except FAILURES:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            _close(self._connection)
        self._connection = None

    def _begun(self, query: str) -> Iterator[pa.RecordBatch]:
        if self._connection is None:
            self._connection = self._database.connect_using_indexes()
        return iter(self._connection.batches(query))


def _connected(url: str, *, autocommit: bool = False) -> Connection:
    try:
        return Connection(url, autocommit=autocommit)
    except adbc.OperationalError as error:
        if "Failed to connect" not in str(error) or any(sign in str(error) for sign in _UNREACHED):
            raise
        # The URL is malformed. The driver's message quotes it, and it may hold a password.
        raise ValueError("option url: not of the form postgresql://user:password@host:5432/database") from None


def _ask(connection: Connection, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    found = connection.rows(query, *values)
    connection.commit()
    return found


def _is_unavailable(error: adbc.Error | OSError) -> bool:
    if isinstance(error, OSError):
        return _is_broken(error)
    state = error.sqlstate or ""
    if not state and any(sign in str(error) for sign in _REFUSED):
        return False
    return (
        state.startswith(_UNAVAILABLE) or (not state and isinstance(error, adbc.OperationalError)) or _is_broken(error)
    )


def _is_broken(error: Exception) -> bool:
    """Recognised by its text: libpq reports a broken connection without a SQLSTATE, and with several classes."""
    text = str(error).lower()
    return any(
        sign in text for sign in ("server closed the connection", "connection to server", "no connection", "terminat")
    )


def _close(connection: Connection) -> None:
    # The connection may be broken.
    with suppress(*FAILURES):
        connection.close()


def literal(value: str | int | None) -> str:
    """A value as a literal: COPY takes no parameters."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if "\0" in value:
        raise ValueError("PostgreSQL does not accept zero bytes in text")
    return "e'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def literals(values: Sequence[str] | Sequence[int], kind: str) -> str:
    return f"array[{', '.join(literal(value) for value in values)}]::{kind}[]"
