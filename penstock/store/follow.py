"""What a store can tell about one message, event or publish, wherever it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from penstock.model.follow import FifoGroup, FollowedEvent, FollowedMessage
from penstock.model.tenants import TenantId
from penstock.model.topics import Delivery


class FollowStore(Protocol):
    async def messages(self, tenant: TenantId, number: int) -> Sequence[FollowedMessage]:
        """The message with this id: in a queue, in the archive, or in both after a restore."""

    async def traced_messages(
        self, tenant: TenantId, beginnings: Sequence[str], limit: int
    ) -> Sequence[FollowedMessage]:
        """Messages whose trace begins with one of these texts, in queues and in the archive."""

    async def deliveries(self, tenant: TenantId, message_id: str, limit: int) -> Sequence[Delivery]:
        """Webhook deliveries of a publish."""

    async def events(self, tenant: TenantId, number: int, stream: str | None) -> Sequence[FollowedEvent]:
        """The event with this id of each stream, or of one; none where streams are not supported."""

    async def traced_events(
        self, tenant: TenantId, beginnings: Sequence[str], recent: int, limit: int
    ) -> Sequence[FollowedEvent]:
        """Among the `recent` last events of each stream, those whose trace begins with one of these texts."""

    async def hidden(self, tenant: TenantId, queue: str, limit: int, now: datetime) -> Sequence[FollowedMessage]:
        """Messages in flight and delayed ones, those that become visible first before the others."""

    async def groups(self, tenant: TenantId, queue: str, among: int, limit: int) -> Sequence[FifoGroup]:
        """Groups of a FIFO queue, those with most messages first, among its first `among` messages."""
