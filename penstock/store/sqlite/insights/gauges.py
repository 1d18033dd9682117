"""How much there is to do, on SQLite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from penstock.model.gauges import (
    ConsumerGauges,
    EndpointGauges,
    JobGauges,
    PipelineGauges,
    ScheduleGauges,
    StreamGauges,
)
from penstock.model.jobs import JobStatus
from penstock.model.tenants import TenantId
from penstock.store.gauges import PRIORITIES
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.jobs.search import STATES, STATUSES
from penstock.store.sqlite.moments import maybe_moment, micros
from penstock.store.sqlite.session import Session


class SqliteGauges:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def jobs(self) -> Sequence[JobGauges]:
        return await self._database.read(_jobs)

    async def schedules(self, now: datetime, limit: int) -> ScheduleGauges:
        row = await self._database.read(lambda s: s.first("schedule_figures", now=micros(now), limit=limit))
        assert row is not None
        return ScheduleGauges(
            active=row["active"], paused=row["paused"], overdue=row["overdue"], due_at=maybe_moment(row["due_at"])
        )

    async def endpoints(self, attempts: int, limit: int) -> Sequence[EndpointGauges]:
        found = await self._database.read(lambda s: s.all("endpoint_figures", attempts=attempts, limit=limit))
        return [
            EndpointGauges(tenant=TenantId(row["tenant_id"]), endpoint=row["endpoint"], failing=row["failing"])
            for row in found
        ]

    async def consumers(self) -> Sequence[ConsumerGauges]:
        return ()

    async def streams(self) -> Sequence[StreamGauges]:
        return ()

    async def pipelines(self, seen_since: datetime) -> Sequence[PipelineGauges]:
        return ()


def _jobs(session: Session) -> list[JobGauges]:
    counts: dict[int, dict[JobStatus, int]] = defaultdict(lambda: dict.fromkeys(STATES, 0))
    for row in session.all("job_counts"):
        counts[row["queue_id"]][STATUSES[row["state"]]] += row["jobs"]
    return [
        JobGauges(
            tenant=TenantId(row["tenant_id"]),
            queue=row["queue"],
            jobs=counts[row["queue_id"]],
            ready_since=maybe_moment(row["ready_since"]),
        )
        for row in session.all("job_figures", steps=PRIORITIES)
    ]
