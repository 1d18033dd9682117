"""How much there is to do, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from penstock.model.figures import ConsumerFigures, JobFigures, ScheduleFigures, StreamFigures
from penstock.model.jobs import JobStatus
from penstock.model.stream_names import owner_of
from penstock.model.tenants import TenantId
from penstock.store.figures import PRIORITIES
from penstock.store.postgres.connections import Connections

_STATUSES = [status for status in JobStatus if status is not JobStatus.FAILED]


class PostgresFigures:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def jobs(self) -> Sequence[JobFigures]:
        return [
            JobFigures(
                tenant=TenantId(row["tenant_id"]),
                queue=row["queue"],
                jobs={status: row[status] for status in _STATUSES},
                ready_since=row["ready_since"],
            )
            for row in await self._connections.rows("job_figures", PRIORITIES)
        ]

    async def schedules(self, now: datetime, limit: int) -> ScheduleFigures:
        row = await self._connections.row("schedule_figures", now, limit)
        assert row is not None
        return ScheduleFigures(**row)

    async def consumers(self) -> Sequence[ConsumerFigures]:
        found = []
        for row in await self._connections.rows("consumer_figures"):
            tenant, stream = owner_of(row["queue_name"])
            found.append(
                ConsumerFigures(
                    tenant=tenant,
                    stream=stream,
                    consumer=row["consumer_name"],
                    pending=row["pending"],
                    lag_s=max(row["lag_s"], 0.0),
                )
            )
        return found

    async def streams(self) -> Sequence[StreamFigures]:
        found = []
        for row in await self._connections.rows("stream_figures"):
            tenant, stream = owner_of(row["queue_name"])
            found.append(StreamFigures(tenant=tenant, stream=stream, tick_age_s=max(row["tick_age_s"], 0.0)))
        return found
