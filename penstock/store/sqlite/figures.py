"""How much there is to do, on SQLite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from penstock.model.figures import ConsumerFigures, JobFigures, ScheduleFigures, StreamFigures
from penstock.model.jobs import JobStatus
from penstock.model.tenants import TenantId
from penstock.store.figures import PRIORITIES
from penstock.store.sqlite.connection import Database
from penstock.store.sqlite.jobs import STATES, STATUSES
from penstock.store.sqlite.moments import maybe_moment, micros
from penstock.store.sqlite.session import Session


class SqliteFigures:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def jobs(self) -> Sequence[JobFigures]:
        return await self._database.read(_jobs)

    async def schedules(self, now: datetime, limit: int) -> ScheduleFigures:
        row = await self._database.read(lambda s: s.first("schedule_figures", now=micros(now), limit=limit))
        assert row is not None
        return ScheduleFigures(
            active=row["active"], paused=row["paused"], overdue=row["overdue"], due_at=maybe_moment(row["due_at"])
        )

    async def consumers(self) -> Sequence[ConsumerFigures]:
        return ()

    async def streams(self) -> Sequence[StreamFigures]:
        return ()


def _jobs(session: Session) -> list[JobFigures]:
    counts: dict[int, dict[JobStatus, int]] = defaultdict(lambda: dict.fromkeys(STATES, 0))
    for row in session.all("job_counts"):
        counts[row["queue_id"]][STATUSES[row["state"]]] += row["jobs"]
    return [
        JobFigures(
            tenant=TenantId(row["tenant_id"]),
            queue=row["queue"],
            jobs=counts[row["queue_id"]],
            ready_since=maybe_moment(row["ready_since"]),
        )
        for row in session.all("job_figures", steps=PRIORITIES)
    ]
