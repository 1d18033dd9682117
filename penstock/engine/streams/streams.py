"""Streams: create, send, consume batch by batch, look after what failed.

The rules of streams are the store's. Here requests are checked, and consumers put to sleep and woken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from penstock import limits
from penstock.engine.checks import check_length, check_moment, check_number, check_range, check_seconds, check_text
from penstock.engine.json_checks import check_json, check_large
from penstock.engine.metrics import Labels, Metrics
from penstock.engine.waiting import Key, Look, Waiters
from penstock.errors import Invalid, InvalidName
from penstock.model.streams import (
    ConsumerStats,
    DeadEvent,
    Event,
    EventBatch,
    HealthCheck,
    NewEvent,
    Stream,
    StreamStats,
    StreamStorage,
)
from penstock.model.tenants import TenantId
from penstock.store import Store

FIRST_NAP_S = 0.015
"""A sender that began before the wait and commits after it announces nothing, so the first looks follow soon."""

_RANGES = {
    "ticker_max_count": limits.STREAM_TICK_COUNT,
    "ticker_max_lag": limits.STREAM_TICK_S,
    "ticker_idle_period": limits.STREAM_TICK_S,
    "rotation_period": limits.STREAM_ROTATION_S,
    "max_retries": limits.STREAM_RETRIES,
    "event_ttl": limits.EVENT_TTL_S,
}


class Streams:
    def __init__(self, store: Store, waiters: Waiters, metrics: Metrics) -> None:
        self._store = store.streams
        self._waiters = waiters
        self._metrics = metrics

    # Streams

    async def create(self, tenant: TenantId, name: str, settings: Mapping[str, Any]) -> tuple[Stream, bool]:
        """The stream, and whether it is new. One that exists keeps its settings."""
        check_stream(name)
        check_settings(settings)
        return await self._store.create(tenant, name, settings)

    async def get(self, tenant: TenantId, name: str) -> Stream:
        check_stream(name)
        return await self._store.get(tenant, name)

    async def list(self, tenant: TenantId, *, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[Stream]:
        check_text("prefix", prefix)
        check_text("after", after)
        return await self._store.list_streams(tenant, prefix=prefix, after=after, limit=limit)

    async def configure(self, tenant: TenantId, name: str, settings: Mapping[str, Any]) -> Stream:
        check_stream(name)
        check_settings(settings)
        return await self._store.configure(tenant, name, settings)

    async def drop(self, tenant: TenantId, name: str) -> None:
        check_stream(name)
        await self._store.drop(tenant, name)

    async def stats(self, tenant: TenantId, name: str) -> StreamStats:
        check_stream(name)
        return await self._store.stats(tenant, name)

    async def tick_now(self, tenant: TenantId, name: str) -> bool:
        """Make a tick if there are events after the last one; whether there were."""
        check_stream(name)
        ticked = await self._store.tick_on_demand(tenant, name)
        if ticked:
            self.arrived(tenant, name)
        return ticked

    async def health(self, tenant: TenantId, name: str) -> Sequence[HealthCheck]:
        check_stream(name)
        return await self._store.health(tenant, name)

    async def storage(self, tenant: TenantId, name: str) -> StreamStorage:
        """The tables of its events, and what holds back their rotation."""
        check_stream(name)
        return await self._store.storage(tenant, name)

    # Consumers

    async def consumers(self, tenant: TenantId, name: str) -> Sequence[ConsumerStats]:
        check_stream(name)
        return await self._store.consumers(tenant, name)

    async def subscribe(self, tenant: TenantId, name: str, consumer: str) -> bool:
        check_stream(name)
        check_stream(consumer, "consumer")
        return await self._store.subscribe(tenant, name, consumer)

    async def unsubscribe(self, tenant: TenantId, name: str, consumer: str) -> None:
        check_stream(name)
        check_stream(consumer, "consumer")
        await self._store.unsubscribe(tenant, name, consumer)

    # Events

    async def send(self, tenant: TenantId, name: str, events: Sequence[NewEvent]) -> Sequence[int]:
        check_stream(name)
        check_range("body", len(events), limits.BATCH_ENTRIES)
        await check_large(sum(len(event.payload) for event in events), lambda: check_events(events))
        ids = await self._store.send(tenant, name, events)
        if self._waiters.waiting((tenant, name)):
            # Waiting receivers do not wait for the ticker: the first of them to look makes the tick.
            self.arrived(tenant, name)
        return ids

    async def send_at(self, tenant: TenantId, name: str, event: NewEvent, at: datetime) -> int:
        check_stream(name)
        await check_large(len(event.payload), lambda: check_event(event))
        check_moment("at", at)
        return await self._store.send_at(tenant, name, event, at)

    async def receive(
        self, tenant: TenantId, name: str, consumer: str, limit: int = 100, wait_s: float = 0.0
    ) -> EventBatch | None:
        """The open batch, or the next one, which may come within `wait_s`."""
        check_stream(name)
        check_stream(consumer, "consumer")
        check_range("max", limit, limits.RECEIVE_LIMIT)
        check_range("wait", wait_s, limits.RECEIVE_WAIT_S)
        key = (tenant, name)
        batch = await self._waiters.poll(
            key, wait_s, lambda: self._look(key, consumer, limit), self._expect, first_nap_s=FIRST_NAP_S
        )
        if batch is not None:
            self._count_received((str(tenant), name), batch.events)
        return batch

    def _count_received(self, labels: Labels, events: Sequence[Event]) -> None:
        self._metrics.stream_batches.observe(labels, len(events))
        now = datetime.now(UTC)
        for event in events:
            if not event.retries:
                self._metrics.event_age_seconds.observe(labels, max((now - event.created_at).total_seconds(), 0.0))

    async def _look(self, key: Key, consumer: str, limit: int) -> Look[EventBatch | None]:
        batch = await self._store.receive(*key, consumer, limit)
        if batch is None and await self._store.tick_on_demand(*key):
            batch = await self._store.receive(*key, consumer, limit)
        return Look(batch, batch is None)

    async def _expect(self, key: Key) -> bool:
        return await self._store.expect(*key, self.arrived)

    async def ack(self, tenant: TenantId, name: str, consumer: str, batch: int) -> bool:
        check_stream(name)
        check_stream(consumer, "consumer")
        check_number("batch_id", batch)
        return await self._store.ack(tenant, name, consumer, batch)

    async def nack(
        self,
        tenant: TenantId,
        name: str,
        consumer: str,
        batch: int,
        event: int,
        after_s: float = 60.0,
        reason: str | None = None,
    ) -> bool:
        check_stream(name)
        check_stream(consumer, "consumer")
        check_number("batch_id", batch)
        check_number("id", event)
        check_seconds("retry_after", after_s, limits.EVENT_DELAY_S)
        check_length("reason", reason, limits.EVENT_REASON_CHARACTERS)
        return await self._store.nack(tenant, name, consumer, batch, event, after_s, reason)

    def arrived(self, tenant: TenantId, name: str) -> None:
        """There are events or a tick: every consumer that waits has its own position, so all of them look."""
        self._waiters.wake((tenant, name), count=1_000_000)

    def drain(self) -> None:
        self._waiters.stop()

    # Dead letters

    async def dead_letters(self, tenant: TenantId, name: str, limit: int = 100) -> Sequence[DeadEvent]:
        check_stream(name)
        check_range("limit", limit, limits.RECEIVE_LIMIT)
        return await self._store.dead_letters(tenant, name, limit)

    async def replay(self, tenant: TenantId, name: str, dead_letter: int | None = None) -> int:
        check_stream(name)
        check_number("id", dead_letter)
        sent = await self._store.replay(tenant, name, dead_letter)
        if sent:
            self.arrived(tenant, name)
        return sent

    async def purge_dead_letters(self, tenant: TenantId, name: str, older_than_s: float = 0.0) -> int:
        check_stream(name)
        check_seconds("older_than", older_than_s, limits.EVENT_DELAY_S)
        return await self._store.purge_dead_letters(tenant, name, older_than_s)

    # Duties

    async def tick(self) -> int | None:
        """How many streams were ticked; None when another node does it."""
        return await self._store.tick()

    async def maintain(self) -> int | None:
        return await self._store.maintain()


def check_stream(name: str, field: str = "name") -> None:
    if limits.STREAM_NAME.fullmatch(name) is None:
        raise InvalidName(f"{field} must have 1 to 40 letters, digits and - _ .", field=field)


def check_settings(settings: Mapping[str, Any]) -> None:
    for field, bounds in _RANGES.items():
        check_seconds(field, settings.get(field), bounds)


def check_events(events: Sequence[NewEvent]) -> None:
    for event in events:
        check_event(event)


def check_event(event: NewEvent) -> None:
    check_length("type", event.type, limits.EVENT_TYPE_CHARACTERS)
    if len(event.payload) > limits.MESSAGE_BYTES[1]:
        raise Invalid(f"payload must have at most {limits.MESSAGE_BYTES[1]} bytes", field="payload")
    check_json("payload", event.payload)
    for number, extra in enumerate(event.extras, start=1):
        check_length(f"extra{number}", extra, limits.EVENT_EXTRA_CHARACTERS)
