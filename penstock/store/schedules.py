"""What every store can do with schedules.

A store computes no times: it is told what is next. What it guarantees is that a fire happens once: a firing names the
time it was made for, and the store makes its messages and advances the schedule, together, only while that time is
still the next one. So any number of nodes may try the same firing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from penstock.model import TenantId
from penstock.model.schedules import Fired, Firing, PastFire, Schedule, ScheduleSettings, ScheduleStatus, TargetKind
from penstock.model.topics import Fanout

KEPT_FIRES = 100
"""Of each schedule."""
LONGEST_RETRY_S = 300
"""A schedule that fails waits 1, 2, 4, … seconds before it is tried again, at most so long."""

ScheduleCursor = tuple[datetime, int]
"""The due moment and the id of a schedule, which is how they lie in their index. A walk that begins at one does not
meet the dead rows before it, of which there are many while a long transaction keeps them from being cleared."""
BEGINNING: ScheduleCursor = (datetime(1970, 1, 1, tzinfo=UTC), 0)


class ScheduleStore(Protocol):
    async def create(
        self,
        tenant: TenantId,
        name: str,
        settings: ScheduleSettings,
        status: ScheduleStatus,
        next_fire_at: datetime,
        due_at: datetime,
        now: datetime,
    ) -> Schedule:
        """Raises `ScheduleExists` when the name is taken."""

    async def get(self, tenant: TenantId, name: str) -> Schedule:
        """Raises `ScheduleNotFound`."""

    async def list(
        self, tenant: TenantId, *, status: ScheduleStatus | None, kind: TargetKind | None, prefix: str, limit: int
    ) -> Sequence[Schedule]:
        """By name, without their bodies and headers."""

    async def update(self, changed: Schedule, now: datetime) -> Schedule | None:
        """Write what `changed` says, unless the schedule was fired or changed since it was read: then None."""

    async def delete(self, tenant: TenantId, name: str) -> bool: ...

    async def next_due_at(self, after: ScheduleCursor = BEGINNING) -> datetime | None:
        """When the first of all active schedules behind a place is due. Cheap: it is asked at every poll."""

    async def due(self, now: datetime, limit: int, after: ScheduleCursor = BEGINNING) -> Sequence[Schedule]:
        """Active schedules that are due, the longest due first, those behind a place."""

    async def fire(self, firings: Sequence[Firing], now: datetime) -> Sequence[Fired]:
        """Fire and advance them all in one transaction. One that fails leaves the others alone."""

    async def fires(self, schedule: Schedule, limit: int) -> Sequence[PastFire]:
        """What became of the latest fires, newest first."""

    async def sweep_fires(self, before: datetime, limit: int) -> int:
        """Remove at most `limit` fires from before this moment; the number removed."""

    async def run(self, schedule: Schedule, at: datetime, now: datetime, fanouts: Sequence[Fanout] = ()) -> Fired:
        """Fire once, beside the timetable, which does not move."""
