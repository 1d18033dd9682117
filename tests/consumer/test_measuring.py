"""Consumers measure for programs that use OpenTelemetry."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from penstock.consumer import Producer
from tests.consumer.conftest import Start
from tests.consumer.looking import eventually, settled


def test_batches_and_latencies_are_histograms_of_the_program(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    producer.send_batch(queue, [1, 2, 3])
    start().await_seen(3)
    eventually(lambda: settled(admin, queue))

    found = reader.get_metrics_data()
    assert found is not None
    data = {one.name: one.data.data_points for one in found.resource_metrics[0].scope_metrics[0].metrics}
    [batches] = data["pgque.batch.size"]
    [latencies] = data["pgque.processing_latency_seconds"]
    assert isinstance(batches.attributes, dict)
    assert batches.attributes["queue"] == queue
    assert set(batches.attributes) == {"queue", "consumer"}
    assert getattr(batches, "sum") == 3  # noqa: B009
    assert (getattr(latencies, "count"), getattr(latencies, "min") >= 0) == (3, True)  # noqa: B009
