"""What a store can do with the outbox, and with the records of phones and mobile applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from penstock.model.outbox import Channel, NewOutboxItem, OutboxItem, Record, RecordKind
from penstock.model.tenants import TenantId


class OutboxStore(Protocol):
    async def add_outbox(self, items: Sequence[NewOutboxItem], now: datetime) -> list[int]:
        """Their ids, rising."""

    async def list_outbox(
        self, tenant: TenantId, *, channel: Channel | None = None, before: int | None = None, limit: int = 100
    ) -> list[OutboxItem]:
        """Newest first, those before `before`. Ends early when they reach `limits.ANSWER_BYTES`."""

    async def clear_outbox(self, tenant: TenantId) -> int: ...

    async def sweep_outbox(self, made_before: datetime, limit: int) -> int:
        """Remove items that were made before a moment, at most so many; the number removed."""

    # Records

    async def add_record(
        self,
        tenant: TenantId,
        kind: RecordKind,
        name: str,
        attributes: Mapping[str, str],
        now: datetime,
        handle: str | None = None,
    ) -> tuple[Record, bool]:
        """The new record and True; or the one that has the name or the handle already, unchanged, and False."""

    async def find_record(
        self, tenant: TenantId, kind: RecordKind, *, name: str | None = None, handle: str | None = None
    ) -> Record | None: ...

    async def list_records(
        self, tenant: TenantId, kind: RecordKind, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[Record]:
        """By name, those after `after`."""

    async def update_record(
        self, tenant: TenantId, kind: RecordKind, name: str, changes: Mapping[str, str], handle: str | None = None
    ) -> Record | None:
        """Set attributes, and the handle unless None; None when there is no such record."""

    async def drop_records(self, tenant: TenantId, kind: RecordKind, *, name: str = "", prefix: str = "") -> int:
        """The one of that name; or, where `prefix` is given, all whose names begin with it."""
