"""Duties that run by themselves. Each is a class with `once()`; one runner repeats it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from penstock.errors import Unavailable

log = logging.getLogger(__name__)

MAX_BACKOFF_S = 30.0

Pause = float | Callable[[int], float]
"""Seconds between two runs; or a function that knows them from what the last run did."""


async def run_every(seconds: Pause, once: Callable[[], Awaitable[int]], *, name: str, stop: asyncio.Event) -> None:
    """Repeat a duty until `stop` is set.

    A failure is logged and the duty lives on, with longer and longer pauses while it keeps failing. A run under way
    when `stop` comes is finished.
    """
    failures = 0
    while not stop.is_set():
        try:
            done = await once()
            failures = 0
            pause = seconds(done) if callable(seconds) else seconds
        except Exception as error:
            failures += 1
            pause = _backoff(seconds(0) if callable(seconds) else seconds, failures)
            _report(name, error, failures, pause)
        await sleep_unless(stop, pause)


async def sleep_unless(stop: asyncio.Event, seconds: float) -> bool:
    """Sleep, but not past `stop`; True when it came."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True


def _backoff(seconds: float, failures: int) -> float:
    # Spread, so that nodes that lost one database do not all come back to it at once.
    return float(min(seconds * 2 ** min(failures, 20), MAX_BACKOFF_S) * random.uniform(0.5, 1.0))


def _report(name: str, error: Exception, failures: int, pause: float) -> None:
    about = {
        "duty": name,
        "failures": failures,
        "retry_in_s": round(pause, 3),
        "error": f"{type(error).__name__}: {error}",
    }
    # A traceback of what nobody foresaw, and only once: more would fill the log with the same one.
    surprising = failures == 1 and not isinstance(error, Unavailable)
    log.warning("a duty failed", extra=about, exc_info=error if surprising else None)
