"""Tick the streams, and look after what ticking leaves behind.

One node at a time does it; the others ask now and then whether it is their turn. A consumer that waits does not wait
for this loop: it has its stream ticked at once.
"""

from __future__ import annotations

from time import perf_counter

from penstock.engine import Engine

BUSY_S = 0.1
LONGEST_IDLE_S = 2.0
MAINTAIN_S = 1.0
"""Retries, delayed events and rotations come this much later than they are due, at most."""
STANDBY_S = 2.0
"""How soon another node takes over."""


class Ticker:
    """Every 100 ms while there is traffic, and rarer and rarer while there is none."""

    def __init__(self, engine: Engine) -> None:
        self._streams = engine.streams
        self._seconds = engine.metrics.ticker_seconds
        self._pause = BUSY_S
        self._standby = False

    async def once(self) -> int:
        began = perf_counter()
        ticked = await self._streams.tick()
        self._standby = ticked is None
        if not self._standby:
            self._seconds.observe((), perf_counter() - began)
        return ticked or 0

    def pause(self, done: int) -> float:
        if self._standby:
            return STANDBY_S
        self._pause = BUSY_S if done else min(self._pause * 1.5, LONGEST_IDLE_S)
        return self._pause


class StreamKeeper:
    """Brings retries and delayed events back and turns the tables over, on the node that ticks."""

    def __init__(self, engine: Engine) -> None:
        self._streams = engine.streams

    async def once(self) -> int:
        return await self._streams.maintain() or 0
