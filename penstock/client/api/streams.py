"""Streams over HTTP: events in, batches out. For consumers with handlers see `penstock.consumer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from penstock.client.api import requests
from penstock.client.api.requests import Answered, given, moment_text, read_as, read_each, readable, segment
from penstock.client.exchange import Call


class StreamOptions(TypedDict, total=False):
    ticker_max_count: int
    ticker_max_lag: float
    ticker_idle_period: float
    rotation_period: float
    max_retries: int
    event_ttl: float | None
    paused: bool


class StreamSettings(Answered, frozen=True, kw_only=True):
    ticker_max_count: int
    ticker_max_lag: float
    ticker_idle_period: float
    rotation_period: float
    max_retries: int
    event_ttl: float | None
    paused: bool


class Stream(Answered, frozen=True, kw_only=True):
    name: str
    settings: StreamSettings


class StreamStats(Answered, frozen=True, kw_only=True):
    """From ticks alone: what came after the last one is not counted yet."""

    name: str
    depth: int
    oldest_age: float | None
    consumers: int
    events_per_second: float
    last_tick_id: int | None
    last_tick_at: datetime | None
    dead_letters: int
    settings: StreamSettings


class Check(Answered, frozen=True, kw_only=True):
    check: str
    status: str
    detail: str


class ConsumerStats(Answered, frozen=True, kw_only=True):
    name: str
    lag: float | None
    pending: int
    last_seen_at: datetime | None
    batch_id: int | None


class Event(Answered, frozen=True, kw_only=True):
    id: int
    type: str
    payload: Any
    retries: int
    created_at: datetime
    extra1: str | None = None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None
    unreadable: str | None = None
    """Why `payload` is None although there is one: Python cannot read it."""


class Batch(Answered, frozen=True, kw_only=True):
    """`batch_id` is None when there are no events."""

    batch_id: int | None
    events: list[Event]


class DeadLetter(Answered, frozen=True, kw_only=True):
    id: int
    consumer: str | None
    reason: str | None
    died_at: datetime
    event: Event


def create(name: str, **settings: Unpack[StreamOptions]) -> Call[Stream]:
    """Create a stream; one that exists keeps its settings."""
    return Call(requests.post("/v1/streams", {"name": name, **settings}), read_as(Stream))


def list_streams(*, prefix: str = "", after: str = "", limit: int = 1000) -> Call[list[Stream]]:
    """Streams by name; those after `after`."""
    query = {"prefix": prefix or None, "after": after or None, "limit": limit}
    return Call(requests.get("/v1/streams", query), read_each(Stream))


def get(name: str) -> Call[StreamStats]:
    return Call(requests.get(_stream(name)), read_as(StreamStats))


def change(name: str, **settings: Unpack[StreamOptions]) -> Call[Stream]:
    return Call(requests.patch(_stream(name), settings), read_as(Stream))


def delete(name: str) -> Call[None]:
    """Delete a stream with its events and consumers."""
    return Call(requests.delete(_stream(name)), requests.nothing)


def tick(name: str) -> Call[bool]:
    """Make a tick now; False when there are no events after the last one."""
    return Call(requests.post(f"{_stream(name)}/tick", repeatable=True), lambda found: bool(found["ticked"]))


def health(name: str) -> Call[list[Check]]:
    return Call(requests.get(f"{_stream(name)}/health"), read_each(Check))


# Events


def send(
    name: str,
    payload: Any,
    *,
    type: str = "default",
    extra1: str | None = None,
    extra2: str | None = None,
    extra3: str | None = None,
    extra4: str | None = None,
) -> Call[int]:
    """Send an event, whose payload is any JSON value; its id."""
    body = {"payload": payload, "type": type}
    body |= given(extra1=extra1, extra2=extra2, extra3=extra3, extra4=extra4)
    return Call(requests.post(_events(name), body, repeatable=False), lambda found: int(found["id"]))


def send_many(name: str, events: Sequence[Mapping[str, Any]]) -> Call[list[int]]:
    """Send up to 1000 events, all or none, each with `payload` and optionally `type` and `extra1` to `extra4`."""
    return Call(requests.post(_events(name), list(events), repeatable=False), lambda found: list(found["ids"]))


def send_later(
    name: str, payload: Any, *, type: str = "default", at: datetime | str | None = None, delay: float | None = None
) -> Call[int]:
    """Send an event at a time, or after so many seconds; the id that it waits under."""
    body = {"payload": payload, "type": type} | given(delay=delay)
    if at is not None:
        body["at"] = moment_text("at", at)
    return Call(requests.post(_events(name), body, repeatable=False), lambda found: int(found["scheduled_id"]))


# Consumers


def add_consumer(name: str, consumer: str) -> Call[None]:
    """Register a consumer: it receives events sent from now on."""
    return Call(requests.post(f"{_stream(name)}/consumers", {"name": consumer}), requests.nothing)


def consumers(name: str) -> Call[list[ConsumerStats]]:
    return Call(requests.get(f"{_stream(name)}/consumers"), read_each(ConsumerStats))


def delete_consumer(name: str, consumer: str) -> Call[None]:
    return Call(requests.delete(_consumer(name, consumer)), requests.nothing)


def receive(name: str, consumer: str, *, max: int = 100, wait: int = 0) -> Call[Batch]:
    """The open batch of a consumer, or the next one: the same until it is acknowledged."""
    query = {"max": max, "wait": wait or None}
    return Call(requests.get(f"{_consumer(name, consumer)}/batch", query, wait=wait), _batch)


def ack(name: str, consumer: str, batch_id: int) -> Call[None]:
    """Finish a batch."""
    return Call(requests.post(f"{_consumer(name, consumer)}/batches/{segment(batch_id)}/ack"), requests.nothing)


def nack(
    name: str, consumer: str, batch_id: int, event_id: int, *, retry_after: float = 60.0, reason: str | None = None
) -> Call[None]:
    """Have one event of the open batch come again later."""
    body = given(id=event_id, retry_after=retry_after, reason=reason)
    return Call(requests.post(f"{_consumer(name, consumer)}/batches/{segment(batch_id)}/nack", body), requests.nothing)


# Dead letters


def dead_letters(name: str, *, limit: int = 100) -> Call[list[DeadLetter]]:
    return Call(requests.get(f"{_stream(name)}/dead-letters", {"limit": limit}), _dead_letters)


def replay(name: str, dead_letter_id: int | None = None) -> Call[int]:
    """Send a dead letter, or all of them, to its consumer again; the number."""
    one = "" if dead_letter_id is None else f"/{segment(dead_letter_id)}"
    request = requests.post(f"{_stream(name)}/dead-letters{one}/replay", repeatable=False)
    return Call(request, lambda found: int(found["replayed"]))


def delete_dead_letters(name: str, *, older_than: float = 0.0) -> Call[int]:
    """Delete the dead letters older than so many seconds; their number."""
    request = requests.delete(f"{_stream(name)}/dead-letters", {"older_than": older_than})
    return Call(request, lambda found: int(found["deleted"]))


def _batch(found: Any) -> Batch:
    return read_as(Batch)({**found, "events": [readable(each) for each in found["events"]]})


def _dead_letters(found: Any) -> list[DeadLetter]:
    return read_as(list[DeadLetter])([{**each, "event": readable(each["event"])} for each in found])


def _stream(name: str) -> str:
    return f"/v1/streams/{segment(name)}"


def _events(name: str) -> str:
    return f"{_stream(name)}/events"


def _consumer(name: str, consumer: str) -> str:
    return f"{_stream(name)}/consumers/{segment(consumer)}"
