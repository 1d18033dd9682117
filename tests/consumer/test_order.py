"""Order by key, conditions on batches, and traces."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg

from penstock.consumer import Message, Producer, TraceContext, tracing
from tests.consumer.conftest import Start
from tests.consumer.looking import eventually


def test_messages_of_a_key_are_handled_in_order_and_never_side_by_side(
    start: Start, producer: Producer, queue: str
) -> None:
    busy: set[str] = set()
    clashes: list[str] = []
    seen: dict[str, list[int]] = {}
    failed: list[Message] = []
    guard = threading.Lock()

    def handler(message: Message) -> None:
        assert message.extra2 is not None
        with guard:
            if message.extra2 in busy:
                clashes.append(message.extra2)
            busy.add(message.extra2)
        if (message.extra2, message.payload) == ("a", 0) and not failed:
            failed.append(message)
            busy.discard(message.extra2)
            raise RuntimeError("the first attempt of the first message")
        seen.setdefault(message.extra2, []).append(message.payload)
        with guard:
            busy.discard(message.extra2)

    running = start(handler, ordered_by="extra2", concurrency=4, retry_after=0.01, max_messages=10)
    with producer.batch(queue) as batch:
        for number in range(20):
            for key in "abc":
                batch.send("moved", number, extra2=key)

    running.await_seen(61)
    assert clashes == []
    assert [seen[key] for key in "abc"] == [list(range(20))] * 3


def test_a_batch_waits_for_as_many_events_as_asked_for(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    running = start(min_count=5, poll_interval=0.02)
    for number in range(4):
        producer.send(queue, number)
    admin.execute("select pgque.tick_if_waiting(%s)", [queue])
    first = time.monotonic()
    eventually(lambda: time.monotonic() - first > 0.3)
    assert running.seen == []

    producer.send(queue, 4)
    admin.execute("select pgque.tick_if_waiting(%s)", [queue])

    assert running.payloads(5) == [0, 1, 2, 3, 4]


def test_a_trace_goes_on_from_the_producer_through_the_handler(start: Start, producer: Producer, queue: str) -> None:
    inside: list[TraceContext | None] = []
    running = start(lambda message: inside.append(tracing.current()))
    context = TraceContext.new()

    with tracing.use(context):
        producer.send(queue, 1)
        producer.send(queue, 2, extra1="mine")
    running.await_seen(2)

    assert running.seen[0].trace == context
    assert inside[0] is not None
    assert (inside[0].trace_id, inside[0].span_id == context.span_id) == (context.trace_id, False)
    assert (running.seen[1].extra1, inside[1]) == ("mine", None)
