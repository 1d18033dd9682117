"""Sending: now, later, once, together, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from penstock.consumer import Producer
from penstock.errors import StreamNotFound
from tests.consumer.conftest import Start


def test_a_key_is_sent_once(start: Start, producer: Producer, queue: str) -> None:
    first = producer.send(queue, 1, key="invoice-7", within=60)
    again = producer.send(queue, 1, key="invoice-7", within=60)
    other = producer.send(queue, 1, key="invoice-8", within=60)

    assert (first == again, first == other) == (True, False)


def test_a_delayed_event_comes_when_it_is_due(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    running = start()
    producer.send_at(queue, "reminder", {"user": 7}, delay=timedelta(hours=24), extra3="kept")
    producer.send_at(queue, "reminder", {"user": 8}, at=datetime.now(UTC) - timedelta(seconds=1))
    assert running.payloads(1) == [{"user": 8}]

    admin.execute("update pgque.delayed_events set de_deliver_at = now() where de_queue_name = %s", [queue])
    admin.execute("select pgque.maint_deliver_delayed()")

    assert running.payloads(2)[1] == {"user": 7}
    assert running.seen[1].extra3 == "kept"


def test_a_delay_and_a_moment_do_not_go_together(producer: Producer, queue: str) -> None:
    with pytest.raises(ValueError, match="either delay or at"):
        producer.send_at(queue, "reminder", 1)
    with pytest.raises(ValueError, match="timezone"):
        producer.send_at(queue, "reminder", 1, at=datetime(2030, 1, 1))


def test_an_unknown_queue_is_a_clear_error_of_the_producer(producer: Producer) -> None:
    with pytest.raises(StreamNotFound, match="queue not found"):
        producer.send("no-such-queue", 1)


def test_the_health_of_the_streams_is_told(producer: Producer, queue: str) -> None:
    found = {health.check: health.status for health in producer.health() if health.queue == queue}

    assert found["ticker_running"] in ("ok", "critical")
