"""Make the webhook deliveries that are due, and finish publishes from SQL that were left to a server."""

from __future__ import annotations

import asyncio
import logging

from penstock.engine import Engine
from penstock.engine.topics.webhooks import settle

log = logging.getLogger(__name__)

BUSY_S = 0.05
SWEEP_S = 60.0
SWEEP_LIMIT = 5000
CLOSE_S = 3.0


class Deliverer:
    """Claims deliveries as there is room for them; one slow endpoint holds up none but its own."""

    def __init__(self, engine: Engine, idle_s: float = 1.0, *, enabled: bool = True) -> None:
        self._topics = engine.topics
        self._webhooks = engine.webhooks
        self._outbox = engine.outbox
        self._idle_s = idle_s
        self._attempts: set[asyncio.Task[bool]] = set()
        self._claiming = asyncio.Lock()
        self._nudged: asyncio.Task[int] | None = None
        self._closed = False
        if enabled:
            engine.topics.on_deliveries = self.nudge

    async def once(self) -> int:
        """Begin attempts for all there is room for; how many, publishes from SQL included."""
        async with self._claiming:
            if self._closed:
                return 0
            done = await self._topics.send_outgoing()
            claimed = await self._webhooks.claim()
            for delivery in claimed:
                attempt = asyncio.create_task(self._webhooks.attempt(delivery))
                self._attempts.add(attempt)
                attempt.add_done_callback(self._ended)
            return done + len(claimed)

    def pause(self, done: int) -> float:
        return BUSY_S if done else self._idle_s

    async def sweep(self) -> int:
        return await self._webhooks.sweep(SWEEP_LIMIT) + await self._outbox.sweep(SWEEP_LIMIT)

    def nudge(self) -> None:
        """There is something to deliver: look now, not at the next turn."""
        if not self._closed and (self._nudged is None or self._nudged.done()):
            self._nudged = asyncio.create_task(self.once())
            self._nudged.add_done_callback(_forgiven)

    async def finish(self) -> None:
        """Until no attempt is under way."""
        while self._attempts:
            await asyncio.wait(set(self._attempts))

    async def close(self) -> None:
        self._closed = True
        if self._nudged is not None:
            await asyncio.wait([self._nudged], timeout=CLOSE_S)
        await settle(set(self._attempts), CLOSE_S)
        await self._webhooks.close()

    def _ended(self, attempt: asyncio.Task[bool]) -> None:
        self._attempts.discard(attempt)
        if not attempt.cancelled() and attempt.exception() is not None:
            log.error("an attempt to deliver failed", exc_info=attempt.exception())


def _forgiven(task: asyncio.Task[int]) -> None:
    """A look out of turn may fail: the next in turn will say so."""
    if not task.cancelled():
        task.exception()
