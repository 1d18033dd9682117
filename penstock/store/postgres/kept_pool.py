"""A pool that hands its free connections on without a round through asyncpg's pool.

asyncpg's pool makes a timer to acquire a connection and a task to release it, for every statement: on the hot path
that costs more than to send the statement. A connection that did its work is kept here instead, and the next
statement takes it. Connections that failed, and those that others wait for, go back to asyncpg's pool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

ACQUIRE_S = 5.0


class KeptPool:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._free: list[Any] = []
        self._waiting = 0
        """Callers that wait for asyncpg's pool."""
        self._closing = False

    async def run(self, ask: Callable[[Any], Awaitable[Any]]) -> Any:
        """Ask through a free connection; `TimeoutError` when none becomes free in time."""
        connection = await self._acquire()
        try:
            answer = await ask(connection)
        except BaseException:
            # asyncpg's pool knows what to do with a connection that broke, or whose statement is being cancelled.
            await self._pool.release(connection)
            raise
        if self._waiting or self._closing:
            await self._pool.release(connection)
        else:
            self._free.append(connection)
        return answer

    async def _acquire(self) -> Any:
        while self._free:
            connection = self._free.pop()
            if not is_lost(connection):
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=ACQUIRE_S)
        finally:
            self._waiting -= 1

    async def execute(self, statement: str) -> str:
        done: str = await self.run(lambda connection: connection.execute(statement))
        return done

    async def fetchval(self, statement: str) -> Any:
        return await self.run(lambda connection: connection.fetchval(statement))

    def get_size(self) -> int:
        return int(self._pool.get_size())

    def get_idle_size(self) -> int:
        return int(self._pool.get_idle_size()) + len(self._free)

    async def close(self) -> None:
        self._closing = True
        while self._free:
            await self._pool.release(self._free.pop())
        await self._pool.close()

    def terminate(self) -> None:
        self._pool.terminate()


def is_lost(connection: Any) -> bool:
    """Whether the server has closed it. asyncpg's pool takes such a connection back, and then it answers nothing."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True
