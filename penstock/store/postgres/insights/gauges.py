"""How much there is to do, on PostgreSQL."""

from __future__ import annotations

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
from penstock.model.stream_names import owner_of
from penstock.model.tenants import TenantId
from penstock.store.gauges import PRIORITIES
from penstock.store.postgres.connections import Connections

_STATUSES = [status for status in JobStatus if status is not JobStatus.FAILED]


class PostgresGauges:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def jobs(self) -> Sequence[JobGauges]:
        return [
            JobGauges(
                tenant=TenantId(row["tenant_id"]),
                queue=row["queue"],
                jobs={status: row[status] for status in _STATUSES},
                ready_since=row["ready_since"],
            )
            for row in await self._connections.rows("job_figures", PRIORITIES)
        ]

    async def schedules(self, now: datetime, limit: int) -> ScheduleGauges:
        row = await self._connections.row("schedule_figures", now, limit)
        assert row is not None
        return ScheduleGauges(**row)

    async def endpoints(self, attempts: int, limit: int) -> Sequence[EndpointGauges]:
        found = await self._connections.rows("endpoint_figures", attempts, limit)
        return [
            EndpointGauges(tenant=TenantId(row["tenant_id"]), endpoint=row["endpoint"], failing=row["failing"])
            for row in found
        ]

    async def consumers(self) -> Sequence[ConsumerGauges]:
        found = []
        for row in await self._connections.rows("consumer_figures"):
            tenant, stream = owner_of(row["queue_name"])
            found.append(
                ConsumerGauges(
                    tenant=tenant,
                    stream=stream,
                    consumer=row["consumer_name"],
                    pending=row["pending"],
                    lag_s=max(row["lag_s"], 0.0),
                )
            )
        return found

    async def streams(self) -> Sequence[StreamGauges]:
        found = []
        for row in await self._connections.rows("stream_figures"):
            tenant, stream = owner_of(row["queue_name"])
            age_s = max(row["tick_age_s"], 0.0)
            found.append(
                StreamGauges(tenant=tenant, stream=stream, tick_age_s=age_s, nacked=row["nacked"], dead=row["dead"])
            )
        return found

    async def pipelines(self, seen_since: datetime) -> Sequence[PipelineGauges]:
        found = await self._connections.rows("pipeline_figures", seen_since)
        return [PipelineGauges(**{**dict(row), "tenant": TenantId(row["tenant"])}) for row in found]
