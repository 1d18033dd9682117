"""Limits of requests on SQLite."""

from __future__ import annotations

import math
from datetime import datetime

from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.moments import SECOND, micros
from penstock.store.sqlite.session import Session

_KEPT = 3600 * SECOND
"""A bucket that nobody took from for so long is full."""


class SqliteRateLimits:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def take_requests(
        self, name: str, rate: float, burst: float, wanted: int, now: datetime
    ) -> tuple[int, float]:
        return await self._database.write(lambda s: _take(s, name, rate, burst, wanted, micros(now)))


def _take(session: Session, name: str, rate: float, burst: float, wanted: int, now: int) -> tuple[int, float]:
    row = session.first("find_bucket", name=name)
    tokens = burst
    if row is not None:
        tokens = min(burst, row["tokens"] + rate * max(now - row["filled_at"], 0) / SECOND)
    taken = min(wanted, math.floor(tokens + 1e-9))
    session.run("put_bucket", name=name, tokens=tokens - taken, now=now)
    return taken, 0.0 if taken else (1 - tokens) / rate


def forget_buckets(session: Session, now: int) -> None:
    session.run("forget_buckets", before=now - _KEPT)
