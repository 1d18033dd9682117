"""The bounds in SQL are those of `penstock/limits.py`: SQL users bypass the engine, so the functions check too."""

from __future__ import annotations

import re

import pytest

from penstock import limits
from penstock.store.postgres import sql

FUNCTIONS = sql.whole("penstock")

RANGES = {
    "visibility_timeout_s": limits.VISIBILITY_TIMEOUT_S,
    "delay_s": limits.DELAY_S,
    "retention_s": limits.RETENTION_S,
    "receive_wait_s": limits.RECEIVE_WAIT_S,
    "max_message_bytes": limits.MESSAGE_BYTES,
    "max_length": limits.MAX_LENGTH,
    "max_receives": limits.MAX_RECEIVES,
    "dedup_window_s": limits.DEDUP_WINDOW_S,
    "max_messages": limits.RECEIVE_LIMIT,
    "max_retries": limits.JOB_RETRIES,
    "unique_s": limits.JOB_UNIQUE_S,
    "wait_s": limits.RECEIVE_WAIT_S,
    "priority": limits.PRIORITY,
    "catchup_limit": limits.SCHEDULE_CATCHUP,
    "jitter_s": limits.SCHEDULE_JITTER_S,
    "failure_threshold": limits.SCHEDULE_FAILURES,
    # A session that listens; the engine has no such thing.
    "expect_s": (1, 300),
}
"""What `penstock.check_range` is called with, by the field."""

RELEASE = ("visibility_timeout_s", (-limits.VISIBILITY_TIMEOUT_S[1], limits.VISIBILITY_TIMEOUT_S[1]))
"""A change of visibility may be negative, which releases the message."""

SENTENCES = [
    f"have at most {limits.JOB_PAYLOAD_BYTES} bytes",
    f"be between {limits.PRIORITY[0]} and {limits.PRIORITY[1]}",
    f"be between {limits.JOB_PRIORITY[0]} and {limits.JOB_PRIORITY[1]}",
    f"be between {limits.DELAY_S[0]} and {limits.DELAY_S[1]}",
    f"have {limits.JOB_KEY_CHARACTERS[0]} to {limits.JOB_KEY_CHARACTERS[1]} characters",
    f"hold seconds from {limits.JOB_DELAY_S[0]} to {limits.JOB_DELAY_S[1]}",
    f"have {limits.JOB_DELAYS[0]} to {limits.JOB_DELAYS[1]} entries",
    f"not be nested more than {limits.JSON_DEPTH} levels deep",
    f"not contain a number beyond {limits.LARGEST_NUMBER:.1e}",
    f"be between {limits.MOMENT[0].date()} and {limits.MOMENT[1].date()}",
]
"""What the other checks say, with the bound in it."""

EXPRESSIONS = [
    f"max(octet_length(p)) <= {limits.JOB_PAYLOAD_BYTES}",
    f"{limits.PRIORITY[0]} <= all (p_priorities) and {limits.PRIORITY[1]} >= all (p_priorities)",
    f"{limits.JOB_PRIORITY[0]} <= all (p_priorities) and {limits.JOB_PRIORITY[1]} >= all (p_priorities)",
    f"{limits.DELAY_S[0]} <= all (p_delays) and {limits.DELAY_S[1]} >= all (p_delays)",
    f"length(k) between {limits.JOB_KEY_CHARACTERS[0]} and {limits.JOB_KEY_CHARACTERS[1]}",
    f"::numeric between {limits.JOB_DELAY_S[0]} and {limits.JOB_DELAY_S[1]}",
    f"between {limits.JOB_DELAYS[0]} and {limits.JOB_DELAYS[1]}, 'have",
    f"penstock.json_depth(v_outside) <= {limits.JSON_DEPTH}",
    f"::numeric > {limits.LARGEST_NUMBER!r}".replace("e+", "e"),
    f"'{limits.MOMENT[0].date()} 00:00:00+00'::timestamptz <= all (p_moments)",
    f"'{limits.MOMENT[1].date()} 00:00:00+00'::timestamptz >= all (p_moments)",
]
"""What the other checks compare with."""


def test_ranges_in_sql_are_those_of_the_engine() -> None:
    found = {
        (field, (int(low), int(high)))
        for field, low, high in re.findall(r"check_range\('(\w+)', [\w.]+, (-?\d+), (-?\d+)\)", FUNCTIONS)
    }

    assert found == {*RANGES.items(), RELEASE}


@pytest.mark.parametrize("text", [*SENTENCES, *EXPRESSIONS])
def test_a_check_in_sql_has_the_bound_of_the_engine(text: str) -> None:
    assert text in FUNCTIONS


def test_names_of_queues_and_ids_are_checked_alike() -> None:
    assert FUNCTIONS.count(r"~ '^[A-Za-z0-9_-]+(\.fifo)?$'") >= 2
    assert FUNCTIONS.count("~ '^[!-~]{1,128}$'") >= 2
    printable = "".join(map(chr, range(33, 127)))
    assert all(limits.GROUP_ID.fullmatch(character) for character in printable)
    assert limits.GROUP_ID.fullmatch("\x7f") is None
    assert limits.GROUP_ID.fullmatch("x" * 129) is None
