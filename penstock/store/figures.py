"""What a store tells about how much there is to do. Every verb costs the same however much that is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from penstock.model.figures import ConsumerFigures, JobFigures, ScheduleFigures, StreamFigures

PRIORITIES = 100
"""So many priorities of a queue, from the highest on, are looked at for the job that waits longest."""


class FigureStore(Protocol):
    """Of all tenants: these are for operators."""

    async def jobs(self) -> Sequence[JobFigures]:
        """A row for each queue of jobs."""

    async def schedules(self, now: datetime, limit: int) -> ScheduleFigures:
        """Counted up to `limit`."""

    async def consumers(self) -> Sequence[ConsumerFigures]:
        """Nothing where there are no streams, and so for `streams`."""

    async def streams(self) -> Sequence[StreamFigures]: ...
