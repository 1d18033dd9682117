"""Receipts name one delivery, and refuse to be anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.queues import receipts
from penstock.errors import InvalidReceipt

names = st.from_regex(r"[A-Za-z0-9_-]{1,60}(\.fifo)?", fullmatch=True)


@given(names, st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_what_is_encoded_is_decoded(queue: str, message_id: int, lease: int) -> None:
    assert receipts.decode(queue, receipts.encode(queue, message_id, lease)) == (message_id, lease)


@given(st.text(max_size=60))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidReceipt):
        receipts.decode("orders", text)


def test_a_receipt_of_another_queue_is_refused() -> None:
    with pytest.raises(InvalidReceipt):
        receipts.decode("invoices", receipts.encode("orders", 7, 1))
