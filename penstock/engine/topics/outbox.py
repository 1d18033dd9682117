"""The outbox: text messages, mail and push notices are written here and never leave the machine.

Beside it are the records of phones and mobile applications that the SNS door keeps for its clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from penstock.clock import Clock
from penstock.engine.checks import check_text
from penstock.model.outbox import Channel, NewOutboxItem, OutboxItem, Record, RecordKind
from penstock.model.tenants import TenantId
from penstock.store import Store

KEPT = timedelta(days=14)


class Outbox:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def add(self, items: Sequence[NewOutboxItem]) -> list[int]:
        return await self._store.outbox.add_outbox(items, self._clock.now()) if items else []

    async def sweep(self, limit: int) -> int:
        return await self._store.outbox.sweep_outbox(self._clock.now() - KEPT, limit)

    async def list(
        self, tenant: TenantId, *, channel: Channel | None = None, before: int | None = None, limit: int = 100
    ) -> Sequence[OutboxItem]:
        return await self._store.outbox.list_outbox(tenant, channel=channel, before=before, limit=limit)

    async def clear(self, tenant: TenantId) -> int:
        return await self._store.outbox.clear_outbox(tenant)


class Records:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def add(
        self, tenant: TenantId, kind: RecordKind, name: str, attributes: Mapping[str, str], handle: str | None = None
    ) -> tuple[Record, bool]:
        """The record, and whether it is new. One that has the name or the handle already stays as it is."""
        _check_record(name, attributes)
        return await self._store.outbox.add_record(tenant, kind, name, attributes, self._clock.now(), handle)

    async def put(self, tenant: TenantId, kind: RecordKind, name: str, attributes: Mapping[str, str]) -> None:
        """Add it, or change the one there is."""
        _, created = await self.add(tenant, kind, name, attributes)
        if not created:
            await self.update(tenant, kind, name, attributes)

    async def find(self, tenant: TenantId, kind: RecordKind, name: str) -> Record | None:
        return await self._store.outbox.find_record(tenant, kind, name=name)

    async def list(
        self, tenant: TenantId, kind: RecordKind, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Record]:
        return await self._store.outbox.list_records(tenant, kind, prefix=prefix, after=after, limit=limit)

    async def update(
        self, tenant: TenantId, kind: RecordKind, name: str, changes: Mapping[str, str], handle: str | None = None
    ) -> Record | None:
        _check_record(name, attributes=changes)
        return await self._store.outbox.update_record(tenant, kind, name, changes, handle)

    async def drop(self, tenant: TenantId, kind: RecordKind, *, name: str = "", prefix: str = "") -> int:
        """The one of that name; or all whose names begin with `prefix`."""
        return await self._store.outbox.drop_records(tenant, kind, name=name, prefix=prefix)


def _check_record(name: str, attributes: Mapping[str, str]) -> None:
    check_text("name", name)
    for key, value in attributes.items():
        check_text("attributes", key)
        check_text("attributes", value)
