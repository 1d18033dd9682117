"""Ticks and maintenance of all streams, on one node at a time.

The node that holds an advisory lock does both, on a connection of its own. When that node dies, PostgreSQL closes the
connection and releases the lock, and another node takes over.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import asyncpg

from penstock.store.postgres.connections import PLANNING, SQL, translated

log = logging.getLogger(__name__)

LOCK = 0x70737469636B
"""The letters `pstick`: no other program has a reason to lock this number."""


class Ticking:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._leading: Any = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def tick(self) -> int | None:
        """How many streams got a tick; None when another node ticks."""
        with translated():
            async with self._turn:
                connection = await self._lead()
                return None if connection is None else await self._tick(connection)

    async def maintain(self) -> int | None:
        with translated():
            async with self._turn:
                connection = await self._lead()
                if connection is None:
                    return None
                done = 0
                for row in await connection.fetch(SQL["stream_maintenance"]):
                    done += await self._do(connection, row["func_name"], row["func_arg"])
                return done

    async def close(self) -> None:
        self._closed = True
        await self._resign()

    async def _lead(self) -> Any:
        """The connection that holds the lock; None while another node's does."""
        if self._leading is not None and not self._leading.is_closed():
            return self._leading
        if self._closed:
            return None
        settings = {"application_name": "penstock ticker", **PLANNING}
        connection = await asyncpg.connect(self._dsn, server_settings=settings, command_timeout=60)
        try:
            if await connection.fetchval(SQL["lead_ticking"], LOCK):
                self._leading = connection
                log.info("this node ticks the streams")
                return connection
        finally:
            if self._leading is not connection:
                await connection.close(timeout=1)
        return None

    async def _resign(self) -> None:
        connection, self._leading = self._leading, None
        if connection is not None and not connection.is_closed():
            await connection.close(timeout=1)

    async def _tick(self, connection: Any) -> int:
        try:
            ticked = int(await connection.fetchval(SQL["tick_streams"]))
            await connection.fetchval(SQL["tick_idle_streams"])
        except asyncpg.PostgresError:
            if connection.is_closed():
                raise
            return await self._tick_one_by_one(connection)
        return ticked

    async def _tick_one_by_one(self, connection: Any) -> int:
        """A stream that cannot be ticked must not stop the others."""
        names = [row["queue_name"] for row in await connection.fetch(SQL["streams_to_tick"])]
        return sum([await self._do(connection, "tick_stream", name) for name in names])

    async def _do(self, connection: Any, name: str, argument: str | None) -> int:
        """Run one duty; how much it did. A duty that fails is logged, and the others still run."""
        statement, arguments = SQL.get(name), [] if argument is None else [argument]
        if statement is None:
            # A function of queue_extra_maint: the database looks the name up.
            statement, arguments = SQL["extra_maintenance"], [name, *arguments]
        try:
            return int(await connection.fetchval(statement, *arguments) or 0)
        except asyncpg.PostgresError as error:
            if connection.is_closed():
                raise
            about = {"operation": name, "stream": argument, "error": f"{type(error).__name__}: {error}"}
            log.warning("maintenance of streams failed", extra=about)
            return 0
