"""Looking at queues from outside, and making time pass for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg

from tests.consumer.conftest import PATIENCE_S


def eventually(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def settled(admin: psycopg.Connection[Any], queue: str, name: str = "shop") -> bool:
    """Whether the consumer has no batch open and nothing before it."""
    row = admin.execute(
        "select batch_id is null and pending_events = 0 from pgque.consumer_stats()"
        " where queue_name = %s and consumer_name = %s",
        [queue, name],
    ).fetchone()
    return row is not None and bool(row[0])


def retry_now(admin: psycopg.Connection[Any], queue: str) -> None:
    """Time passes: what waits to be tried again is due."""
    admin.execute(
        "update pgque.retry_queue set ev_retry_after = now() where ev_queue = "
        "(select queue_id from pgque.queue where queue_name = %s)",
        [queue],
    )
    admin.execute("select pgque.maint_retry_events()")


def dead_letters(admin: psycopg.Connection[Any], queue: str) -> list[tuple[Any, ...]]:
    return admin.execute("select ev_data, dl_reason from pgque.dlq_inspect(%s)", [queue]).fetchall()
