"""Queues and messages: what a queue is, what goes in, what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from penstock.model.tenants import TenantId


class DedupScope(StrEnum):
    """Where a deduplication id must be unique."""

    QUEUE = "queue"
    GROUP = "group"


class ThroughputLimit(StrEnum):
    """What a FIFO queue's throughput quota is counted by. Stored for the doors; Penstock has no quota."""

    QUEUE = "queue"
    GROUP = "group"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What the owner of a queue decides. `fifo` is not here: the `.fifo` of the name says it."""

    visibility_timeout_s: int | None = None
    """None, given for a new queue: the server's default, whatever that will be. Stores read back what applies."""
    delay_s: int = 0
    retention_s: int = 345_600
    receive_wait_s: int = 0
    max_message_bytes: int = 1_048_576
    max_length: int | None = None
    max_receives: int | None = None
    dead_letter_queue: str | None = None
    lifo: bool = False
    archive: bool = False
    content_dedup: bool = False
    dedup_window_s: int = 300
    dedup_scope: DedupScope = DedupScope.QUEUE
    throughput_limit: ThroughputLimit = ThroughputLimit.QUEUE
    tags: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    """Attributes a door keeps for its clients and the engine never reads: policies, key ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    id: int
    tenant: TenantId
    name: str
    fifo: bool
    settings: QueueSettings
    created_at: datetime
    updated_at: datetime
    implicit: bool = False
    """Created by its first use, by a protocol that has no call for it. Such a queue numbers its messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How full a queue is. Approximate while messages are moving; exact once it rests."""

    queue: str
    visible: int
    in_flight: int
    delayed: int
    sent: int
    """Messages ever sent to the queue, purges included."""
    oldest_sent_at: datetime | None
    newest_sent_at: datetime | None

    @property
    def total(self) -> int:
        return self.visible + self.in_flight + self.delayed


@dataclass(slots=True, kw_only=True)
class Send:
    """One message on its way in. None means: as the queue says."""

    tenant: TenantId
    queue: str
    body: str
    json: bool = False
    """The body is a JSON document, to be shown as one by the doors that speak JSON."""
    delay_s: int | None = None
    priority: int | None = None
    group_id: str | None = None
    dedup_id: str | None = None
    dedup_window_s: int | None = None
    retention_s: int | None = None
    attributes: str | None = None
    """Typed message attributes as a JSON object, `{name: {"type": …, "value": …}}`; opaque to the stores."""
    headers: str | None = None
    """Free metadata as a JSON object; opaque to the stores."""
    trace: str | None = None
    size: int | None = None
    """Bytes the message counts for against the queue's limit; None counts the body alone."""
    sync_commit: bool = True
    """False: the answer need not wait until the message is on the disk, if that holds for all of its batch."""


@dataclass(frozen=True, slots=True)
class Sent:
    id: int
    """Unique in the database, rising within a queue: it is the sequence number too."""
    duplicate: bool = False
    """Nothing was stored: `id` is that of the earlier message with the same deduplication id."""
    sequence: int | None = None
    """In an implicit queue: the number of the message, counted from 1 in each queue."""


@dataclass(slots=True, kw_only=True)
class Receive:
    """One request for messages."""

    tenant: TenantId
    queue: str
    limit: int = 1
    visibility_timeout_s: int | None = None
    max_receives: int | None = None
    """Overrides the queue's: a message received this often already is not received again."""
    dead_letter_queue: str | None = None
    """With max_receives: where such a message goes, its count of receives reset. None deletes it."""
    shuffle: bool = False


@dataclass(slots=True)
class Message:
    """One message, received or peeked. `lease` is 0 when peeked; id and lease together name one delivery."""

    id: int
    lease: int
    body: str
    json: bool
    priority: int
    receives: int
    sent_at: datetime
    first_received_at: datetime | None
    visible_at: datetime
    group_id: str | None
    dedup_id: str | None
    attributes: str | None
    headers: str | None
    trace: str | None
    dead_letter_source: str | None
    sequence: int | None = None
    """The number an implicit queue gave it; a dead letter keeps it."""


def message_bytes(body: str, attributes: str | None, headers: str | None) -> int:
    """How much a message counts for in an answer."""
    size = utf8_bytes(body)
    if attributes is not None:
        size += utf8_bytes(attributes)
    if headers is not None:
        size += utf8_bytes(headers)
    return size


def utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


@dataclass(slots=True)
class Received:
    messages: list[Message]
    next_due_at: datetime | None = None
    """When nothing was found: when the next hidden message of the queue comes into view, if any."""
    crowded_out: bool = False
    """Nothing was found because requests that shared the claim filled it. There may be more messages."""


@dataclass(slots=True, kw_only=True)
class Handle:
    """Names a message of a queue, and with `lease` the one delivery that may still change it."""

    tenant: TenantId
    queue: str
    id: int
    lease: int | None = None


class Outcome(StrEnum):
    """What became of a delete, an archive or a change of visibility."""

    DONE = "done"
    ABSENT = "absent"
    STALE = "stale"
    """The message was received again since; the lease names no current delivery."""
    EXPIRED = "expired"
    """FIFO only: the lease ran out, and order forbids acting on it."""


class MoveState(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTask:
    """A redrive: messages of a dead-letter queue on their way back."""

    id: int
    tenant: TenantId
    source: str
    destination: str | None
    """None: each message returns to the queue it came from."""
    rate: int | None
    """Messages per second at most."""
    state: MoveState
    moved: int
    to_move: int
    failure: str | None
    started_at: datetime
