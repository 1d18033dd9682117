"""Queues and their messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from penstock.client.api import requests
from penstock.client.api.requests import Answered, given, read_as, read_each, segment
from penstock.client.exchange import Call


class QueueOptions(TypedDict, total=False):
    """Settings of a queue that can be given; those left out stay as they are, or as a new queue has them."""

    visibility_timeout: int
    delay: int
    retention: int
    receive_wait: int
    max_message_bytes: int
    max_length: int | None
    max_receives: int | None
    dead_letter_queue: str | None
    lifo: bool
    archive: bool
    content_dedup: bool
    dedup_window: int
    dedup_scope: Literal["queue", "group"]
    throughput_limit: Literal["queue", "group"]
    tags: Mapping[str, str]


class MessageOptions(TypedDict, total=False):
    """What a message may have beside its content."""

    headers: Mapping[str, Any]
    delay: int
    priority: int
    group_id: str
    dedup_id: str
    dedup_window: int
    retention: int
    attributes: Mapping[str, Mapping[str, str]]
    sync_commit: bool


class QueueSettings(Answered, frozen=True, kw_only=True):
    visibility_timeout: int
    delay: int
    retention: int
    receive_wait: int
    max_message_bytes: int
    max_length: int | None
    max_receives: int | None
    dead_letter_queue: str | None
    lifo: bool
    archive: bool
    content_dedup: bool
    dedup_window: int
    dedup_scope: str
    throughput_limit: str
    tags: dict[str, str]


class QueueItem(Answered, frozen=True, kw_only=True):
    name: str
    fifo: bool
    created_at: datetime
    is_partitioned: bool = False
    is_unlogged: bool = False


class Queue(QueueItem, frozen=True, kw_only=True):
    settings: QueueSettings


class QueueMetrics(Answered, frozen=True, kw_only=True):
    """How full a queue is. Approximate while messages are sent and received."""

    queue_name: str
    queue_length: int
    queue_visible_length: int
    newest_msg_age_sec: int | None
    oldest_msg_age_sec: int | None
    total_messages: int
    scrape_time: datetime
    visible: int
    in_flight: int
    delayed: int
    fifo: bool
    created_at: datetime
    settings: QueueSettings


class SentOne(Answered, frozen=True, kw_only=True):
    id: int
    duplicate: bool = False


class EntryError(Answered, frozen=True, kw_only=True):
    index: int
    error: str
    code: str
    field: str | None = None


class SentMany(Answered, frozen=True, kw_only=True):
    """One id per message, in order; None where the message was refused, with the reason in `errors`."""

    ids: list[int | None]
    errors: tuple[EntryError, ...] = ()


class Message(Answered, frozen=True, kw_only=True):
    id: int
    message: Any
    headers: dict[str, Any] | None = None
    attributes: dict[str, dict[str, str]] | None = None
    read_count: int
    enqueued_at: datetime
    first_received_at: datetime | None = None
    visible_at: datetime
    priority: int
    group_id: str | None = None
    dead_letter_source: str | None = None
    receipt: str | None = None
    unreadable: str | None = None
    """Why `message` is None although there is one: Python cannot read it."""


class VisibilityChanged(Answered, frozen=True, kw_only=True):
    id: int
    visible_at: datetime | None


class RedriveTask(Answered, frozen=True, kw_only=True):
    id: int
    source: str
    destination: str | None
    rate: int | None
    state: str
    moved: int
    to_move: int
    failure: str | None
    started_at: datetime


# Queues


def create(name: str, *, fifo: bool | None = None, **settings: Unpack[QueueOptions]) -> Call[Queue]:
    """Create a queue; a queue that exists with the given settings is answered as it is."""
    return Call(requests.post("/v1/queues", given(name=name, fifo=fifo) | {**settings}), read_as(Queue))


def list_queues(*, prefix: str = "", after: str = "", limit: int = 1000) -> Call[list[QueueItem]]:
    """Queues by name; those after `after`."""
    query = {"prefix": prefix or None, "after": after or None, "limit": limit}
    return Call(requests.get("/v1/queues", query), read_each(QueueItem))


def get(name: str) -> Call[QueueMetrics]:
    """Counts, ages and settings of a queue."""
    return Call(requests.get(_queue(name)), read_as(QueueMetrics))


def change(name: str, **settings: Unpack[QueueOptions]) -> Call[Queue]:
    """Change settings. None clears max_length, max_receives and dead_letter_queue."""
    return Call(requests.patch(_queue(name), settings), read_as(Queue))


def delete(name: str) -> Call[None]:
    """Delete a queue and its messages."""
    return Call(requests.delete(_queue(name)), requests.nothing)


def purge(name: str) -> Call[int]:
    """Delete all messages of a queue; their number."""
    return Call(requests.post(f"{_queue(name)}/purge"), lambda found: int(found["deleted"]))


# Messages


def send(name: str, message: Any, **options: Unpack[MessageOptions]) -> Call[int]:
    """Send a message, which is any JSON value; its id."""
    body = {"message": message, **options}
    request = requests.post(_messages(name), body, repeatable="dedup_id" in options)
    return Call(request, lambda found: int(found["id"]))


def send_many(name: str, messages: Iterable[Any], **options: Unpack[MessageOptions]) -> Call[SentMany]:
    """Send up to 1000 messages in one transaction, each with these options."""
    body = [{"message": each, **options} for each in messages]
    return Call(requests.post(_messages(name), body, repeatable=False), read_as(SentMany))


def send_entries(name: str, entries: Sequence[Mapping[str, Any]]) -> Call[SentMany]:
    """Send up to 1000 messages, each with its own fields: `message` and those of `MessageOptions`."""
    repeatable = all(each.get("dedup_id") for each in entries)
    return Call(requests.post(_messages(name), list(entries), repeatable=repeatable), read_as(SentMany))


def receive(
    name: str,
    *,
    max: int = 1,
    vt: int | None = None,
    wait: int = 0,
    shuffle: bool = False,
    max_receives: int | None = None,
    dead_letter_queue: str | None = None,
) -> Call[list[Message]]:
    """Receive up to `max` messages and hide them for `vt` seconds; wait up to `wait` seconds for the first."""
    query = {
        "max": max,
        "vt": vt,
        "wait": wait or None,
        "shuffle": shuffle or None,
        "max_receives": max_receives,
        "dead_letter_queue": dead_letter_queue,
    }
    return Call(requests.get(_messages(name), query, wait=wait), read_each(Message))


def peek(name: str, *, max: int = 1, shuffle: bool = False) -> Call[list[Message]]:
    """The next messages, which are neither hidden nor counted as received."""
    query = {"max": max, "peek": True, "shuffle": shuffle or None}
    return Call(requests.get(_messages(name), query), read_each(Message))


def delete_message(name: str, message: Message | int | str) -> Call[None]:
    """Delete a message: a received one, or by its receipt or its id."""
    return Call(requests.delete(_message(name, message)), requests.nothing)


def delete_messages(name: str, messages: Iterable[Message | int | str]) -> Call[list[int]]:
    """Delete up to 1000 messages; the ids of those that were there."""
    handles = [_handle(each) for each in messages]
    body = {
        "ids": [each for each in handles if isinstance(each, int)],
        "receipts": [each for each in handles if isinstance(each, str)],
    }
    return Call(requests.delete(_messages(name), body=body), lambda found: list(found["deleted"]))


def archive(name: str, message: Message | int | str) -> Call[None]:
    """Delete a message and keep a copy in the archive."""
    return Call(requests.post(f"{_message(name, message)}/archive"), requests.nothing)


def change_visibility(name: str, message: Message | int | str, vt: int) -> Call[VisibilityChanged]:
    """Hide a message for `vt` seconds from now; 0 releases it."""
    return Call(requests.patch(_message(name, message), {"vt": vt}), read_as(VisibilityChanged))


# Dead letters


def sources(name: str) -> Call[list[str]]:
    """Queues whose dead letters come to this one."""
    return Call(requests.get(f"{_queue(name)}/sources"), read_as(list[str]))


def redrive(name: str, *, destination: str | None = None, rate: int | None = None) -> Call[RedriveTask]:
    """Start a task that moves dead letters back to where they came from, or to `destination`."""
    body = given(destination=destination, rate=rate)
    return Call(requests.post(f"{_queue(name)}/redrive", body, repeatable=False), read_as(RedriveTask))


def redrive_messages(name: str, ids: Iterable[int], *, destination: str | None = None) -> Call[int]:
    """Move these messages at once; the number of those that were there and not in flight."""
    body = given(ids=list(ids), destination=destination)
    return Call(requests.post(f"{_queue(name)}/redrive", body), lambda found: int(found["moved"]))


def redrives(name: str) -> Call[list[RedriveTask]]:
    """Redrive tasks of a queue, newest first."""
    return Call(requests.get(f"{_queue(name)}/redrive"), read_each(RedriveTask))


def cancel_redrive(name: str, task_id: int) -> Call[RedriveTask]:
    return Call(requests.delete(f"{_queue(name)}/redrive/{segment(task_id)}"), read_as(RedriveTask))


def _queue(name: str) -> str:
    return f"/v1/queues/{segment(name)}"


def _messages(name: str) -> str:
    return f"{_queue(name)}/messages"


def _message(name: str, message: Message | int | str) -> str:
    return f"{_messages(name)}/{segment(_handle(message))}"


def _handle(message: Message | int | str) -> int | str:
    """The receipt, which deletes only while this delivery is the latest; the id of a message that was only seen."""
    return (message.receipt or message.id) if isinstance(message, Message) else message
