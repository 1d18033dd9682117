"""PostgreSQL from Spark's processes: small questions that are asked again after a failure, and bulk as Arrow batches.

An exception in a reader ends its query, so every question outlives a restart of the database.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import adbc_driver_manager as adbc
import pyarrow as pa

from penstock.spark.connection import Connection

PATIENCE_S = 60.0
"""How long the database may be away before a query fails."""
KEPT_BYTES = 67_108_864
"""How much of a query is kept until it is whole. The rows of a longer one are passed on before that."""

FAILURES = (adbc.Error, OSError)
"""While rows arrive, Arrow reports what the driver says, as an error of input."""

T = TypeVar("T")

_BY_INDEX = """
    select
      set_config('enable_seqscan', 'off', false),
      set_config('enable_bitmapscan', 'off', false),
      set_config('max_parallel_workers_per_gather', '0', false)
"""

# Not every version has both.
_FOR_LONG = """
    select set_config(s.name, '0', false)
    from pg_settings as s
    where s.name in ('idle_in_transaction_session_timeout', 'transaction_timeout')
"""

# The setting is looked at when the transaction commits, and holds for this one alone.
_SETTLE = """
    select pg_logical_emit_message(true, 'penstock', '')::text
    from set_config('synchronous_commit', 'on', true)
"""

_AWAY = ("08", "57P", "53300", "55P03", "40001", "40P01")
"""SQLSTATEs by their beginnings: connection failures, shutdowns, too many connections, a lock that did not come. And
what lost against another transaction: nothing of it is left, and asked again it comes after the other."""

_UNREACHED = ("connection to server", "translate host name")
_REFUSED = ("does not exist", "authentication failed", "no pg_hba.conf entry", "no password supplied")
"""What is said of a connection that was not made has no SQLSTATE. Asked again, these say the same again."""


class SnapshotLost(RuntimeError):
    """A read of one moment was cut off, and the moment cannot be found again."""


def resolve(url: str) -> str:
    """The address itself; `env:NAME` keeps it out of plans and logs."""
    if not url.startswith("env:"):
        return url
    name = url.removeprefix("env:")
    found = os.environ.get(name)
    if not found:
        raise ValueError(f"option url: the environment variable {name} is not set")
    return found


class Database:
    """Picklable: a connection is made where it is used, and kept there."""

    def __init__(self, url: str, patience_s: float = PATIENCE_S) -> None:
        self._url = url
        self._patience_s = patience_s
        self._kept: Connection | None = None
        self._by_index: Reading | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self._url, "_patience_s": self._patience_s, "_kept": None, "_by_index": None}

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask, and commit. Asked again when the connection fails: only questions, and changes that may be repeated."""
        return self._again(lambda connection: _ask(connection, query, values))

    def row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        found = self.rows(query, *values)
        return found[0] if found else None

    def value(self, query: str, *values: Any) -> Any:
        found = self.row(query, *values)
        return None if found is None else found[0]

    def settle(self) -> None:
        """Return when all that was committed before is on disk, also what its writers did not wait for.

        A crash would make PostgreSQL forget it, and give the numbers of ticks and transactions again: to Spark, which
        has them in its checkpoint, they would mean another moment than they did.
        """
        self.rows(_SETTLE)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection of its own, committed at the end and rolled back on an error. Nothing is tried twice."""
        connection = self.connect()
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    def batches(self, query: str, snapshot: str | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a query by binary COPY, within an exported snapshot when one is named.

        Nothing is tried twice once it has begun: rows that were passed on cannot be taken back, and a snapshot is lost
        with the database that exported it.
        """
        connection = self.patiently(self.connect)
        try:
            if snapshot is not None:
                connection.rows("set transaction isolation level repeatable read, read only")
                connection.rows(f"set transaction snapshot {literal(snapshot)}")
            yield from connection.batches(query)
        except FAILURES as error:
            if snapshot is not None and _away(error):
                raise SnapshotLost(f"the database was lost, and with it the moment that was read: {error}") from error
            raise
        finally:
            _close(connection)

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """A connection for queries whose answers never change. One that the database dies in is asked again."""
        reading = Reading(self)
        try:
            yield reading
        finally:
            reading.close()

    @property
    def by_index(self) -> Reading:
        """One that is kept like the connection for small questions, for small questions about event tables."""
        if self._by_index is None:
            self._by_index = Reading(self)
        return self._by_index

    def connect(self) -> Connection:
        return _connected(resolve(self._url))

    def connect_for_long(self) -> Connection:
        """For a transaction that waits for others: whatever time the server gives to transactions, it is too short."""
        connection = self.connect()
        connection.rows(_FOR_LONG)
        connection.commit()
        return connection

    def connect_by_index(self) -> Connection:
        """Every statement a transaction of its own, and no plan but by an index: event tables have no statistics."""
        connection = _connected(resolve(self._url), autocommit=True)
        connection.rows(_BY_INDEX)
        return connection

    def close(self) -> None:
        if self._kept is not None:
            _close(self._kept)
            self._kept = None
        if self._by_index is not None:
            self._by_index.close()

    def _again(self, work: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            if self._kept is None:
                self._kept = self.connect()
            return work(self._kept)

        return self.patiently(attempt)

    def patiently(self, attempt: Callable[[], T]) -> T:
        until = time.monotonic() + self._patience_s
        pause = 0.1
        while True:
            try:
                return attempt()
            except FAILURES as error:
                self.close()
                if not _away(error) or time.monotonic() > until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 2.0)


class Reading:
    """A connection for one query after the other."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None

    def rows(self, query: str) -> Iterable[pa.RecordBatch]:
        return self._database.patiently(partial(self._whole, query))

    def _whole(self, query: str) -> Iterable[pa.RecordBatch]:
        """All the rows, or none and an error; unless they are too many to keep."""
        try:
            reader = self._begun(query)
            found, size = [], 0
            for batch in reader:
                found.append(batch)
                size += batch.nbytes
                if size > KEPT_BYTES:
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
            self._connection = self._database.connect_by_index()
        return iter(self._connection.batches(query))


def _connected(url: str, *, autocommit: bool = False) -> Connection:
    try:
        return Connection(url, autocommit=autocommit)
    except adbc.OperationalError as error:
        if "Failed to connect" not in str(error) or any(sign in str(error) for sign in _UNREACHED):
            raise
        # The address could not be read. What is said of it quotes it, and there may be a password in it.
        raise ValueError("option url: not an address like postgresql://user:password@host:5432/database") from None


def _ask(connection: Connection, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    found = connection.rows(query, *values)
    connection.commit()
    return found


def _away(error: adbc.Error | OSError) -> bool:
    if isinstance(error, OSError):
        return _broken(error)
    state = error.sqlstate or ""
    if not state and any(sign in str(error) for sign in _REFUSED):
        return False
    return state.startswith(_AWAY) or (not state and isinstance(error, adbc.OperationalError)) or _broken(error)


def _broken(error: Exception) -> bool:
    """What libpq says of a dead connection carries no SQLSTATE, and not always the same class."""
    text = str(error).lower()
    return any(
        sign in text for sign in ("server closed the connection", "connection to server", "no connection", "terminat")
    )


def _close(connection: Connection) -> None:
    # It may be dead already; that is why we close it.
    with suppress(*FAILURES):
        connection.close()


def literal(value: str | int | None) -> str:
    """A value inside a COPY, which takes no parameters."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if "\0" in value:
        raise ValueError("text for PostgreSQL holds no zero bytes")
    return "e'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def literals(values: Sequence[str] | Sequence[int], kind: str) -> str:
    return f"array[{', '.join(literal(value) for value in values)}]::{kind}[]"
