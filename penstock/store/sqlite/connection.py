"""SQLite behind threads: one that writes, and for files one that reads beside it.

All state is in the database, so several processes may open one file; only wake-ups do not cross between them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from penstock.errors import Unavailable
from penstock.store.sqlite.migrate import migrate
from penstock.store.sqlite.session import Session

Result = TypeVar("Result")

_BUSY_TIMEOUT_S = 5.0


class Lane:
    """One connection on a thread of its own; work waits its turn."""

    def __init__(self, name: str, path: Path | None) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self.waiting = 0

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)
        except sqlite3.DatabaseError as error:
            # Its other subclasses tell of a mistake of ours, not of the database.
            if type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError):
                raise Unavailable(f"SQLite: {error}") from error
            raise
        finally:
            self.waiting -= 1

    async def close(self) -> None:
        if self._connection is not None:
            await self.run(lambda connection: connection.close())
        self._thread.shutdown(wait=False)

    def _work(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        if self._connection is None:
            self._connection = _connect(self._path)
        return work(self._connection)


class Database:
    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        self._writer: Lane | None = None
        self._reader: Lane | None = None

    async def open(self) -> None:
        self._writer = self._reader = Lane("penstock-sqlite-writer", self._path)
        try:
            await self._writer.run(migrate)
        except BaseException:
            await self.close()
            raise
        # A database in memory belongs to its one connection.
        if self._path is not None:
            self._reader = Lane("penstock-sqlite-reader", self._path)

    async def close(self) -> None:
        lanes = self._lanes()
        self._writer = self._reader = None
        for lane in lanes:
            await lane.close()

    async def write(self, work: Callable[[Session], Result]) -> Result:
        """Run `work` in one transaction; it commits when `work` returns and leaves no trace when it raises."""
        return await _opened(self._writer).run(lambda connection: _transact(connection, work))

    async def read(self, work: Callable[[Session], Result]) -> Result:
        """Run `work` over one snapshot, without waiting for writers where the store allows it."""
        return await _opened(self._reader).run(lambda connection: _look(connection, work))

    def numbers(self) -> Mapping[str, int]:
        lanes = self._lanes()
        active = sum(1 for lane in lanes if lane.waiting)
        return {"size": len(lanes), "idle": len(lanes) - active, "active": active, "acquire_timeouts": 0}

    def _lanes(self) -> set[Lane]:
        return {lane for lane in (self._writer, self._reader) if lane is not None}


def _opened(lane: Lane | None) -> Lane:
    if lane is None:
        raise Unavailable("The SQLite store is not open")
    return lane


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        ":memory:" if path is None else path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, cached_statements=256
    )
    connection.row_factory = sqlite3.Row
    connection.execute("pragma foreign_keys = on")
    if path is not None:
        connection.execute("pragma journal_mode = wal")
        # In WAL mode only FULL syncs at every commit: an acknowledged send survives a power cut.
        connection.execute("pragma synchronous = full")
        connection.execute("pragma journal_size_limit = 67108864")
    return connection


def _transact(connection: sqlite3.Connection, work: Callable[[Session], Result]) -> Result:
    connection.execute("begin immediate")
    try:
        session = Session(connection)
        result = work(session)
        session.finish()
        connection.execute("commit")
    except BaseException:
        # A failed commit may have rolled back by itself.
        if connection.in_transaction:
            connection.execute("rollback")
        raise
    return result


def _look(connection: sqlite3.Connection, work: Callable[[Session], Result]) -> Result:
    connection.execute("begin")
    try:
        return work(Session(connection))
    finally:
        connection.execute("rollback")
