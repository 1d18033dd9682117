"""SQLite behind threads: one that writes, and for files one or more that read beside it.

All state is in the database, so several processes may open one file; only wake-ups do not cross between them.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from penstock.errors import Unavailable
from penstock.store.sqlite.migrate import migrate, migrate_new
from penstock.store.sqlite.session import Session

Result = TypeVar("Result")

_BUSY_TIMEOUT_S = 5.0
_OWNER_ONLY = 0o600


class WorkerThread:
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
            raise _translated(error) from error
        finally:
            self.waiting -= 1

    def run_here(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """The same on the thread of the caller. Only while nothing waits: a connection serves one thread at a time."""
        assert not self.waiting
        try:
            return self._work(work)
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error

    async def close(self) -> None:
        if self._connection is not None:
            await self.run(lambda connection: connection.close())
        self._thread.shutdown(wait=False)

    def _work(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        if self._connection is None:
            self._connection = _connect(self._path)
        return work(self._connection)


class Database:
    def __init__(self, path: str | Path | None, readers: int = 1) -> None:
        self._path = None if path is None else Path(path)
        self._reader_count = readers
        self._writer: WorkerThread | None = None
        self._readers: list[WorkerThread] = []

    async def open(self) -> None:
        self._writer = WorkerThread("penstock-sqlite-writer", self._path)
        try:
            await self._writer.run(migrate if self._path is not None else migrate_new)
        except BaseException:
            await self.close()
            raise
        # A database in memory belongs to its one connection.
        if self._path is not None:
            self._readers = [WorkerThread("penstock-sqlite-reader", self._path) for _ in range(self._reader_count)]

    async def close(self) -> None:
        threads = self._threads()
        self._writer, self._readers = None, []
        for thread in threads:
            await thread.close()

    async def write(self, work: Callable[[Session], Result], *, brief: bool = False) -> Result:
        """Run `work` in one transaction; it commits when `work` returns and leaves no trace when it raises.

        In memory, `brief` work is done at once: to hand it to another thread would cost more than the work.
        """
        writer = _opened(self._writer)
        if brief and self._path is None and not writer.waiting:
            return writer.run_here(lambda connection: _transact(connection, work))
        return await writer.run(lambda connection: _transact(connection, work))

    async def read(self, work: Callable[[Session], Result]) -> Result:
        """Run `work` over one snapshot, without waiting for writers where the store allows it."""
        reader = min(self._readers, key=_waiting) if self._readers else self._writer
        return await _opened(reader).run(lambda connection: _look(connection, work))

    def numbers(self) -> Mapping[str, int]:
        threads = self._threads()
        active = sum(1 for thread in threads if thread.waiting)
        return {"size": len(threads), "idle": len(threads) - active, "active": active, "acquire_timeouts": 0}

    def _threads(self) -> list[WorkerThread]:
        return [*([self._writer] if self._writer is not None else []), *self._readers]


def _translated(error: sqlite3.DatabaseError) -> Exception:
    # Its other subclasses tell of a mistake of ours, not of the database.
    if type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError):
        return Unavailable(f"SQLite: {error}")
    return error


def _waiting(thread: WorkerThread) -> int:
    return thread.waiting


def _opened(thread: WorkerThread | None) -> WorkerThread:
    if thread is None:
        raise Unavailable("The SQLite store is not open")
    return thread


def _make_private(path: Path) -> None:
    """Let only the owner read the file and its journals: they hold the secrets of access keys and webhooks.

    SQLite gives new journals the mode of the file. What cannot be changed is left to SQLite, which says what is wrong.
    """
    with suppress(OSError):
        # Only a file that is not there yet: to close another descriptor of an open database drops SQLite's locks on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER_ONLY))
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(OSError):
            if stat.S_ISREG(file.stat().st_mode):
                file.chmod(_OWNER_ONLY)


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        _make_private(path)
    connection = sqlite3.connect(
        ":memory:" if path is None else path,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        cached_statements=256,
        # Of a database in memory the loop's thread does the brief work itself; see `Database.write`.
        check_same_thread=path is not None,
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
