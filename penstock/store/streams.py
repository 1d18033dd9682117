"""What a store can do with streams.

Streams are the schema `pgque` of PostgreSQL, where SQL users find them too. Its names know no tenants, so that a store
keeps the streams of a tenant under names that no other tenant can ask for. Moments are the database's: ticks and
batches stand on what it saw of transactions, not on a clock of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, Protocol

from penstock.errors import Unsupported
from penstock.model.streams import (
    ConsumerStats,
    DeadEvent,
    EventBatch,
    HealthCheck,
    NewEvent,
    Stream,
    StreamStats,
    StreamStorage,
)
from penstock.model.tenants import TenantId


class StreamStore(Protocol):
    """Verbs raise `StreamNotFound` for an unknown stream, `SubscriptionNotFound` for an unknown consumer of it."""

    async def create(self, tenant: TenantId, name: str, settings: Mapping[str, Any]) -> tuple[Stream, bool]:
        """The new stream and True; or the one that has the name already, unchanged, and False."""

    async def get(self, tenant: TenantId, name: str) -> Stream: ...

    async def list_streams(self, tenant: TenantId, *, prefix: str, after: str, limit: int) -> list[Stream]:
        """By name, those after `after`."""

    async def configure(self, tenant: TenantId, name: str, settings: Mapping[str, Any]) -> Stream: ...

    async def drop(self, tenant: TenantId, name: str) -> None:
        """With its events and its consumers."""

    async def stats(self, tenant: TenantId, name: str) -> StreamStats: ...

    async def health(self, tenant: TenantId, name: str) -> list[HealthCheck]: ...

    async def storage(self, tenant: TenantId, name: str) -> StreamStorage:
        """The tables of its events, and what holds back their rotation."""

    # Consumers

    async def consumers(self, tenant: TenantId, name: str) -> list[ConsumerStats]: ...

    async def subscribe(self, tenant: TenantId, name: str, consumer: str) -> bool:
        """True when it is new; it is given what is sent from now on."""

    async def unsubscribe(self, tenant: TenantId, name: str, consumer: str) -> None: ...

    # Events

    async def send(self, tenant: TenantId, name: str, events: Sequence[NewEvent]) -> list[int]:
        """All or none; the ids in the order given."""

    async def send_at(self, tenant: TenantId, name: str, event: NewEvent, at: datetime) -> int:
        """The number it waits under, which is not the id it will have."""

    async def receive(self, tenant: TenantId, name: str, consumer: str, limit: int) -> EventBatch | None:
        """The open batch again, or the next piece or batch; None when there is nothing behind the last tick."""

    async def ack(self, tenant: TenantId, name: str, consumer: str, batch: int) -> bool:
        """False when the batch is not, or no longer, the consumer's."""

    async def nack(
        self, tenant: TenantId, name: str, consumer: str, batch: int, event: int, after_s: float, reason: str | None
    ) -> bool:
        """Have one event of the batch delivered again later. False as with `ack`."""

    # Dead letters

    async def dead_letters(self, tenant: TenantId, name: str, limit: int) -> list[DeadEvent]: ...

    async def replay(self, tenant: TenantId, name: str, dead_letter: int | None) -> int:
        """Send one back into the stream, or all of them; how many."""

    async def purge_dead_letters(self, tenant: TenantId, name: str, older_than_s: float) -> int: ...

    # Waiting and ticking

    async def tick_on_demand(self, tenant: TenantId, name: str) -> bool:
        """Tick at once when there are events since the last tick; whether there were. From now on, for a few seconds,
        senders announce what they send."""

    async def expect(self, tenant: TenantId, name: str, wake_up: Callable[[TenantId, str], None]) -> bool:
        """Call `wake_up` at announcements and at ticks. True when that is new, and worth another look."""

    async def tick(self) -> int | None:
        """Tick every stream that is due; how many were. None when another node does it at the moment."""

    async def maintain(self) -> int | None:
        """Rotate tables, bring retries and delayed events back; how much there was to do. None as with `tick`."""


async def _refuse(*_: object, **__: object) -> NoReturn:
    raise Unsupported("streams require PostgreSQL; this server runs without it")


async def _nothing(*_: object, **__: object) -> None:
    return None


class NoStreams:
    """For a store without streams: every verb says so, and the loops have nothing to do."""

    create = get = list_streams = configure = drop = stats = health = storage = _refuse
    consumers = subscribe = unsubscribe = send = send_at = receive = ack = nack = _refuse
    dead_letters = replay = purge_dead_letters = tick_on_demand = expect = _refuse
    tick = maintain = _nothing
