"""Streams: events that stay for every consumer, each at its own position."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """What the owner of a stream decides."""

    ticker_max_count: int
    """A tick at the latest after so many events…"""
    ticker_max_lag_s: float
    """…or so many seconds after an event…"""
    ticker_idle_period_s: float
    """…and without events this rarely."""
    rotation_period_s: float
    """How long events are kept at least once every consumer has had them."""
    max_retries: int
    event_ttl_s: float | None
    """Older events are skipped."""
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    name: str
    settings: StreamSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStats:
    """From ticks alone, so it costs the same however many events there are."""

    name: str
    depth: int
    """Events up to the last tick that the slowest consumer has not had."""
    oldest_age_s: float | None
    consumers: int
    events_per_s: float
    last_tick_id: int | None
    last_tick_at: datetime | None
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStats:
    name: str
    lag_s: float | None
    pending: int
    last_seen_at: datetime | None
    batch_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    type: str
    payload: str
    extras: tuple[str | None, str | None, str | None, str | None] = (None, None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: int
    type: str
    payload: str | None
    retries: int
    created_at: datetime
    extras: tuple[str | None, str | None, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """What a consumer has to acknowledge before it is given more."""

    id: int
    events: list[Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEvent:
    id: int
    consumer: str | None
    reason: str | None
    died_at: datetime
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    check: str
    status: str
    """`ok`, `warning` or `critical`."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTable:
    name: str
    current: bool
    """New events are written to it."""
    events: int
    """As PostgreSQL estimates."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonHolder:
    """Something that holds back which transactions are certain to be over, for the whole database."""

    kind: str
    """`transaction`, `prepared transaction` or `replication slot`."""
    since: datetime | None
    transactions: int
    """How many transactions began after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStorage:
    tables: list[EventTable]
    rotated_at: datetime
    due_at: datetime
    """The next rotation, unless something holds it."""
    held_by: str | None
    """The consumer that has still to read events of an older table."""
    retries: int
    """Events that wait to be delivered again."""
    holders: list[HorizonHolder]
