"""Streams on PostgreSQL: the schema pgque, called like any SQL user would."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from penstock import limits
from penstock.errors import StreamNotFound, SubscriptionNotFound
from penstock.model.stream_names import prefix_of, queue_of
from penstock.model.streams import (
    ConsumerStats,
    DeadEvent,
    Event,
    EventBatch,
    EventTable,
    HealthCheck,
    HorizonHolder,
    NewEvent,
    Stream,
    StreamSettings,
    StreamStats,
    StreamStorage,
)
from penstock.model.tenants import TenantId
from penstock.store.postgres.connections import Connections
from penstock.store.postgres.streams.listener import StreamListener
from penstock.store.postgres.streams.ticking import Ticking

DEFAULT_RETRIES = 5
"""What `pgque.nack` takes when a queue says nothing."""

_SECONDS = {"ticker_max_lag", "ticker_idle_period", "rotation_period", "event_ttl"}


class PostgresStreams:
    def __init__(self, dsn: str, connections: Connections) -> None:
        self._connections = connections
        self._ticking = Ticking(dsn)
        self._listener = StreamListener(dsn)

    async def close(self) -> None:
        await self._listener.close()
        await self._ticking.close()

    # Streams

    async def create(self, tenant: TenantId, name: str, settings: Mapping[str, Any]) -> tuple[Stream, bool]:
        options = json.dumps(_options(settings))
        created = await self._connections.value("create_stream", queue_of(tenant, name), options)
        return await self.get(tenant, name), bool(created)

    async def get(self, tenant: TenantId, name: str) -> Stream:
        row = await self._connections.row("get_stream", queue_of(tenant, name))
        if row is None:
            raise missing(name)
        return _stream(row, name)

    async def list_streams(self, tenant: TenantId, *, prefix: str, after: str, limit: int) -> list[Stream]:
        own = prefix_of(tenant)
        rows = await self._connections.rows("list_streams", own, prefix, after, limit)
        return [_stream(row, row["queue_name"].removeprefix(own)) for row in rows]

    async def configure(self, tenant: TenantId, name: str, settings: Mapping[str, Any]) -> Stream:
        await self.get(tenant, name)
        await self._connections.value("configure_stream", queue_of(tenant, name), json.dumps(_options(settings)))
        return await self.get(tenant, name)

    async def drop(self, tenant: TenantId, name: str) -> None:
        await self.get(tenant, name)
        await self._connections.value("drop_stream", queue_of(tenant, name))

    async def stats(self, tenant: TenantId, name: str) -> StreamStats:
        row = await self._connections.row("stream_stats", queue_of(tenant, name))
        if row is None:
            raise missing(name)
        return StreamStats(
            name=name,
            depth=row["depth"],
            oldest_age_s=row["oldest_age_s"],
            consumers=row["consumers"],
            events_per_s=row["events_per_s"],
            last_tick_id=row["last_tick_id"],
            last_tick_at=row["last_tick_time"],
            dead_letters=row["dlq_count"],
        )

    async def health(self, tenant: TenantId, name: str) -> list[HealthCheck]:
        await self.get(tenant, name)
        rows = await self._connections.rows("stream_health", queue_of(tenant, name))
        if not rows:
            raise missing(name)
        return [HealthCheck(check=row[0], status=row[1], detail=row[2] or "") for row in rows]

    async def storage(self, tenant: TenantId, name: str) -> StreamStorage:
        queue = queue_of(tenant, name)
        rotation = await self._connections.row("stream_rotation", queue)
        if rotation is None:
            raise missing(name)
        tables = await self._connections.rows("stream_tables", queue)
        holders = await self._connections.rows("horizon_holders")
        return StreamStorage(
            tables=[EventTable(**row) for row in tables],
            holders=[HorizonHolder(**row) for row in holders],
            **rotation,
        )

    # Consumers

    async def consumers(self, tenant: TenantId, name: str) -> list[ConsumerStats]:
        await self.get(tenant, name)
        return [
            ConsumerStats(
                name=row["consumer_name"],
                lag_s=row["lag_s"],
                pending=row["pending_events"],
                last_seen_at=row["last_seen"],
                batch_id=row["batch_id"],
            )
            for row in await self._connections.rows("stream_consumers", queue_of(tenant, name))
        ]

    async def subscribe(self, tenant: TenantId, name: str, consumer: str) -> bool:
        await self.get(tenant, name)
        return bool(await self._connections.value("subscribe_stream", queue_of(tenant, name), consumer))

    async def unsubscribe(self, tenant: TenantId, name: str, consumer: str) -> None:
        await self.get(tenant, name)
        if not await self._connections.value("unsubscribe_stream", queue_of(tenant, name), consumer):
            raise unknown(consumer)

    # Events

    async def send(self, tenant: TenantId, name: str, events: Sequence[NewEvent]) -> list[int]:
        types = [event.type for event in events]
        columns = [_column([event.extras[place] for event in events]) for place in range(4)]
        payloads = [event.payload for event in events]
        with naming(name):
            return list(await self._connections.value("send_events", queue_of(tenant, name), types, payloads, *columns))

    async def send_at(self, tenant: TenantId, name: str, event: NewEvent, at: datetime) -> int:
        await self.get(tenant, name)
        queue = queue_of(tenant, name)
        return int(await self._connections.value("send_event_at", queue, event.type, event.payload, at, *event.extras))

    async def receive(self, tenant: TenantId, name: str, consumer: str, limit: int) -> EventBatch | None:
        rows = await self._connections.rows(
            "receive_events", queue_of(tenant, name), consumer, limit, limits.ANSWER_BYTES
        )
        if not rows:
            await self.get(tenant, name)
            raise unknown(consumer)
        events = [_event(row) for row in rows if row["msg_id"] is not None]
        return EventBatch(id=rows[0]["batch_id"], events=events) if events else None

    async def ack(self, tenant: TenantId, name: str, consumer: str, batch: int) -> bool:
        if not await self._owns(tenant, name, consumer, batch):
            return False
        return bool(await self._connections.value("ack_events", batch))

    async def nack(
        self, tenant: TenantId, name: str, consumer: str, batch: int, event: int, after_s: float, reason: str | None
    ) -> bool:
        if not await self._owns(tenant, name, consumer, batch):
            return False
        await self._connections.value("nack_event", batch, event, after_s, reason)
        return True

    async def _owns(self, tenant: TenantId, name: str, consumer: str, batch: int) -> bool:
        await self.get(tenant, name)
        return await self._connections.value("open_batch_of", queue_of(tenant, name), consumer, batch) is not None

    # Dead letters

    async def dead_letters(self, tenant: TenantId, name: str, limit: int) -> list[DeadEvent]:
        await self.get(tenant, name)
        return [
            DeadEvent(
                id=row["dl_id"],
                consumer=row["dl_consumer_name"],
                reason=row["dl_reason"],
                died_at=row["dl_time"],
                event=Event(
                    id=row["ev_id"],
                    type=row["ev_type"],
                    payload=row["ev_data"],
                    retries=row["ev_retry"] or 0,
                    created_at=row["ev_time"],
                    extras=(row["ev_extra1"], row["ev_extra2"], row["ev_extra3"], row["ev_extra4"]),
                ),
            )
            for row in await self._connections.rows("dead_events", queue_of(tenant, name), limit, limits.ANSWER_BYTES)
        ]

    async def replay(self, tenant: TenantId, name: str, dead_letter: int | None) -> int:
        await self.get(tenant, name)
        queue = queue_of(tenant, name)
        if dead_letter is None:
            return int(await self._connections.value("replay_dead_events", queue))
        return int(await self._connections.value("replay_dead_event", queue, dead_letter) is not None)

    async def purge_dead_letters(self, tenant: TenantId, name: str, older_than_s: float) -> int:
        await self.get(tenant, name)
        return int(await self._connections.value("purge_dead_events", queue_of(tenant, name), older_than_s))

    # Waiting and ticking

    async def tick_on_demand(self, tenant: TenantId, name: str) -> bool:
        with naming(name):
            return await self._connections.value("tick_stream_on_demand", queue_of(tenant, name)) is not None

    async def expect(self, tenant: TenantId, name: str, wake_up: Callable[[TenantId, str], None]) -> bool:
        return await self._listener.expect(queue_of(tenant, name), lambda: wake_up(tenant, name))

    async def tick(self) -> int | None:
        return await self._ticking.tick()

    async def maintain(self) -> int | None:
        return await self._ticking.maintain()


@contextmanager
def naming(name: str) -> Iterator[None]:
    """A stream is missing under the name its tenant knows it by."""
    try:
        yield
    except StreamNotFound:
        raise missing(name) from None


def missing(name: str) -> StreamNotFound:
    return StreamNotFound(f"Stream '{name}' does not exist", field="name")


def unknown(consumer: str) -> SubscriptionNotFound:
    return SubscriptionNotFound(f"Consumer '{consumer}' is not registered", field="consumer")


def _options(settings: Mapping[str, Any]) -> dict[str, str | None]:
    """As `pgque.set_queue_config` takes them: texts, durations as intervals."""
    found: dict[str, str | None] = {}
    for name, value in settings.items():
        if name == "paused":
            found["ticker_paused"] = str(value).lower()
        else:
            found[name] = None if value is None else f"{value} seconds" if name in _SECONDS else str(value)
    return found


def _stream(row: Mapping[str, Any], name: str) -> Stream:
    retries = row["queue_max_retries"]
    settings = StreamSettings(
        ticker_max_count=row["queue_ticker_max_count"],
        ticker_max_lag_s=row["queue_ticker_max_lag"].total_seconds(),
        ticker_idle_period_s=row["queue_ticker_idle_period"].total_seconds(),
        rotation_period_s=row["queue_rotation_period"].total_seconds(),
        max_retries=DEFAULT_RETRIES if retries is None else retries,
        event_ttl_s=_seconds(row["queue_event_ttl"]),
        paused=row["queue_ticker_paused"],
    )
    return Stream(name=name, settings=settings)


def _seconds(interval: timedelta | None) -> float | None:
    return None if interval is None else interval.total_seconds()


def _event(row: Mapping[str, Any]) -> Event:
    return Event(
        id=row["msg_id"],
        type=row["type"],
        payload=row["payload"],
        retries=row["retry_count"] or 0,
        created_at=row["created_at"],
        extras=(row["extra1"], row["extra2"], row["extra3"], row["extra4"]),
    )


def _column(values: list[str | None]) -> list[str | None] | None:
    return values if any(value is not None for value in values) else None
