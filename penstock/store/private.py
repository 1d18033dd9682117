"""What a store can do with private queues. Only PostgreSQL has them.

A change returns the record as it is now, or None when the record is gone or its state forbids the change: the
condition is part of the statement, so a cached copy never decides.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import NoReturn, Protocol

from penstock.errors import Unsupported
from penstock.model.private import (
    LinkData,
    NewPrivateQueue,
    Party,
    PrivateCounts,
    PrivateRecord,
    PrivateStatus,
    ServiceSummary,
)

Changed = Callable[[int | None, int], None]
"""Called with the number and version of a record another node changed; with None when anything may have changed."""


class PrivateStore(Protocol):
    async def create_many(self, new: Sequence[NewPrivateQueue], now: datetime) -> list[PrivateRecord | None]:
        """Store the records, all in one statement; None in the place of one with an id that is taken."""

    async def find(self, party: Party, ids: Sequence[bytes]) -> list[PrivateRecord]:
        """The records with these ids that are not deleted, in no order; one statement however many."""

    async def get(self, number: int) -> PrivateRecord | None: ...

    async def secure(self, number: int, key: bytes) -> PrivateRecord | None:
        """Set the sender's key; None when there is one already."""

    async def set_notifier(self, number: int, notifier_id: bytes | None, key: bytes | None) -> PrivateRecord | None:
        """Set or remove the notifier; `Conflict` when the id is taken."""

    async def set_webhook(self, number: int, subscription_key: str | None) -> PrivateRecord | None: ...

    async def set_link(self, number: int, link_id: bytes, data: LinkData) -> PrivateRecord | None:
        """Set the link; None when the record has another link, or other fixed data. `Conflict` when the id is taken."""

    async def clear_link(self, number: int) -> PrivateRecord | None: ...

    async def link_data(self, link_id: bytes) -> LinkData | None: ...

    async def set_status(self, number: int, status: PrivateStatus, reason: str | None) -> PrivateRecord | None: ...

    async def set_recipient_keys(self, number: int, keys: Sequence[bytes]) -> PrivateRecord | None: ...

    async def touch(self, numbers: Sequence[int], now: datetime) -> int:
        """Note that the records are in use."""

    async def delete(self, number: int, now: datetime) -> PrivateRecord | None:
        """Mark as deleted: nobody finds it any more. `compact` removes it later."""

    async def compact(self, before: datetime, limit: int) -> list[int]:
        """Remove records deleted before a moment, at most so many; their numbers."""

    async def service(self, fingerprint: bytes, now: datetime) -> int:
        """The id of the service with this certificate, made when there is none."""

    async def associate(self, number: int, service_id: int | None) -> PrivateRecord | None:
        """Give a record to a service; `NotFound` when there is no such service."""

    async def service_summary(self, service_id: int) -> ServiceSummary | None: ...

    async def counts(self) -> PrivateCounts: ...

    def stream(self) -> AsyncIterator[PrivateRecord]:
        """Every record that is not deleted, by number, without holding all of them."""

    async def import_many(self, records: Iterable[NewPrivateQueue], now: datetime) -> int:
        """Store many records by binary COPY, all or none; `Conflict` when an id is taken."""

    def watch(self, changed: Changed) -> None:
        """Call this when another node changes a record."""


UNSUPPORTED = "private queues require PostgreSQL; this server runs without it"


async def _refuse(*_: object, **__: object) -> NoReturn:
    raise Unsupported(UNSUPPORTED)


class NoPrivateQueues:
    create_many = find = get = secure = set_notifier = set_webhook = set_link = clear_link = link_data = _refuse
    set_status = set_recipient_keys = touch = delete = compact = service = associate = service_summary = _refuse
    counts = import_many = _refuse

    def stream(self) -> AsyncIterator[PrivateRecord]:
        raise Unsupported(UNSUPPORTED)

    def watch(self, changed: Changed) -> None:
        """Nothing changes where nothing is stored."""
