"""How much there is to do, on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from penstock.model.figures import ConsumerFigures, JobFigures, ScheduleFigures, StreamFigures
from penstock.model.jobs import JobStatus
from penstock.model.tenants import DEFAULT_TENANT, TenantId
from penstock.store.figures import PRIORITIES
from penstock.store.postgres.connections import Connections

_STATUSES = [status for status in JobStatus if status is not JobStatus.FAILED]
_OWNED = re.compile(r"t([1-9]\d{0,18}):(.+)", re.DOTALL)
"""How the streams of tenants are called in the schema pgque. What SQL users call otherwise is the default tenant's."""


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


def owner_of(queue: str) -> tuple[TenantId, str]:
    """Whose stream it is that has this name in the database, and what its tenant calls it."""
    owned = _OWNED.fullmatch(queue)
    return (TenantId(int(owned[1])), owned[2]) if owned is not None else (DEFAULT_TENANT, queue)
