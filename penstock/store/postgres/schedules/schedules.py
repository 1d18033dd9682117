"""Schedules on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from penstock.errors import ScheduleExists, ScheduleNotFound
from penstock.model import TenantId
from penstock.model.schedules import (
    Fired,
    Firing,
    PastFire,
    Schedule,
    ScheduleSettings,
    ScheduleStatus,
    TargetKind,
    TimetableKind,
    mark,
    stamp,
)
from penstock.model.topics import Fanout
from penstock.store.postgres.connections import Connections
from penstock.store.schedules import BEGINNING, KEPT_FIRES, LONGEST_RETRY_S, ScheduleCursor

_COLUMNS = [field.name for field in fields(ScheduleSettings)]
"""In the order of the statements; `json` is the column `is_json`."""


class PostgresSchedules:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

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
        row = await self._connections.row(
            "create_schedule", tenant, name, status, *_values(settings), next_fire_at, due_at, now
        )
        if row is None:
            raise ScheduleExists(f"Schedule '{name}' already exists", field="name")
        return _schedule(row)

    async def get(self, tenant: TenantId, name: str) -> Schedule:
        row = await self._connections.row("get_schedule", tenant, name)
        if row is None:
            raise ScheduleNotFound(f"Schedule '{name}' does not exist", field="name")
        return _schedule(row)

    async def list(
        self, tenant: TenantId, *, status: ScheduleStatus | None, kind: TargetKind | None, prefix: str, limit: int
    ) -> Sequence[Schedule]:
        found = await self._connections.rows("list_schedules", tenant, status, kind, prefix, limit)
        return [_schedule(row) for row in found]

    async def update(self, changed: Schedule, now: datetime) -> Schedule | None:
        row = await self._connections.row(
            "update_schedule",
            changed.tenant,
            changed.id,
            changed.revision,
            changed.status,
            *_values(changed.settings),
            changed.next_fire_at,
            changed.due_at,
            changed.consecutive_failures,
            changed.last_error,
            now,
        )
        return None if row is None else _schedule(row)

    async def delete(self, tenant: TenantId, name: str) -> bool:
        return await self._connections.value("delete_schedule", tenant, name) is not None

    async def next_due_at(self, after: ScheduleCursor = BEGINNING) -> datetime | None:
        found: datetime | None = await self._connections.value("next_schedule_due", *after, durable=False)
        return found

    async def due(self, now: datetime, limit: int, after: ScheduleCursor = BEGINNING) -> Sequence[Schedule]:
        return [_schedule(row) for row in await self._connections.rows("due_schedules", now, limit, *after)]

    async def fire(self, firings: Sequence[Firing], now: datetime) -> Sequence[Fired]:
        pairs = [(place, firing, time) for place, firing in enumerate(firings, 1) for time in firing.times]
        found = await self._connections.rows(
            "fire_schedules",
            [firing.schedule.id for firing in firings],
            [firing.schedule.next_fire_at for firing in firings],
            [firing.next_fire_at for firing in firings],
            [firing.due_at for firing in firings],
            [firing.times[-1] for firing in firings],
            [firing.error for firing in firings],
            [place for place, _, _ in pairs],
            [stamp(time) for _, _, time in pairs],
            [_mark(firing.schedule, time) for _, firing, time in pairs],
            LONGEST_RETRY_S,
            now,
            KEPT_FIRES,
            [firing.schedule.revision for firing in firings],
        )
        by_id = {firing.schedule.id: firing for firing in firings}
        return [_fired(by_id[row["schedule_id"]], row) for row in found]

    async def fires(self, schedule: Schedule, limit: int) -> Sequence[PastFire]:
        return [PastFire(**row) for row in await self._connections.rows("schedule_fires", schedule.id, limit)]

    async def sweep_fires(self, before: datetime, limit: int) -> int:
        return int(await self._connections.value("sweep_fires", before, limit))

    async def run(self, schedule: Schedule, at: datetime, now: datetime, fanouts: Sequence[Fanout] = ()) -> Fired:
        text = mark(schedule.name, at, out_of_band=True, trace=schedule.trace)
        ids = await self._connections.value("run_schedule", schedule.id, stamp(at), text, now)
        return Fired(schedule=schedule, times=(at,), ids=_ids(schedule, ids))


def _mark(schedule: Schedule, time: datetime) -> str:
    return mark(schedule.name, time, out_of_band=False, trace=schedule.trace)


def _fired(firing: Firing, row: Mapping[str, Any]) -> Fired:
    ids = _ids(firing.schedule, row["ids"] or ())
    return Fired(schedule=firing.schedule, times=firing.times, ids=ids, error=row["error"])


def _ids(schedule: Schedule, ids: Sequence[str]) -> tuple[int | str, ...]:
    """Messages and events have numbers, jobs have other names."""
    return tuple(int(each) if each.isdigit() else each for each in ids)


def _values(settings: ScheduleSettings) -> list[Any]:
    return [getattr(settings, name) for name in _COLUMNS]


def _schedule(row: Mapping[str, Any]) -> Schedule:
    values = {name: row["is_json" if name == "json" else name] for name in _COLUMNS}
    values["target_kind"] = TargetKind(values["target_kind"])
    values["kind"] = TimetableKind(values["kind"])
    return Schedule(
        id=row["id"],
        tenant=TenantId(row["tenant_id"]),
        name=row["name"],
        status=ScheduleStatus(row["status"]),
        settings=ScheduleSettings(**values),
        next_fire_at=row["next_fire_at"],
        due_at=row["due_at"],
        last_fire_at=row["last_fire_at"],
        fires=row["fires"],
        consecutive_failures=row["consecutive_failures"],
        last_error=row["last_error"],
        revision=row["revision"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        unplanned=row["unplanned"],
    )
