"""What a server that exports traces tells of the requests, messages and jobs that pass through it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from penstock import Client
from penstock.client import Worker
from penstock.client.running import RunningJob
from penstock.tracing import TraceContext
from penstock.tracing.spans import SpanKind, Tracer, context_of_span
from tests.endpoint import listening
from tests.tracing.conftest import Traced

CALLER = TraceContext("1" * 32, "2" * 16)


def rest(traced: Traced, token: str) -> httpx.Client:
    return httpx.Client(base_url=traced.server.url, headers={"authorization": f"Bearer {token}"})


def test_a_request_is_a_child_of_its_caller_and_a_message_a_child_of_its_request(traced: Traced) -> None:
    tenant = traced.server.new_tenant()
    with rest(traced, tenant.token) as http:
        http.post("/v1/queues", json={"name": "orders"}).raise_for_status()
        path = "/v1/queues/orders/messages"
        http.post(path, json={"message": 1}, headers={"traceparent": CALLER.traceparent}).raise_for_status()
        [message] = http.get(path).json()
    traced.server.stop()

    request = traced.receiver.one("POST /v1/queues/{name}/messages")
    sent = traced.receiver.one("send orders")
    received = traced.receiver.one("receive orders")
    assert (request.context.trace_id, request.parent) == (CALLER.trace_id, CALLER.span_id)
    assert (request.kind, request.attributes["http.response.status_code"]) == ("server", 201)
    assert (sent.context.trace_id, sent.parent, sent.kind) == (CALLER.trace_id, request.context.span_id, "producer")
    assert sent.attributes == {
        "messaging.system": "penstock",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": str(message["id"]),
    }
    assert message["headers"]["traceparent"] == sent.context.traceparent
    assert (received.kind, received.links) == ("client", (sent.context.span_id,))
    assert received.attributes["messaging.batch.message_count"] == 1
    assert traced.receiver.paths == {"/v1/traces"}


def test_the_ids_of_private_queues_are_not_in_spans(traced: Traced) -> None:
    known, unknown = "/v1/private/senders/{id}", "/v1/private/nowhere/{id}"
    with httpx.Client(base_url=traced.server.url) as http:
        for path in (known, unknown):
            http.get(path.replace("{id}", "a-secret-id"))
    traced.server.stop()

    assert traced.receiver.one(f"GET {known}").attributes["url.path"] == known
    assert traced.receiver.one("GET").attributes["url.path"] == "/v1/private"


def test_message_attributes_and_the_trace_header_of_sqs_name_the_parent(traced: Traced) -> None:
    tenant = traced.server.new_tenant()
    sqs = tenant.sqs()
    for name, parameters in (
        ("by-attribute", {"MessageAttributes": _attribute("traceparent", CALLER.traceparent)}),
        ("by-header", {"MessageSystemAttributes": _attribute("AWSTraceHeader", CALLER.aws_header)}),
    ):
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="x", **parameters)
        asked: dict[str, Any] = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
        [message] = sqs.receive_message(QueueUrl=url, **asked)["Messages"]
        sent = traced.receiver.one(f"send {name}")
        assert (sent.context.trace_id, sent.parent) == (CALLER.trace_id, CALLER.span_id)
        # What the sender gave is not changed.
        if name == "by-header":
            assert message["Attributes"]["AWSTraceHeader"] == CALLER.aws_header
        else:
            assert message["MessageAttributes"]["traceparent"]["StringValue"] == CALLER.traceparent
            assert message["Attributes"]["AWSTraceHeader"] == sent.context.aws_header


def test_a_publish_reaches_queues_and_endpoints_in_one_trace(traced: Traced) -> None:
    tenant = traced.server.new_tenant()
    sns, sqs = tenant.sns(), tenant.sqs()
    topic = sns.create_topic(Name="news")["TopicArn"]
    queue = sqs.create_queue(QueueName="readers")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
    with listening() as endpoint, rest(traced, tenant.token) as http:
        http.post("/v1/events/news.%23/subscriptions", json={"endpoint": endpoint.url}).raise_for_status()
        sns.publish(TopicArn=topic, Message="x", MessageAttributes=_attribute("traceparent", CALLER.traceparent))
        headers = {"traceparent": CALLER.traceparent}
        http.post("/v1/events/news.today", json={"message": 1}, headers=headers).raise_for_status()
        endpoint.wait_for(1)
        [message] = sqs.receive_message(QueueUrl=queue, MessageSystemAttributeNames=["All"])["Messages"]
        [arrival] = endpoint.arrivals

    to_queue, to_endpoint = traced.receiver.one("publish news"), traced.receiver.one("publish news.today")
    delivered = traced.receiver.one("POST")
    assert (to_queue.context.trace_id, to_queue.parent) == (CALLER.trace_id, CALLER.span_id)
    assert message["Attributes"]["AWSTraceHeader"] == to_queue.context.aws_header
    assert (delivered.kind, delivered.parent) == ("client", to_endpoint.context.span_id)
    assert delivered.context.trace_id == CALLER.trace_id
    assert delivered.attributes["http.response.status_code"] == 200
    assert arrival.headers["traceparent"] == delivered.context.traceparent


def test_a_failed_delivery_is_an_error_of_its_span(traced: Traced) -> None:
    tenant = traced.server.new_tenant()
    with listening(lambda arrival: 503) as endpoint, rest(traced, tenant.token) as http:
        http.post("/v1/events/news/subscriptions", json={"endpoint": endpoint.url}).raise_for_status()
        http.post("/v1/events/news", json={"message": 1}).raise_for_status()
        assert traced.receiver.one("POST").error == "the endpoint answered 503"


async def test_a_task_runs_in_a_child_of_the_span_that_enqueued_its_job(traced: Traced, program: Tracer) -> None:
    tenant = traced.server.new_tenant()
    worker = Worker(traced.server.url, tenant.token, "emails")
    seen: list[TraceContext | None] = []

    @worker.task("send")
    async def send(job: RunningJob) -> None:
        with program.span("inside", SpanKind.INTERNAL) as span:
            seen.append(context_of_span(span))

    with program.span("checkout", SpanKind.INTERNAL) as outer, Client(traced.server.url, tenant.token) as client:
        await asyncio.to_thread(client.jobs.enqueue, "emails", {}, task="send")
        expected = context_of_span(outer)
    await asyncio.wait_for(worker.serve(drain=True), 30)

    enqueued = traced.receiver.one("enqueue emails")
    program.provider.force_flush()
    processed, inside = traced.receiver.one("process emails"), traced.receiver.one("inside")
    request = traced.receiver.one("POST /v1/jobs")
    assert (request.context.trace_id, request.parent) == (expected.trace_id, expected.span_id)
    assert (enqueued.context.trace_id, enqueued.parent) == (expected.trace_id, request.context.span_id)
    assert traced.receiver.one("lease emails").links == (enqueued.context.span_id,)
    assert (processed.service, processed.kind, processed.parent) == ("program", "consumer", enqueued.context.span_id)
    assert (inside.context.trace_id, inside.parent) == (expected.trace_id, processed.context.span_id)


def test_a_fire_of_a_schedule_begins_a_trace_that_its_message_continues(traced: Traced) -> None:
    tenant = traced.server.new_tenant()
    with rest(traced, tenant.token) as http:
        http.post("/v1/queues", json={"name": "nightly"}).raise_for_status()
        schedule = {"cron": "0 3 * * *", "target": "nightly", "target_kind": "queue", "message": {"n": 1}}
        http.put("/v1/schedules/report", json=schedule).raise_for_status()
        http.post("/v1/schedules/report/runs").raise_for_status()
        [message] = http.get("/v1/queues/nightly/messages").json()
    fired, received = traced.receiver.one("fire report"), traced.receiver.one("receive nightly")
    carried = TraceContext.parse(message["headers"]["_schedule"]["traceparent"])
    assert carried is not None
    assert (carried.trace_id, carried.span_id) == (fired.context.trace_id, fired.context.span_id)
    assert received.links == (fired.context.span_id,)


def test_a_refused_message_is_an_error_of_its_span(traced: Traced) -> None:
    tenant = traced.server.new_tenant()
    with rest(traced, tenant.token) as http:
        assert http.post("/v1/queues/absent/messages", json={"message": 1}).status_code == 404
    sent = traced.receiver.one("send absent")
    assert sent.error is not None
    assert sent.attributes["error.type"] == "QueueNotFound"


def test_messages_carry_no_trace_unless_the_server_exports_traces() -> None:
    from penstock.testing.server import MemoryServer

    with MemoryServer() as server, httpx.Client(base_url=server.url) as http:
        headers = {"authorization": f"Bearer {server.new_tenant().token}", "traceparent": CALLER.traceparent}
        http.post("/v1/queues", json={"name": "orders"}, headers=headers).raise_for_status()
        http.post("/v1/queues/orders/messages", json={"message": 1}, headers=headers).raise_for_status()
        [message] = http.get("/v1/queues/orders/messages", headers=headers).json()
    assert "traceparent" not in json.dumps(message)


def _attribute(name: str, value: str) -> dict[str, Any]:
    return {name: {"DataType": "String", "StringValue": value}}
