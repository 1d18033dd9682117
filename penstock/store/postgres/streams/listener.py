"""Listening for events and ticks of the streams that a request of this node waits for.

One connection for all of them; it is opened when the first consumer waits. Meanwhile, and when it is lost, waiters
look again by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import asyncpg

log = logging.getLogger(__name__)

MAX_QUEUES = 1_000
"""More are dropped, the oldest first; requests that still wait ask again."""


class StreamListener:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None
        self._heard: dict[str, Callable[..., None]] = {}
        """What to call, by queue."""
        self._turn = asyncio.Lock()
        self._closed = False

    async def expect(self, queue: str, wake_up: Callable[[], None]) -> bool:
        """Call `wake_up` at what is said of this queue from now on. True when that is new, and worth another look."""
        if queue in self._heard and self._alive():
            return False
        async with self._turn:
            if self._closed or (queue in self._heard and self._alive()):
                return False
            try:
                await self._listen(queue, wake_up)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                log.warning("listening to streams failed: %s", str(error) or type(error).__name__)
                return False
        return True

    async def close(self) -> None:
        self._closed = True
        async with self._turn:
            connection, self._connection = self._connection, None
            self._heard.clear()
            if connection is not None and not connection.is_closed():
                await connection.close(timeout=1)

    def _alive(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def _listen(self, queue: str, wake_up: Callable[[], None]) -> None:
        if not self._alive():
            self._heard.clear()
            self._connection = await asyncpg.connect(
                self._dsn, server_settings={"application_name": "penstock streams"}, command_timeout=10
            )
        if len(self._heard) >= MAX_QUEUES:
            oldest = next(iter(self._heard))
            forgotten = self._heard.pop(oldest)
            for channel in channels(oldest):
                await self._connection.remove_listener(channel, forgotten)

        def heard(*_: object) -> None:
            wake_up()

        for channel in channels(queue):
            await self._connection.add_listener(channel, heard)
        self._heard[queue] = heard


def channels(queue: str) -> tuple[str, str]:
    """Where ticks are announced, and where events are while a consumer waits for them."""
    return f"pgque_{queue}", f"pgque_wake_{queue}"
