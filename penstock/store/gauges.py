"""What a store tells about how much there is to do. Every verb costs the same however much that is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from penstock.model.gauges import (
    ConsumerGauges,
    EndpointGauges,
    JobGauges,
    PipelineGauges,
    ScheduleGauges,
    StreamGauges,
)

PRIORITIES = 100
"""So many priorities of a queue, from the highest on, are looked at for the job that waits longest."""


class GaugeStore(Protocol):
    """Of all tenants: these are for operators."""

    async def jobs(self) -> Sequence[JobGauges]:
        """A row for each queue of jobs."""

    async def schedules(self, now: datetime, limit: int) -> ScheduleGauges:
        """Counted up to `limit`."""

    async def endpoints(self, attempts: int, limit: int) -> Sequence[EndpointGauges]:
        """Endpoints with unfinished deliveries that failed so often, of which up to `limit` are counted."""

    async def consumers(self) -> Sequence[ConsumerGauges]:
        """Nothing where there are no streams, and so for `streams`."""

    async def streams(self) -> Sequence[StreamGauges]: ...

    async def pipelines(self, seen_since: datetime) -> Sequence[PipelineGauges]:
        """The last run of each pipeline. One that was active and has not been seen since is lost."""
