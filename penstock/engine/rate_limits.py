"""How many requests a token, and a tenant, may make per second, over all nodes.

The buckets are in the store. A node takes a small allotment at a time and hands it out by itself, so that only few
requests pay for a look; what it does not use within a second is forgotten.
"""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta

from penstock.clock import Clock
from penstock.errors import RateLimited
from penstock.model.tenants import TenantId
from penstock.store import Store

PARTS = 20
"""An allotment is what so many parts of a second allow."""
KEPT = timedelta(seconds=1)
MOST_BUCKETS = 100_000


class _Bucket:
    __slots__ = ("blocked_until", "left", "lock", "taken_at")

    def __init__(self, now: datetime) -> None:
        self.left = 0
        self.taken_at = now
        self.blocked_until = now
        self.lock = asyncio.Lock()


class Rates:
    """A rate of 0 limits nothing."""

    def __init__(self, store: Store, clock: Clock, *, per_token: int = 0, per_tenant: int = 0) -> None:
        self._store = store.rate_limits
        self._clock = clock
        self._per_token = per_token
        self._per_tenant = per_tenant
        self._buckets: dict[str, _Bucket] = {}
        self.enabled = per_token > 0 or per_tenant > 0

    @property
    def limits(self) -> tuple[int, int]:
        """Requests per second of a token, and of a tenant."""
        return self._per_token, self._per_tenant

    async def admit(self, tenant: TenantId, token: str) -> None:
        """Count a request; `RateLimited` when it is one too many. `token` tells tokens apart, and is no secret."""
        if self._per_token:
            await self._take(f"token/{token}", self._per_token)
        if self._per_tenant:
            await self._take(f"tenant/{tenant}", self._per_tenant)

    async def _take(self, name: str, rate: int) -> None:
        now = self._clock.now()
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= MOST_BUCKETS:
                self._buckets.clear()
            bucket = self._buckets[name] = _Bucket(now)
        async with bucket.lock:
            if now - bucket.taken_at > KEPT:
                bucket.left = 0
            if bucket.left == 0:
                await self._fill(bucket, name, rate, now)
            bucket.left -= 1

    async def _fill(self, bucket: _Bucket, name: str, rate: int, now: datetime) -> None:
        if now >= bucket.blocked_until:
            wanted = max(math.ceil(rate / PARTS), 1)
            bucket.left, wait_s = await self._store.take_requests(name, rate, rate, wanted, now)
            bucket.taken_at = now
            if bucket.left > 0:
                return
            bucket.blocked_until = now + timedelta(seconds=wait_s)
        raise RateLimited(retry_after_s=(bucket.blocked_until - now).total_seconds())
