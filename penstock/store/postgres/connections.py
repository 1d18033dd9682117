"""The connections of a store, and the one way to ask through them: a named statement, tried again after a conflict.

Two pools: claims commit without waiting for the disk, since a claim lost in a crash is only a redelivery; everything
else waits.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg

from penstock.errors import Unavailable
from penstock.queries import load
from penstock.store.postgres.kept_pool import KeptPool
from penstock.store.postgres.queues import rows
from penstock.store.rare_warnings import warn

FEATURES = ("queues", "topics", "jobs", "streams", "schedules", "insights", "private", "tenants")
SQL = load(*(Path(__file__).parent / feature for feature in FEATURES))

CLOSE_S = 5.0
RETRIES = 6
PAUSE_S = 0.01
"""Before the third try; twice as long before each further one. A transaction that drops a stream has ended by then."""

_AWAY = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # What asyncpg says when a connection dies between two statements, before the pool has noticed.
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    # The server behind the address has become a replica.
    asyncpg.ReadOnlySQLTransactionError,
)
_SHORT = {
    asyncpg.DiskFullError: "the disk of the database is full",
    asyncpg.PostgresIOError: "the database cannot read or write its files",
    asyncpg.OutOfMemoryError: "the database is out of memory",
}
"""What the database lacks now, and may have again later."""
_AGAIN = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    # A table or a sequence of a stream that is dropped while a statement looks at it: the next try does not find the
    # stream, and says so.
    asyncpg.InternalServerError,
    asyncpg.UndefinedTableError,
)
_FAULTS = (asyncpg.InternalServerError, asyncpg.UndefinedTableError)
"""Those of them that are a fault when they come back."""


PLANNING = {
    # One plan serves every batch: planning anew would cost more than the work. A plan made without knowing the
    # arguments expects far too many rows, so it is told to walk the indexes, which is always right here.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}


class Connections:
    def __init__(self, dsn: str, size: int, node: str, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are those of PostgreSQL that every connection begins with."""
        self._dsn = dsn
        self._size = max(size, 2)
        self._settings = {"application_name": "penstock", "penstock.node": node, **PLANNING, **(settings or {})}
        self._durable: KeptPool | None = None
        self._unsynced: KeptPool | None = None
        self._acquire_timeouts = 0

    async def open(self) -> None:
        unsynced = max(self._size // 3, 1)
        self._durable = await self._pool(self._size - unsynced, {})
        self._unsynced = await self._pool(unsynced, {"synchronous_commit": "off"})

    async def _pool(self, size: int, settings: Mapping[str, str]) -> KeptPool:
        pool = await asyncpg.create_pool(
            self._dsn,
            min_size=1,
            max_size=size,
            max_inactive_connection_lifetime=0,
            max_queries=2**31,
            max_cached_statement_lifetime=0,
            # Our statements leave nothing behind in a session; the usual reset would be a second round trip each.
            reset=_keep_as_it_is,
            server_settings={**self._settings, **settings},
        )
        return KeptPool(pool)

    async def close(self) -> None:
        for pool in self.pools():
            await _close(pool)
        self._durable = self._unsynced = None

    def pools(self) -> list[KeptPool]:
        return [pool for pool in (self._durable, self._unsynced) if pool is not None]

    def numbers(self) -> Mapping[str, int]:
        size = sum(pool.get_size() for pool in self.pools())
        idle = sum(pool.get_idle_size() for pool in self.pools())
        return {"size": size, "idle": idle, "active": size - idle, "acquire_timeouts": self._acquire_timeouts}

    async def rows(self, name: str, *arguments: Any, durable: bool = True) -> list[asyncpg.Record]:
        found: list[asyncpg.Record] = await self.call(lambda c: c.fetch(SQL[name], *arguments), durable)
        return found

    async def rows_and_warnings(self, name: str, *arguments: Any, durable: bool = True) -> list[asyncpg.Record]:
        """The same, and warnings of PostgreSQL are logged. Most statements have none, and listening costs."""

        async def ask(connection: Any) -> list[asyncpg.Record]:
            connection.add_log_listener(_heard)
            try:
                found: list[asyncpg.Record] = await connection.fetch(SQL[name], *arguments)
            finally:
                connection.remove_log_listener(_heard)
            return found

        rows: list[asyncpg.Record] = await self.call(ask, durable)
        return rows

    async def row(self, name: str, *arguments: Any, durable: bool = True) -> asyncpg.Record | None:
        return await self.call(lambda connection: connection.fetchrow(SQL[name], *arguments), durable)

    async def value(self, name: str, *arguments: Any, durable: bool = True) -> Any:
        return await self.call(lambda connection: connection.fetchval(SQL[name], *arguments), durable)

    async def call(self, ask: Callable[[Any], Awaitable[Any]], durable: bool) -> Any:
        pool = self._durable if durable else self._unsynced
        if pool is None:
            raise Unavailable("the store is closed")
        if asyncio.current_task() is None:
            await asyncio.sleep(0)  # asyncpg needs a task: see `Direct` in penstock/wire/http/messages.py
        for attempt in range(RETRIES):
            try:
                return await pool.run(ask)
            except TimeoutError:
                self._acquire_timeouts += 1
                raise Unavailable("no database connection became free in time") from None
            except _AGAIN as error:
                if attempt == RETRIES - 1:
                    if isinstance(error, _FAULTS):
                        raise  # not a conflict after all: a fault that must be seen
                    raise Unavailable("the database kept refusing a conflicting change") from error
                if attempt > 0:
                    await asyncio.sleep(PAUSE_S * 2**attempt * random.random())
            except Exception as error:
                raise translate(error) from error
        raise AssertionError("unreachable")


async def _keep_as_it_is(connection: object) -> None:
    pass


def _heard(connection: object, message: asyncpg.PostgresLogMessage) -> None:
    if message.severity_en == "WARNING":
        warn(message.message)


async def _close(pool: KeptPool) -> None:
    try:
        await asyncio.wait_for(pool.close(), CLOSE_S)
    except TimeoutError:
        # A database that hangs must not keep us from ending.
        pool.terminate()


def translate(error: Exception) -> Exception:
    """Our own errors by their code, a database that is away as `Unavailable`, anything else as it is."""
    if reason := _SHORT.get(type(error)):
        return Unavailable(reason)
    if isinstance(error, _AWAY):
        return Unavailable()
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate is not None:
        known = rows.raised_error(error.sqlstate, error.message or "", error.detail)
        if known is not None:
            return known
    return error


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        translated = translate(error)
        if translated is error:
            raise
        raise translated from error
