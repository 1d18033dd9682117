"""The shapes of the native REST API. What parses a request is also what documents it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock import limits
from penstock.errors import Invalid
from penstock.model import DedupScope, ThroughputLimit
from penstock.wire.http.faults import Fault

Shape = TypeVar("Shape")

MAX_ID: Final = (1 << 63) - 1


def _within(bounds: tuple[int, int], text: str) -> Meta:
    return Meta(ge=bounds[0], le=bounds[1], description=text)


def _shown(bounds: tuple[int, int], text: str) -> Meta:
    """Bounds to be read, not checked: of a batch only the entries that break them fail, so the engine checks."""
    return Meta(description=text, extra_json_schema={"minimum": bounds[0], "maximum": bounds[1]})


QueueName = Annotated[
    str,
    Meta(
        description="1 to 80 letters, digits, hyphens and underscores; a name that ends in .fifo is a FIFO queue.",
        extra_json_schema={"pattern": r"^(?=.{1,80}$)[A-Za-z0-9_-]+(\.fifo)?$"},
    ),
]
Moment = Annotated[datetime, Meta(tz=True)]
MessageId = Annotated[int, Meta(ge=1, le=MAX_ID)]
VisibilityTimeout = Annotated[int, _within(limits.VISIBILITY_TIMEOUT_S, "Seconds a received message stays hidden.")]
Delay = Annotated[int, _within(limits.DELAY_S, "Seconds before a new message can be received.")]
Retention = Annotated[int, _within(limits.RETENTION_S, "Seconds a message is kept.")]
Wait = Annotated[int, _within(limits.RECEIVE_WAIT_S, "Seconds a receive waits for a message to come.")]
MessageBytes = Annotated[int, _within(limits.MESSAGE_BYTES, "Bytes a message may have.")]
MaxLength = Annotated[int, _within(limits.MAX_LENGTH, "Messages the queue may hold; null for no limit.")]
MaxReceives = Annotated[int, _within(limits.MAX_RECEIVES, "Receives before a message becomes a dead letter.")]
DedupWindow = Annotated[int, _within(limits.DEDUP_WINDOW_S, "Seconds a deduplication id is remembered.")]
Tags = Annotated[dict[str, str], Meta(max_length=50)]


class Strict(Struct, forbid_unknown_fields=True):
    """A request says nothing that we would not hear."""


# Queues


class Settings(Strict, kw_only=True):
    """The settings of a queue. What is left out stays as it is, or as a new queue has it."""

    visibility_timeout: VisibilityTimeout | UnsetType = UNSET
    delay: Delay | UnsetType = UNSET
    retention: Retention | UnsetType = UNSET
    receive_wait: Wait | UnsetType = UNSET
    max_message_bytes: MessageBytes | UnsetType = UNSET
    max_length: MaxLength | UnsetType | None = UNSET
    max_receives: MaxReceives | UnsetType | None = UNSET
    dead_letter_queue: QueueName | UnsetType | None = UNSET
    lifo: bool | UnsetType = UNSET
    archive: bool | UnsetType = UNSET
    content_dedup: bool | UnsetType = UNSET
    dedup_window: DedupWindow | UnsetType = UNSET
    dedup_scope: Literal["queue", "group"] | UnsetType = UNSET
    throughput_limit: Literal["queue", "group"] | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET


class NewQueue(Settings, kw_only=True):
    name: QueueName
    fifo: (
        Annotated[
            bool,
            Meta(description="True: a FIFO queue, of which the name may lack .fifo, with content_dedup unless given."),
        ]
        | UnsetType
    ) = UNSET


class ChangedQueue(Settings, kw_only=True):
    """What to change. null clears max_length, max_receives and dead_letter_queue."""


class QueueSettings(Struct, kw_only=True):
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


class QueueItem(Struct, kw_only=True):
    name: str
    fifo: bool
    created_at: Moment
    is_partitioned: bool = False
    is_unlogged: bool = False


class Queue(QueueItem, kw_only=True):
    settings: QueueSettings


class QueueMetrics(Struct, kw_only=True):
    """How full a queue is. Approximate while messages are moving."""

    queue_name: str
    queue_length: Annotated[int, Meta(description="Every message present, whether it can be received now or not.")]
    queue_visible_length: int
    newest_msg_age_sec: int | None
    oldest_msg_age_sec: int | None
    total_messages: int
    scrape_time: Moment
    visible: int
    in_flight: int
    delayed: int
    fifo: bool
    created_at: Moment
    settings: QueueSettings


class ListQuery(Strict):
    prefix: str = ""
    after: Annotated[str, Meta(description="Names after this one: the last name of the page before.")] = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000


class Deleted(Struct):
    deleted: int


# Messages


class Attribute(Strict):
    """A typed attribute: String, Number or Binary (base64), each with an optional .suffix."""

    type: str
    value: str


class NewMessage(Strict):
    message: Annotated[Raw, Meta(description="Any JSON value. A string is stored as plain text.")]
    headers: dict[str, Raw] | None = None
    delay: Annotated[int, _shown(limits.DELAY_S, "Seconds before it can be received.")] | None = None
    priority: Annotated[int, _shown(limits.PRIORITY, "Higher is received first.")] | None = None
    group_id: str | None = None
    dedup_id: str | None = None
    dedup_window: Annotated[int, _shown(limits.DEDUP_WINDOW_S, "Seconds dedup_id is remembered.")] | None = None
    retention: Annotated[int, _shown(limits.RETENTION_S, "Seconds it is kept.")] | None = None
    attributes: dict[str, Attribute] | None = None
    sync_commit: Annotated[bool, Meta(description="False: do not wait until it is on the disk.")] = True


class SendQuery(Strict):
    sync_commit: Annotated[bool, Meta(description="False: of no message of this call.")] = True


class SentOne(Struct, omit_defaults=True):
    id: int
    duplicate: bool = False


class EntryError(Struct, omit_defaults=True, kw_only=True):
    index: int
    error: str
    code: str
    field: str | None = None


class SentMany(Struct, omit_defaults=True):
    """One id per entry, in order; null where the entry failed."""

    ids: list[int | None]
    errors: list[EntryError] = []


class SentNone(Fault, omit_defaults=True, kw_only=True):
    """Not one entry of the batch was stored; the error is that of the first."""

    errors: list[EntryError]


class ReceiveQuery(Strict):
    max: Annotated[int, _within(limits.RECEIVE_LIMIT, "Messages at most.")] = 1
    vt: VisibilityTimeout | None = None
    wait: Wait = 0
    fifo: Annotated[bool, Meta(description="Accepted for older clients; the queue decides.")] = False
    peek: Annotated[bool, Meta(description="Look only: nothing is hidden or counted.")] = False
    shuffle: Annotated[bool, Meta(description="Any messages, not the next ones.")] = False
    max_receives: MaxReceives | None = None
    dead_letter_queue: QueueName | None = None


class Message(Struct, omit_defaults=True, kw_only=True):
    id: int
    message: Raw | str
    headers: Raw | UnsetType | None = UNSET
    attributes: Raw | UnsetType = UNSET
    read_count: int
    enqueued_at: Moment
    first_received_at: Moment | UnsetType = UNSET
    visible_at: Moment
    priority: int
    group_id: str | UnsetType = UNSET
    dead_letter_source: str | UnsetType = UNSET
    receipt: str | UnsetType = UNSET


class DeleteMessages(Strict):
    ids: list[MessageId] = []
    receipts: list[str] = []


class DeletedMessages(Struct):
    deleted: list[int]


class ReceiptQuery(Strict):
    receipt: Annotated[str, Meta(description="Act only while this delivery is the latest.")] | None = None


class ChangeVisibility(Strict):
    vt: Annotated[
        int,
        Meta(
            ge=-limits.VISIBILITY_TIMEOUT_S[1],
            le=limits.VISIBILITY_TIMEOUT_S[1],
            description="Seconds from now until it can be received again; zero or less releases it.",
        ),
    ]
    receipt: str | None = None


class VisibilityChanged(Struct):
    id: int
    visible_at: Moment | None


# Redrive


class Redrive(Strict):
    destination: QueueName | None = None
    rate: Annotated[int, _within(limits.MOVE_RATE, "Messages per second at most.")] | None = None
    ids: Annotated[list[MessageId], Meta(description="Only these messages, at once; without rate.")] | None = None


class Redriven(Struct):
    moved: Annotated[int, Meta(description="Messages that were there and not in flight.")]


class RedriveTask(Struct, kw_only=True):
    id: int
    source: str
    destination: str | None
    rate: int | None
    state: str
    moved: int
    to_move: int
    failure: str | None
    started_at: Moment


class NoQuery(Strict):
    """No parameter at all."""


class Status(Struct):
    """`ok`, or `degraded` while the database is away."""

    status: str


class Liveness(Struct):
    status: str
    version: str


# Reading them


def path_number(text: str, field: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > MAX_ID:
        raise Invalid(f"{field} must be a number up to {MAX_ID}", field=field)
    return int(text)


def settings_given(given: Settings) -> dict[str, Any]:
    """The settings a request names, as the engine calls them."""
    values: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        value = getattr(given, name)
        if value is not UNSET:
            values[ENGINE_NAMES.get(name, name)] = _CHOICES[name](value) if name in _CHOICES else value
    return values


_CHOICES = {"dedup_scope": DedupScope, "throughput_limit": ThroughputLimit}
ENGINE_NAMES = {
    name: f"{name}_s" for name in ("visibility_timeout", "delay", "retention", "receive_wait", "dedup_window")
}
WIRE_NAMES = {engine: wire for wire, engine in ENGINE_NAMES.items()}
