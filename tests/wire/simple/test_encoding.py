"""A received message as JSON, read back as the type that the OpenAPI document shows."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import DEFAULT_TENANT, Message, Queue, QueueSettings
from penstock.model.uuids import number_of
from penstock.wire.simple.receipts import decode, tag_of
from penstock.wire.simple.receive import shown
from penstock.wire.simple.types import ReceivedMessage

SENT = datetime(2026, 1, 2, 3, 4, 5, 999_999, tzinfo=UTC)
RECEIVED = datetime(2026, 1, 2, 3, 5, 6, 1, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def queue(name: str = "orders", *, implicit: bool = True) -> Queue:
    return Queue(
        id=1,
        tenant=DEFAULT_TENANT,
        name=name,
        fifo=False,
        settings=QueueSettings(),
        created_at=SENT,
        updated_at=SENT,
        implicit=implicit,
    )


def message(
    body: str,
    *,
    number: int = 12,
    lease: int = 7,
    received: datetime | None = RECEIVED,
    attributes: str | None = None,
    sequence: int | None = 3,
) -> Message:
    return Message(
        id=number,
        lease=lease,
        body=body,
        json=False,
        priority=100,
        receives=2,
        sent_at=SENT,
        first_received_at=received,
        visible_at=RECEIVED,
        group_id=None,
        dedup_id=None,
        attributes=attributes,
        headers=None,
        trace=None,
        dead_letter_source=None,
        sequence=sequence,
    )


def as_json(shown: ReceivedMessage) -> ReceivedMessage:
    return msgspec.json.decode(msgspec.json.encode(shown), type=ReceivedMessage)


@given(TEXT, st.integers(1, 2**48 - 1), st.integers(1, 2**52 - 1))
def test_a_received_message_reads_back_whole(body: str, number: int, lease: int) -> None:
    found = as_json(shown(queue(), message(body, number=number, lease=lease)))

    assert found.message_body == body
    assert found.md5_of_message_body == hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
    assert number_of(found.message_id) == number
    assert isinstance(found.receipt_handle, str)
    assert decode(found.receipt_handle) == (tag_of("orders"), number, lease)
    assert (found.priority, found.approximate_receive_count, found.sequence_number) == (100, 2, 3)
    assert found.sent_timestamp == int(SENT.timestamp())
    assert found.approximate_first_receive_timestamp == int(RECEIVED.timestamp())


def test_what_a_message_lacks_is_left_out() -> None:
    found = as_json(shown(queue(), message("m", lease=0, received=None)))

    assert found.receipt_handle is msgspec.UNSET
    assert found.approximate_first_receive_timestamp is msgspec.UNSET
    assert found.message_attributes is msgspec.UNSET


def test_attributes_are_shown_by_their_values() -> None:
    stored = '{"so\\"urce": {"type": "String", "value": "w\\u00e9b\\n"}}'

    found = as_json(shown(queue(), message("m", attributes=stored)))

    assert found.message_attributes == {'so"urce': "wéb\n"}


def test_a_message_without_a_number_of_its_own_has_its_id_where_queues_do_not_count() -> None:
    found = as_json(shown(queue(implicit=False), message("m", number=12, sequence=None)))

    assert found.sequence_number == 12
