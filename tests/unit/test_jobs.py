from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.jobs import Backoff, JobIds

NUMBERS = st.integers(1, 2**60 - 1)
QUEUES = st.integers(1, 2**31 - 1)


@given(queue=QUEUES, number=NUMBERS)
def test_a_job_id_is_a_uuid_that_can_be_read_back(queue: int, number: int) -> None:
    ids = JobIds("0a1b2c3")

    text = ids.encode(queue, number)

    assert UUID(text).version == 8
    assert str(UUID(text)) == text
    assert ids.decode(text) == ids.decode(text.upper()) == (queue, number)
    assert JobIds("fffffff").decode(text) is None


@given(numbers=st.lists(NUMBERS, min_size=2, unique=True))
def test_job_ids_sort_by_age(numbers: list[int]) -> None:
    ids = JobIds("0a1b2c3")

    assert sorted(ids.encode(7, number) for number in numbers) == [ids.encode(7, number) for number in sorted(numbers)]


@given(text=st.text() | st.from_regex(r"[0-9a-f_ ]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-80a1-b2c3[0-9a-f+_]{8}", fullmatch=True))
def test_any_text_is_an_id_or_none(text: str) -> None:
    ids = JobIds("0a1b2c3")

    found = ids.decode(text)

    assert found is None or ids.encode(*found) == text.lower()


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Backoff(), [1, 2, 4, 8, 16]),
        (Backoff(base_s=10, cap_s=30), [10, 20, 30, 30, 30]),
        (Backoff(delays_s=(5, 60)), [5, 60, 60, 60, 60]),
        (Backoff(base_s=0), [0, 0, 0, 0, 0]),
    ],
    ids=["usual", "capped", "listed", "none"],
)
def test_a_backoff_says_how_long_to_wait(backoff: Backoff, delays: list[float]) -> None:
    assert [backoff.delay_s(retries) for retries in range(5)] == delays


@given(retries=st.integers(0, 10_000), spread=st.floats(0, 1, exclude_max=True))
def test_a_retry_waits_at_most_a_fifth_longer(retries: int, spread: float) -> None:
    plain = Backoff().delay_s(retries)

    assert plain <= Backoff().delay_s(retries, spread) <= 1.2 * plain <= 1.2 * 3600
