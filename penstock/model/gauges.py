"""How much there is to do: what a server tells its operators about jobs, schedules and streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from penstock.model.jobs import JobStatus
from penstock.model.tenants import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGauges:
    """Of one queue of jobs."""

    tenant: TenantId
    queue: str
    jobs: Mapping[JobStatus, int]
    ready_since: datetime | None
    """Since when a worker could have had the one that waits longest, of the jobs that are next in their priority."""

    @property
    def total(self) -> int:
        return sum(self.jobs.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleGauges:
    """Of all schedules. Each number is counted up to a limit: beyond that more is just more."""

    active: int
    paused: int
    overdue: int
    due_at: datetime | None
    """When the first of the active ones is due, or was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGauges:
    """Of one consumer of a stream, from ticks alone."""

    tenant: TenantId
    stream: str
    consumer: str
    pending: int
    """Events up to the last tick that it has not had."""
    lag_s: float
    """Seconds since the tick up to which it has had everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointGauges:
    """Of one endpoint with deliveries that keep failing."""

    tenant: TenantId
    endpoint: str
    failing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGauges:
    tenant: TenantId
    stream: str
    tick_age_s: float
    """Seconds since its last tick."""
    nacked: int
    """Failures that its consumers ever reported."""
    dead: int
    """Dead letters; more than a thousand are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGauges:
    """Of the last run of a pipeline."""

    tenant: TenantId
    pipeline: str
    running: bool
    failed: bool
    """Or lost."""
    rows: int
    lag_events: int
    lag_s: float
    seen_at: datetime
