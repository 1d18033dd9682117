"""Steps that bring sessions together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.store.caller import Caller
from tests.store.postgres_only.conftest import Connect
from tests.store.postgres_only.sessions import Session, Watcher, until

LONG_AGO_S = 60
"""Longer than any visibility timeout of these tests."""


def start(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(work)


async def hold(connect: Connect, queue: str, group: str) -> Session:
    """A session that holds the lock of a group until it commits."""
    session = await connect("holder")
    await session.begin()
    await session.send(queue, "held", group_id=group)
    return session


async def settled(watcher: Watcher, session: Session, task: asyncio.Task[Any]) -> None:
    """The session has done what it can: it is done, or waits for a lock."""
    waiting = start(watcher.blocked(session))
    await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def swept_clean(caller: Caller, watcher: Watcher) -> None:
    """Sweeps leave nothing in bins that no queue has, once nobody from before can write there."""

    async def left() -> int:
        await caller.sweep()
        return await watcher.unreachable()

    await until(left, 0)
