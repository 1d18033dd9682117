"""The spans of a pipeline's batches, from the reports that Spark makes of them. Spark itself does not run here."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from penstock.spark.pipelines.batch_spans import BatchSpans
from penstock.tracing import TraceContext
from penstock.tracing.spans import Tracer
from tests.tracing.receiver import Receiver


@pytest.fixture
def stream(migrated_database: str) -> str:
    name = f"s-{uuid4().hex[:8]}"
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        connection.execute("select pgque.create_queue(%s)", [name])
    return name


def send(dsn: str, stream: str, *traces: str | None) -> int:
    """Events with these traces, and the tick after them."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for trace in traces:
            connection.execute("select pgque.insert_event(%s, 'a', '{}', %s, null, null, null)", [stream, trace])
        row = connection.execute("select pgque.tick_now(%s)", [stream]).fetchone()
    assert row is not None
    return int(row[0])


def report(stream: str, after: int | None, until: int, rows: int = 1) -> dict[str, Any]:
    """As Spark reports a batch; the positions of the first batch begin nowhere."""
    return {
        "timestamp": "2026-11-18T06:00:00.000Z",
        "batchId": 4,
        "durationMs": {"triggerExecution": 1500},
        "sources": [
            {
                "numInputRows": rows,
                "startOffset": None if after is None else {stream: {"tick": after}},
                "endOffset": {stream: {"tick": until}},
            }
        ],
    }


def test_a_batch_with_one_trace_is_a_child_of_its_producer(
    migrated_database: str, stream: str, program: Tracer, receiver: Receiver
) -> None:
    producer = TraceContext.new()
    until = send(migrated_database, stream, producer.traceparent, producer.traceparent, None)
    BatchSpans(migrated_database, "default", "archive").add("events", report(stream, None, until, 3))

    span = receiver.one(f"process {stream}")
    assert (span.context.trace_id, span.parent, span.kind) == (producer.trace_id, producer.span_id, "consumer")
    assert span.attributes["messaging.batch.message_count"] == 3
    assert span.attributes["messaging.consumer.group.name"] == "archive"
    assert (span.attributes["penstock.spark.batch"], span.attributes["penstock.pipeline.query"]) == (4, "events")


def test_a_batch_with_several_traces_is_linked_to_them_and_earlier_ones_are_left_out(
    migrated_database: str, stream: str, program: Tracer, receiver: Receiver
) -> None:
    earlier, one, two = (TraceContext.new() for _ in range(3))
    after = send(migrated_database, stream, earlier.traceparent)
    until = send(migrated_database, stream, one.traceparent, two.traceparent, "no trace")
    BatchSpans(migrated_database, "default", "archive").add(None, report(stream, after, until))

    span = receiver.one(f"process {stream}")
    assert span.parent is None
    assert set(span.links) == {one.span_id, two.span_id}


def test_nothing_is_made_of_what_was_not_read_or_is_gone(
    migrated_database: str, stream: str, program: Tracer, receiver: Receiver
) -> None:
    spans = BatchSpans(migrated_database, "default", "archive")
    spans.add(None, report(stream, 1, 1, 0))
    spans.add(None, report("dropped", 1, 2))
    spans.add(None, report(stream, 1, 99))
    program.provider.force_flush()

    # The last one has no ticks to look at, and so no traces.
    assert [(span.name, span.parent, span.links) for span in receiver.spans] == [(f"process {stream}", None, ())]
