"""Following one thing: what is known of a message, a job, an event or a delivery, in the order in which it happened."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class TrailKind(StrEnum):
    MESSAGE = "message"
    JOB = "job"
    EVENT = "event"
    DELIVERY = "delivery"
    PUBLISH = "publish"
    AUDIT = "audit"


class MessageState(StrEnum):
    READY = "ready"
    IN_FLIGHT = "in flight"
    DELAYED = "delayed"
    BLOCKED = "blocked"
    """Waits for earlier messages of its group."""
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedMessage:
    """A message without its content."""

    id: int
    queue: str
    state: MessageState
    sent_at: datetime
    first_received_at: datetime | None
    visible_at: datetime | None
    expires_at: datetime | None
    receives: int
    receives_before: int
    """Receives in the queue it was moved from."""
    group_id: str | None
    trace: str | None
    schedule: str | None
    """The schedule that sent it."""
    dead_letter_source: str | None
    archived_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedEvent:
    """An event of a stream without its content."""

    id: int
    stream: str
    type: str | None
    created_at: datetime
    retries: int
    trace: str | None
    read_by: tuple[str, ...]
    """Consumers whose position is behind the event."""
    unread_by: tuple[str, ...]
    deaths: tuple[tuple[datetime, str, str], ...]
    """When it became a dead letter, of which consumer, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the timeline."""

    at: datetime | None
    """None: it is so now, and since when is not known."""
    kind: TrailKind
    id: str
    where: str
    """Name of the queue, stream or topic; the routing key; the queue of the job."""
    what: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    asked: str
    steps: tuple[Step, ...]
    traces: tuple[str, ...]
    """Trace ids that connect the steps."""
    complete: bool
    """False when there was more than a trail shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoGroup:
    """A group of a FIFO queue: its messages, and the one that the others wait for."""

    group_id: str
    messages: int
    first_id: int
    state: MessageState
    """Of the message that the others wait for."""
    until: datetime
    """When that message is visible again, if it is in flight or delayed."""
    receives: int
