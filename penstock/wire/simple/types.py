"""The shapes of the simple protocol. Bounds are shown here and checked by the handlers: msgspec only reads types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock import limits
from penstock.errors import Invalid
from penstock.wire.http.bodies import read_body
from penstock.wire.simple.faults import invalid_request

MOST = 10
"""Messages of a batch, messages of a receive, receipt handles of a request."""
MAX_RECEIVES = (1, 10)
ATTRIBUTE_NAME = (1, 64)
ATTRIBUTE_VALUE = (0, 1024)


def _within(bounds: tuple[int, int], text: str) -> Meta:
    return Meta(description=text, extra_json_schema={"minimum": bounds[0], "maximum": bounds[1]})


QueueName = Annotated[
    str,
    Meta(
        description="1 to 80 letters, digits, hyphens and underscores. A name that ends in _lifo is a LIFO queue.",
        extra_json_schema={"pattern": r"^[A-Za-z0-9_-]{1,80}$"},
    ),
]
Attributes = Annotated[
    dict[str, str],
    Meta(
        description="At most 10; names of 1 to 64 characters, values of at most 1024.",
        extra_json_schema={"maxProperties": 10},
    ),
]
Receipts = Annotated[list[str], Meta(description="1 to 10 UUIDs.", extra_json_schema={"minItems": 1, "maxItems": 10})]


class SendRequest(Struct, kw_only=True):
    queue_name: QueueName
    message_body: str
    priority: Annotated[int, _within(limits.PRIORITY, "Higher is received first; default 100.")] | None = None
    delay_seconds: Annotated[int, _within(limits.DELAY_S, "Seconds before it can be received.")] | None = None
    message_retention_period: Annotated[int, _within(limits.RETENTION_S, "Seconds it is kept.")] | None = None
    message_deduplication_id: (
        Annotated[str, Meta(description="Letters and digits.", extra_json_schema={"maxLength": 128})] | None
    ) = None
    message_deduplication_time_period: (
        Annotated[int, _within(limits.DEDUP_WINDOW_S, "Seconds the deduplication id is remembered.")] | None
    ) = None
    message_attributes: Attributes | None = None


class SendResponse(Struct):
    message_id: str
    md5_of_message_body: str
    sequence_number: int


class SendBatchRequest(Struct):
    messages: Annotated[list[SendRequest], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST})]


class RawBatch(Struct):
    """The same, of which each message is read apart: one that is malformed does not fail the others."""

    messages: list[Raw]


class SentEntry(Struct):
    index: int
    message_id: str
    md5_of_message_body: str
    sequence_number: int


class FailedEntry(Struct):
    index: int
    error: Any


class SendBatchResponse(Struct):
    successful: list[SentEntry]
    failed: list[FailedEntry]


class ReceiveRequest(Struct, kw_only=True):
    queue_name: QueueName
    visibility_timeout: Annotated[int, _within(limits.VISIBILITY_TIMEOUT_S, "Seconds it is hidden.")] | None = None
    wait_time_seconds: Annotated[int, _within(limits.RECEIVE_WAIT_S, "Seconds to wait; default 20.")] | None = None
    max_number_of_messages: Annotated[int, _within((1, MOST), "Messages at most.")] | None = None
    max_receives: Annotated[int, _within(MAX_RECEIVES, "Receives before it is poison; default 4.")] | None = None
    dead_letter_queue_name: (
        Annotated[str, Meta(description="Queue that poison is moved to; without one it is deleted.")] | None
    ) = None
    peek: Annotated[bool, Meta(description="Look at the next message; nothing is hidden or counted.")] | None = None
    shuffle: Annotated[bool, Meta(description="A random message, not the next one.")] | None = None


class ReceivedMessage(Struct, kw_only=True):
    message_id: str
    receipt_handle: str | UnsetType = UNSET
    message_body: str
    md5_of_message_body: str
    priority: int
    approximate_receive_count: int
    approximate_first_receive_timestamp: int | UnsetType = UNSET
    sent_timestamp: int
    sequence_number: int
    message_attributes: dict[str, str] | UnsetType = UNSET


class ReceiveResponse(Struct):
    messages: list[ReceivedMessage]


class DeleteRequest(Struct):
    receipt_handles: Receipts


class DeleteResponse(Struct):
    deleted: int


class ChangeVisibilityRequest(Struct):
    receipt_handles: Receipts
    visibility_timeout: Annotated[
        int,
        _within(
            (-limits.VISIBILITY_TIMEOUT_S[1], limits.VISIBILITY_TIMEOUT_S[1]),
            "Seconds from now until it can be received again; zero or less releases it.",
        ),
    ]


class ChangeVisibilityResponse(Struct):
    result: str


class QueueRequest(Struct):
    queue_name: QueueName


class DeleteAllRequest(Struct):
    queue_name: Annotated[str, Meta(description="A queue, or * for all of them.")]


class DeleteAllResponse(Struct):
    result: str
    deleted: int


class QueueLength(Struct):
    queue_name: str
    count: Annotated[int, Meta(description="Messages that can be received now.")]
    in_flight: Annotated[int, Meta(description="Messages that were received and neither deleted nor timed out.")]


class EnqueueQuery(Struct):
    queue_name: QueueName
    priority: Annotated[int, _within(limits.PRIORITY, "Higher is received first; default 100.")] | None = None


class SimpleHealth(Struct):
    status: str
    version: str


def read(decoder: msgspec.json.Decoder[Any], body: bytes | bytearray) -> Any:
    """A body by its type. Malformed JSON, a missing field and a value of another type are one error.

    Handlers check the range of every number, so `read_body`, which looks for long numbers, only words the errors.
    """
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError):
        try:
            return read_body(decoder, body)
        except Invalid as error:
            raise invalid_request(error.message) from None
