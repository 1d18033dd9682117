"""One trace from a boto3 call to a job: each of its spans is a child of the one before."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import httpx

from penstock import Client
from penstock.client import Worker
from penstock.client.running import RunningJob
from penstock.tracing import TraceContext
from penstock.tracing.spans import SpanKind, Tracer, context_of_span
from tests.endpoint import Arrival, listening
from tests.tracing.conftest import Traced


async def test_a_trace_begins_in_boto3_and_ends_in_a_job(traced: Traced, program: Tracer) -> None:
    tenant = traced.server.new_tenant()
    sqs, sns = tenant.sqs(), tenant.sns()
    client = Client(traced.server.url, tenant.token)

    def on_webhook(arrival: Arrival) -> int:
        parent = TraceContext.parse(arrival.headers["traceparent"])
        with program.span("webhook", SpanKind.SERVER, parent):
            client.jobs.enqueue("emails", json.loads(arrival.body), task="send")
        return 200

    def produce_and_consume(endpoint: str) -> TraceContext:
        headers = {"authorization": f"Bearer {tenant.token}"}
        events = f"{traced.server.url}/v1/events"
        hook = httpx.post(f"{events}/orders.%23/subscriptions", json={"endpoint": endpoint}, headers=headers)
        hook.raise_for_status()
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        with program.span("checkout", SpanKind.INTERNAL) as span:
            root = context_of_span(span)
            attribute = {"DataType": "String", "StringValue": root.traceparent}
            sqs.send_message(QueueUrl=queue, MessageBody="{}", MessageAttributes={"traceparent": attribute})
        received = sqs.receive_message(QueueUrl=queue, MessageSystemAttributeNames=["AWSTraceHeader"])
        [message] = received["Messages"]
        topic = sns.create_topic(Name="order-events")["TopicArn"]
        parent = TraceContext.parse_aws(message["Attributes"]["AWSTraceHeader"])
        with program.span("process orders", SpanKind.CONSUMER, parent) as span:
            attribute = {"DataType": "String", "StringValue": context_of_span(span).traceparent}
            sns.publish(TopicArn=topic, Message="{}", MessageAttributes={"traceparent": attribute})
            headers["traceparent"] = context_of_span(span).traceparent
            httpx.post(f"{events}/orders.made", json={"message": {"order": 1}}, headers=headers).raise_for_status()
        return root

    worker = Worker(traced.server.url, tenant.token, "emails")
    payloads: list[object] = []

    @worker.task("send")
    async def send(job: RunningJob) -> None:
        payloads.append(job.payload)
        worker.stop()

    with listening(on_webhook) as endpoint, client:
        root = await asyncio.to_thread(produce_and_consume, endpoint.url)
        await asyncio.wait_for(worker.serve(), 30)
    program.provider.force_flush()

    assert payloads
    seen = traced.receiver.one
    journey = [
        seen("checkout", "program"),
        seen("send orders", "penstock"),
        seen("process orders", "program"),
        # The request of the publish, the publish, its delivery, the endpoint, its request, the job and its task.
        seen("POST /v1/events/{routing_key}", "penstock"),
        seen("publish orders.made", "penstock"),
        seen("POST", "penstock"),
        seen("webhook", "program"),
        seen("POST /v1/jobs", "penstock"),
        seen("enqueue emails", "penstock"),
        seen("process emails", "program"),
    ]
    assert {span.context.trace_id for span in journey} == {root.trace_id}
    for parent, child in pairwise(journey):
        assert child.parent == parent.context.span_id, f"{child.name} is no child of {parent.name}"
    assert journey[0].parent is None
    assert seen("publish order-events").parent == journey[2].context.span_id
    assert seen("receive orders").links == (journey[1].context.span_id,)
    assert seen("lease emails").links == (journey[8].context.span_id,)
    kinds = ["internal", "producer", "consumer", "server", "producer", "client", "server", "server", "producer"]
    assert [span.kind for span in journey] == [*kinds, "consumer"]
