"""PostgreSQL from Spark's processes: small questions that are asked again after a failure, and bulk as Arrow batches.

An exception in a reader ends its query, so every question outlives a restart of the database.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import adbc_driver_manager as adbc
import adbc_driver_postgresql.dbapi as driver
import pyarrow as pa

PATIENCE_S = 60.0
"""How long the database may be away before a query fails."""
BATCH_BYTES = 4_194_304

T = TypeVar("T")

_AWAY = ("08", "57P", "53300")
"""SQLSTATEs by their beginnings: connection failures, shutdowns, too many connections."""


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
        self._kept: driver.Connection | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self._url, "_patience_s": self._patience_s, "_kept": None}

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask, and commit. Asked again when the connection fails: only questions, and changes that may be repeated."""
        return self._again(lambda connection: _ask(connection, query, values))

    def row(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        found = self.rows(query, *values)
        return found[0] if found else None

    def value(self, query: str, *values: Any) -> Any:
        found = self.row(query, *values)
        return None if found is None else found[0]

    @contextmanager
    def transaction(self) -> Iterator[driver.Connection]:
        """A connection of its own, committed at the end and rolled back on an error. Nothing is tried twice."""
        connection = self.connect()
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    def batches(self, query: str, snapshot: str | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a query by binary COPY, within an exported snapshot when one is named."""
        connection = self._patiently(self.connect)
        try:
            with connection.cursor(adbc_stmt_kwargs={"adbc.postgresql.batch_size_hint_bytes": BATCH_BYTES}) as cursor:
                if snapshot is not None:
                    cursor.execute("set transaction isolation level repeatable read, read only")
                    cursor.execute(f"set transaction snapshot {literal(snapshot)}")
                cursor.execute(query)
                yield from cursor.fetch_record_batch()
        finally:
            connection.close()

    def connect(self) -> driver.Connection:
        return driver.connect(resolve(self._url))

    def close(self) -> None:
        if self._kept is not None:
            _close(self._kept)
            self._kept = None

    def _again(self, work: Callable[[driver.Connection], T]) -> T:
        def attempt() -> T:
            if self._kept is None:
                self._kept = self.connect()
            return work(self._kept)

        return self._patiently(attempt)

    def _patiently(self, attempt: Callable[[], T]) -> T:
        until = time.monotonic() + self._patience_s
        pause = 0.1
        while True:
            try:
                return attempt()
            except adbc.Error as error:
                self.close()
                if not _away(error) or time.monotonic() > until:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, 2.0)


def _ask(connection: driver.Connection, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, list(values) or None)
        found = cursor.fetchall() if cursor.description else []
    connection.commit()
    return found


def _away(error: adbc.Error) -> bool:
    state = error.sqlstate or ""
    return state.startswith(_AWAY) or (not state and isinstance(error, adbc.OperationalError)) or _broken(error)


def _broken(error: adbc.Error) -> bool:
    """What libpq says of a dead connection carries no SQLSTATE, and not always the same class."""
    text = str(error).lower()
    return any(
        sign in text for sign in ("server closed the connection", "connection to server", "no connection", "terminat")
    )


def _close(connection: driver.Connection) -> None:
    # It may be dead already; that is why we close it.
    with suppress(adbc.Error):
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
