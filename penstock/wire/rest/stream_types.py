"""The shapes of the native REST API for streams."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock import limits
from penstock.wire.rest.types import Moment, Strict, Wait


def _within(bounds: tuple[int, int], text: str) -> Meta:
    return Meta(ge=bounds[0], le=bounds[1], description=text)


StreamName = Annotated[
    str,
    Meta(
        description="1 to 40 letters, digits, hyphens, underscores and dots.",
        extra_json_schema={"pattern": r"^[A-Za-z0-9_.-]{1,40}$"},
    ),
]
TickCount = Annotated[int, _within(limits.STREAM_TICK_COUNT, "Events before a tick, at most.")]
TickLag = Annotated[float, _within(limits.STREAM_TICK_S, "Seconds from an event to a tick, at most.")]
TickIdle = Annotated[float, _within(limits.STREAM_TICK_S, "Seconds between ticks without events.")]
Rotation = Annotated[float, _within(limits.STREAM_ROTATION_S, "Seconds between two turns of the event tables.")]
Retries = Annotated[int, _within(limits.STREAM_RETRIES, "Retries before an event becomes a dead letter.")]
Ttl = Annotated[float, _within(limits.EVENT_TTL_S, "Seconds after which an event is skipped; null for never.")]
RetryAfter = Annotated[float, _within(limits.EVENT_DELAY_S, "Seconds before the event comes again.")]


class StreamOptions(Strict, kw_only=True):
    """The settings of a stream. What is left out stays as it is, or as a new stream has it."""

    ticker_max_count: TickCount | UnsetType = UNSET
    ticker_max_lag: TickLag | UnsetType = UNSET
    ticker_idle_period: TickIdle | UnsetType = UNSET
    rotation_period: Rotation | UnsetType = UNSET
    max_retries: Retries | UnsetType = UNSET
    event_ttl: Ttl | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET


class NewStream(StreamOptions, kw_only=True):
    name: StreamName


class ChangedStream(StreamOptions, kw_only=True):
    """What to change. null clears event_ttl."""


class StreamSettings(Struct, kw_only=True):
    ticker_max_count: int
    ticker_max_lag: float
    ticker_idle_period: float
    rotation_period: float
    max_retries: int
    event_ttl: float | None
    paused: bool


class Stream(Struct, kw_only=True):
    name: str
    settings: StreamSettings


class StreamStats(Struct, kw_only=True):
    """From ticks alone: what came after the last one is not counted yet."""

    name: str
    depth: Annotated[int, Meta(description="Events that the slowest consumer has not had.")]
    oldest_age: float | None
    consumers: int
    events_per_second: float
    last_tick_id: int | None
    last_tick_at: Moment | None
    dead_letters: int
    settings: StreamSettings


class Check(Struct, kw_only=True):
    check: str
    status: Annotated[str, Meta(description="ok, warning or critical.")]
    detail: str


class NewConsumer(Strict, kw_only=True):
    name: StreamName


class Consumer(Struct, kw_only=True):
    name: str


class ConsumerStats(Struct, kw_only=True):
    name: str
    lag: float | None
    pending: int
    last_seen_at: Moment | None
    batch_id: int | None


class NewEvent(Strict, kw_only=True):
    payload: Annotated[Raw, Meta(description="Any JSON value. A string is stored as plain text.")]
    type: str = "default"
    extra1: str | None = None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None
    at: Annotated[Moment, Meta(description="Send it at this moment. Not in an array.")] | None = None
    delay: Annotated[float, _within(limits.EVENT_DELAY_S, "Send it after so many seconds. Not in an array.")] | None = (
        None
    )


class SentEvent(Struct):
    id: int


class SentEvents(Struct):
    ids: list[int]


class ScheduledEvent(Struct):
    scheduled_id: Annotated[int, Meta(description="What it waits under; the event will have an id of its own.")]


class BatchQuery(Strict):
    max: Annotated[int, _within(limits.RECEIVE_LIMIT, "Events at most; the rest of the batch comes next.")] = 100
    wait: Wait = 0


class Event(Struct, omit_defaults=True, kw_only=True):
    id: int
    type: str
    payload: Raw | str | None
    retries: int
    created_at: Moment
    extra1: str | UnsetType = UNSET
    extra2: str | UnsetType = UNSET
    extra3: str | UnsetType = UNSET
    extra4: str | UnsetType = UNSET


class Batch(Struct, kw_only=True):
    """batch_id is null when there are no events."""

    batch_id: int | None
    events: list[Event]


class Nack(Strict, kw_only=True):
    id: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
    retry_after: RetryAfter = 60.0
    reason: str | None = None


class DeadQuery(Strict):
    limit: Annotated[int, _within(limits.RECEIVE_LIMIT, "Dead letters at most.")] = 100


class DeadLetter(Struct, kw_only=True):
    id: int
    consumer: str | None
    reason: str | None
    died_at: Moment
    event: Event


class Ticked(Struct):
    ticked: Annotated[bool, Meta(description="Whether there were events after the last tick.")]


class Replayed(Struct):
    replayed: int


class PurgeQuery(Strict):
    older_than: Annotated[float, _within(limits.EVENT_DELAY_S, "Only those set aside longer ago, in seconds.")] = 0.0
