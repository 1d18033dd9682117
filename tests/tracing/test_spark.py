"""One trace from a boto3 call to a batch of Spark, through queue, topic, webhook, job and stream."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from penstock import Client
from penstock.client import Worker
from penstock.client.running import RunningJob
from penstock.tracing import TraceContext
from penstock.tracing.spans import SpanKind, Tracer, context_of_span
from tests.endpoint import Arrival, listening
from tests.system.serving import Running, serving
from tests.tracing.receiver import Receiver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def environment(receiver: Receiver) -> dict[str, str]:
    return {
        "PENSTOCK_OTLP_ENABLED": "true",
        "PENSTOCK_OTLP_ENDPOINT": receiver.url,
        "PENSTOCK_OTLP_SAMPLE_RATE": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture
def server(migrated_database: str, environment: dict[str, str]) -> Iterator[Running]:
    with serving("--database-url", migrated_database, more=environment) as running:
        yield running


def aws(service: str, server: Running) -> Any:
    session: Any = boto3.Session(aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1")
    return session.client(service, endpoint_url=server.url)


def archive(dsn: str, environment: dict[str, str], lake: Path) -> None:
    command = ["pipeline", "run", "archive", "--stream", "audit", "--lake", str(lake), "--database-url", dsn]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


def check_journey(receiver: Receiver, root: TraceContext) -> None:
    """Each span is a child of the one before."""
    seen = receiver.one
    journey = [
        seen("checkout", "program"),
        seen("send orders", "penstock"),
        seen("process orders", "program"),
        seen("POST /v1/events/{routing_key}", "penstock"),
        seen("publish orders.made", "penstock"),
        seen("POST", "penstock"),
        seen("webhook", "program"),
        seen("POST /v1/jobs", "penstock"),
        seen("enqueue emails", "penstock"),
        seen("process emails", "program"),
        seen("POST /v1/streams/{name}/events", "penstock"),
        seen("send audit", "penstock"),
        seen("process audit", "penstock pipeline"),
    ]
    assert {span.context.trace_id for span in journey} == {root.trace_id}
    for parent, child in pairwise(journey):
        assert child.parent == parent.context.span_id, f"{child.name} is no child of {parent.name}"
    assert journey[0].parent is None
    assert seen("publish order-events").parent == journey[2].context.span_id
    batch = journey[-1]
    assert (batch.kind, batch.error) == ("consumer", None)
    assert batch.attributes["messaging.consumer.group.name"] == "archive"
    assert batch.attributes["messaging.batch.message_count"] == 1
    assert batch.attributes["penstock.spark.batch"] == 0


async def test_a_trace_begins_in_boto3_and_ends_in_a_batch_of_spark(
    server: Running,
    receiver: Receiver,
    program: Tracer,
    migrated_database: str,
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    sqs, sns = aws("sqs", server), aws("sns", server)
    client = Client(server.url, "anyone")
    client.streams.create("audit")
    client.queues.create("orders")

    def on_webhook(arrival: Arrival) -> int:
        parent = TraceContext.parse(arrival.headers["traceparent"])
        with program.span("webhook", SpanKind.SERVER, parent):
            client.jobs.enqueue("emails", json.loads(arrival.body), task="send")
        return 200

    def produce_and_consume(endpoint: str) -> TraceContext:
        events = f"{server.url}/v1/events"
        headers = {"authorization": "Bearer anyone"}
        made = httpx.post(f"{events}/orders.%23/subscriptions", json={"endpoint": endpoint}, headers=headers)
        made.raise_for_status()
        queue = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
        with program.span("checkout", SpanKind.INTERNAL) as span:
            root = context_of_span(span)
            attribute = {"DataType": "String", "StringValue": root.traceparent}
            sqs.send_message(QueueUrl=queue, MessageBody="{}", MessageAttributes={"traceparent": attribute})
        received = sqs.receive_message(QueueUrl=queue, MessageSystemAttributeNames=["AWSTraceHeader"])
        parent = TraceContext.parse_aws(received["Messages"][0]["Attributes"]["AWSTraceHeader"])
        topic = sns.create_topic(Name="order-events")["TopicArn"]
        with program.span("process orders", SpanKind.CONSUMER, parent) as span:
            attribute = {"DataType": "String", "StringValue": context_of_span(span).traceparent}
            sns.publish(TopicArn=topic, Message="{}", MessageAttributes={"traceparent": attribute})
            headers["traceparent"] = context_of_span(span).traceparent
            httpx.post(f"{events}/orders.made", json={"message": {"order": 1}}, headers=headers).raise_for_status()
        return root

    worker = Worker(server.url, "anyone", "emails")

    @worker.task("send")
    async def send(job: RunningJob) -> None:
        client.streams.send("audit", {"sent": True})
        worker.stop()

    with listening(on_webhook) as endpoint, client:
        root = await asyncio.to_thread(produce_and_consume, endpoint.url)
        await asyncio.wait_for(worker.serve(), 30)
        client.streams.tick("audit")
    program.provider.force_flush()
    await asyncio.to_thread(archive, migrated_database, environment, tmp_path / "lake")
    check_journey(receiver, root)
