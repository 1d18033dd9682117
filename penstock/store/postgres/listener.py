"""Listening for sends that other nodes and SQL users commit."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping

import asyncpg

from penstock.model import TenantId
from penstock.store import WakeUp

CHANNEL = "penstock_arrivals"
RETRY_S = 1.0

_ARRIVAL = re.compile(r"([0-9]{1,18}) (.{1,200})", re.DOTALL)
"""The tenant's number, and the queue."""

log = logging.getLogger(__name__)


class Listener:
    """One connection that listens, and comes back when it is lost. Meanwhile waiters poll."""

    def __init__(self, dsn: str, wake_up: WakeUp, others: Mapping[str, Callable[[str], None]] | None = None) -> None:
        """`others` are further channels: called with each payload, and with "" when some may have been missed."""
        self._dsn = dsn
        self._wake_up = wake_up
        self._others = dict(others or {})
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._run(ready))
        await ready.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self, ready: asyncio.Event) -> None:
        while True:
            try:
                await self._listen(ready)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                log.warning("listening for arrivals failed, trying again: %s", str(error) or type(error).__name__)
            ready.set()
            await asyncio.sleep(RETRY_S)

    async def _listen(self, ready: asyncio.Event) -> None:
        connection = await asyncpg.connect(self._dsn, server_settings={"application_name": "penstock listener"})
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.add_listener(CHANNEL, self._heard)
            for channel, heard in self._others.items():
                await connection.add_listener(channel, lambda _c, _p, _n, payload, heard=heard: heard(str(payload)))
                heard("")
            ready.set()
            await lost.wait()
        finally:
            if not connection.is_closed():
                await connection.close(timeout=1)

    def _heard(self, connection: object, pid: int, channel: str, payload: object) -> None:
        # Anyone who may connect may send a notification, so it is read like any other input.
        found = _ARRIVAL.fullmatch(str(payload))
        if found is not None:
            self._wake_up(TenantId(int(found[1])), found[2])
