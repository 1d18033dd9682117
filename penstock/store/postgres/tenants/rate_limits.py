"""Limits of requests on PostgreSQL."""

from __future__ import annotations

from datetime import datetime

from penstock.store.postgres.connections import Connections


class PostgresRateLimits:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def take_requests(
        self, name: str, rate: float, burst: float, wanted: int, now: datetime
    ) -> tuple[int, float]:
        row = await self._connections.row("take_requests", name, rate, burst, wanted, now, durable=False)
        assert row is not None
        return row["taken"], row["wait_s"]
