"""What a store can do for the limits of requests: token buckets that all nodes share."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class RateLimitStore(Protocol):
    async def take_requests(
        self, name: str, rate: float, burst: float, wanted: int, now: datetime
    ) -> tuple[int, float]:
        """Of the bucket `name`: how many requests may pass, and if none, the seconds until one may.

        A bucket holds `burst` requests and is refilled by `rate` per second.
        """
