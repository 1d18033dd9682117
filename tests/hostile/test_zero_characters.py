"""The character NUL, written or escaped, is refused or comes back whole: through every door, on both stores."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from penstock.model import DEFAULT_TENANT
from tests.wire.conftest import Live, build_store, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

ZERO = "a\0b"
INSIDE = {"a": ZERO, "b\0": [ZERO]}
REFUSED = (400, 422)


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["sqlite", "postgres"])
async def live(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    async with running(store=build_store(request.param, request), simple=True) as live:
        yield live


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(live: Live) -> AsyncIterator[httpx.AsyncClient]:
    async with live.client() as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def queue(live: Live) -> str:
    name = f"zero-{secrets.token_hex(4)}"
    await live.engine.queues.create(DEFAULT_TENANT, name, {})
    return name


def stored(answer: httpx.Response) -> bool:
    """Whether it was taken. If not, the caller was told so, and by no fault of the server."""
    assert answer.status_code in (200, 201, 202, 204, *REFUSED), (answer.status_code, answer.text)
    return answer.status_code not in REFUSED


async def received(client: httpx.AsyncClient, queue: str) -> Any:
    [message] = (await client.get(f"/v1/queues/{queue}/messages")).json()
    return message


# Native


@pytest.mark.parametrize(
    ("field", "value", "taken"),
    [
        ("message", ZERO, False),
        ("message", INSIDE, True),
        ("headers", {"a": ZERO}, True),
        ("headers", {ZERO: "a"}, True),
        ("attributes", {"a": {"type": "String", "value": ZERO}}, True),
        ("attributes", {"a": {"type": "Binary", "value": "AAE="}}, True),
        ("attributes", {ZERO: {"type": "String", "value": "a"}}, False),
        ("attributes", {"a": {"type": "String\0", "value": "a"}}, False),
        ("group_id", ZERO, False),
        ("dedup_id", ZERO, False),
    ],
)
async def test_messages(client: httpx.AsyncClient, queue: str, field: str, value: Any, taken: bool) -> None:
    answer = await client.post(f"/v1/queues/{queue}/messages", json={"message": 1, field: value})
    assert stored(answer) == taken
    if taken:
        assert (await received(client, queue))[field] == value


@pytest.mark.parametrize("field", ["tags", "labels", "name", "dead_letter_queue"])
async def test_queues(client: httpx.AsyncClient, field: str) -> None:
    value: Any = {"a": ZERO} if field in ("tags", "labels") else ZERO
    given = {"name": f"zero-{secrets.token_hex(4)}", field: value}
    assert not stored(await client.post("/v1/queues", json=given))


@pytest.mark.parametrize(
    ("field", "value"), [("message", ZERO), ("message", INSIDE), ("headers", {"a": ZERO}), ("target", ZERO)]
)
@pytest.mark.parametrize("kind", ["queue", "topic", "job"])
async def test_schedules(live: Live, client: httpx.AsyncClient, queue: str, kind: str, field: str, value: Any) -> None:
    name = f"zero-{secrets.token_hex(4)}"
    if kind == "topic":
        await client.post(f"/v1/events/{queue}/subscriptions", json={"queue_name": queue})
    given = {"name": name, "when": "every day at 9", "target": queue, "target_kind": kind, "message": 1, field: value}
    if not stored(await client.post("/v1/schedules", json=given)):
        return
    assert (await client.get(f"/v1/schedules/{name}")).json()[field] == value
    fired = await client.post(f"/v1/schedules/{name}/runs")
    assert stored(fired)
    if kind == "job":
        leased = (await client.post(f"/queues/{queue}/lease", json={"worker_id": "w"})).json()
        found = {"message": leased["job"]["payload"], "headers": value}[field]
    else:
        found = (await received(client, queue))[field]
    # A fire adds what it was fired for.
    assert found == value or value.items() <= found.items()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("message", ZERO),
        ("message", INSIDE),
        ("headers", {"a": ZERO}),
        ("attributes", {"a": {"type": "String", "value": ZERO}}),
    ],
)
@pytest.mark.parametrize("envelope", [False, True])
async def test_events(client: httpx.AsyncClient, queue: str, envelope: bool, field: str, value: Any) -> None:
    made = await client.post(f"/v1/events/{queue}/subscriptions", json={"queue_name": queue, "envelope": envelope})
    assert made.status_code == 201, made.text
    answer = await client.post(f"/v1/events/{queue}", json={"message": 1, field: value})
    if stored(answer) and not envelope:
        assert (await received(client, queue))[field] == value


@pytest.mark.parametrize("given", [{"filter": {"a": [ZERO]}}, {"filter": {ZERO: ["a"]}}, {"secret": ZERO}])
async def test_subscriptions_of_events(client: httpx.AsyncClient, queue: str, given: Any) -> None:
    key = f"zero.{secrets.token_hex(4)}"
    whole = {"protocol": "http", "endpoint": "http://127.0.0.1:9/"} | given
    if stored(await client.post(f"/v1/events/{key}/subscriptions", json=whole)) and "filter" in given:
        [found] = (await client.get(f"/v1/events/{key}/subscriptions")).json()
        assert found["filter"] == given["filter"]


# Jobs


@pytest.mark.parametrize(
    ("field", "value"), [("payload", ZERO), ("payload", INSIDE), ("unique_key", ZERO), ("queue_name", ZERO)]
)
async def test_jobs(client: httpx.AsyncClient, queue: str, field: str, value: Any) -> None:
    answer = await client.post("/jobs", json={"payload": 1, "queue_name": queue, field: value})
    if stored(answer):
        leased = (await client.post(f"/queues/{queue}/lease", json={"worker_id": "w"})).json()
        assert leased["job"][field] == value
        assert (await client.get(f"/jobs/{leased['job']['id']}/detail")).json()[field] == value


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("ack", {"result": ZERO}),
        ("ack", {"result": INSIDE}),
        ("nack", {"error": ZERO}),
        ("heartbeat", {"lease_seconds": 5, "note": ZERO}),
        ("ack", {"lease_token": ZERO}),
    ],
)
async def test_reports_of_workers(client: httpx.AsyncClient, queue: str, verb: str, given: Any) -> None:
    await client.post("/jobs", json={"payload": 1, "queue_name": queue})
    leased = (await client.post(f"/queues/{queue}/lease", json={"worker_id": "w"})).json()
    path = f"/jobs/{leased['job']['id']}"
    answer = await client.post(f"{path}/{verb}", json={"lease_token": leased["lease_token"], **given})
    if "lease_token" in given:
        assert answer.status_code in (400, 409, 422)
    elif stored(answer) and "result" in given:
        assert (await client.get(f"{path}/detail")).json()["result"] == given["result"]


async def test_the_name_of_a_worker(client: httpx.AsyncClient, queue: str) -> None:
    assert not stored(await client.post(f"/queues/{queue}/lease", json={"worker_id": ZERO}))


# The simple protocol


@pytest.mark.parametrize(
    ("field", "value"),
    [("message_body", ZERO), ("message_attributes", {"a": ZERO}), ("message_attributes", {ZERO: "a"})],
)
async def test_the_simple_protocol(client: httpx.AsyncClient, queue: str, field: str, value: Any) -> None:
    if stored(await client.post("/send", json={"queue_name": queue, "message_body": "m", field: value})):
        [found] = (await client.post("/receive", json={"queue_name": queue})).json()["messages"]
        assert found[field] == value


# SQS and SNS

SQS_CASES: list[tuple[str, dict[str, Any]]] = [
    ("SendMessage", {"MessageBody": ZERO}),
    ("SendMessage", {"MessageBody": "m", "MessageAttributes": {"a": {"DataType": "String", "StringValue": ZERO}}}),
    ("SendMessage", {"MessageBody": "m", "MessageAttributes": {ZERO: {"DataType": "String", "StringValue": "a"}}}),
    ("SendMessage", {"MessageBody": "m", "MessageAttributes": {"a": {"DataType": "String\0", "StringValue": "a"}}}),
    ("SendMessage", {"MessageBody": "m", "MessageGroupId": ZERO}),
    (
        "SendMessage",
        {
            "MessageBody": "m",
            "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": ZERO}},
        },
    ),
    ("TagQueue", {"Tags": {"a": ZERO}}),
    ("TagQueue", {"Tags": {ZERO: "a"}}),
    ("SetQueueAttributes", {"Attributes": {"Policy": json.dumps({"Statement": ZERO})}}),
    ("SetQueueAttributes", {"Attributes": {"KmsMasterKeyId": ZERO}}),
    ("AddPermission", {"Label": ZERO, "AWSAccountIds": ["111122223333"], "Actions": ["*"]}),
    ("ReceiveMessage", {"MessageAttributeNames": [ZERO], "ReceiveRequestAttemptId": ZERO}),
    ("DeleteMessage", {"ReceiptHandle": ZERO}),
]


async def aws(client: httpx.AsyncClient, service: str, action: str, given: Any) -> httpx.Response:
    head = {"x-amz-target": f"Amazon{service}.{action}", "content-type": "application/x-amz-json-1.0"}
    return await client.post("/", json=given, headers=head)


@pytest.mark.parametrize(("action", "given"), SQS_CASES, ids=lambda case: str(case)[:50])
async def test_sqs(client: httpx.AsyncClient, queue: str, action: str, given: Any) -> None:
    answer = await aws(client, "SQS", action, {"QueueUrl": queue, **given})
    if stored(answer) and action == "SendMessage":
        whole = {"QueueUrl": queue, "MessageAttributeNames": ["All"], "AttributeNames": ["All"]}
        [found] = (await aws(client, "SQS", "ReceiveMessage", whole)).json()["Messages"]
        assert found["Body"] == given["MessageBody"]
        assert found.get("MessageAttributes", {}) == given.get("MessageAttributes", {})


async def test_a_binary_attribute_of_sqs_comes_back_whole(client: httpx.AsyncClient, queue: str) -> None:
    attribute = {"DataType": "Binary", "BinaryValue": "AAEA"}
    whole = {"QueueUrl": queue, "MessageBody": "m", "MessageAttributes": {"a": attribute}}
    assert stored(await aws(client, "SQS", "SendMessage", whole))
    asked = {"QueueUrl": queue, "MessageAttributeNames": ["All"]}
    [found] = (await aws(client, "SQS", "ReceiveMessage", asked)).json()["Messages"]
    assert found["MessageAttributes"] == {"a": attribute}


SNS_CASES: list[tuple[str, dict[str, Any]]] = [
    ("Publish", {"Message": ZERO}),
    ("Publish", {"Message": "m", "Subject": ZERO}),
    ("Publish", {"Message": json.dumps({"default": ZERO}), "MessageStructure": "json"}),
    ("Publish", {"Message": "m", "MessageAttributes": {"a": {"DataType": "String", "StringValue": ZERO}}}),
    ("Publish", {"Message": "m", "MessageAttributes": {"a": {"DataType": "Binary", "BinaryValue": "AAEA"}}}),
    ("Publish", {"Message": "m", "MessageAttributes": {ZERO: {"DataType": "String", "StringValue": "a"}}}),
    ("PublishBatch", {"PublishBatchRequestEntries": [{"Id": "1", "Message": ZERO}]}),
    ("SetTopicAttributes", {"AttributeName": "DisplayName", "AttributeValue": ZERO}),
    ("SetTopicAttributes", {"AttributeName": "Policy", "AttributeValue": json.dumps({"Statement": [ZERO]})}),
    ("SetTopicAttributes", {"AttributeName": ZERO, "AttributeValue": "a"}),
    ("TagResource", {"Tags": [{"Key": "a", "Value": ZERO}]}),
    ("TagResource", {"Tags": [{"Key": ZERO, "Value": "a"}]}),
    ("Subscribe", {"Protocol": "email", "Endpoint": ZERO}),
    ("Subscribe", {"Protocol": ZERO, "Endpoint": "a@b.c"}),
    (
        "Subscribe",
        {
            "Protocol": "email",
            "Endpoint": "a@example.com",
            "Attributes": {"FilterPolicy": json.dumps({"a": [ZERO]})},
        },
    ),
    ("AddPermission", {"Label": ZERO, "AWSAccountId": ["111122223333"], "ActionName": ["Publish"]}),
    ("ConfirmSubscription", {"Token": ZERO}),
    ("SetSMSAttributes", {"attributes": {"DefaultSenderID": ZERO}}),
    ("SetSMSAttributes", {"attributes": {"UsageReportS3Bucket": ZERO}}),
    (
        "CreatePlatformApplication",
        {"Name": "zero", "Platform": "GCM", "Attributes": {"PlatformCredential": ZERO}},
    ),
    ("CreatePlatformApplication", {"Name": ZERO, "Platform": "GCM", "Attributes": {"PlatformCredential": "a"}}),
    ("CheckIfPhoneNumberIsOptedOut", {"phoneNumber": ZERO}),
    ("CreateTopic", {"Name": ZERO}),
    ("CreateTopic", {"Name": "zero", "Attributes": {"DisplayName": ZERO}}),
]


@pytest.mark.parametrize("raw", ["true", "false"])
@pytest.mark.parametrize(("action", "given"), SNS_CASES, ids=lambda case: str(case)[:50])
async def test_sns(client: httpx.AsyncClient, queue: str, action: str, given: Any, raw: str) -> None:
    topic = (await aws(client, "SNS", "CreateTopic", {"Name": queue})).json()["TopicArn"]
    if action == "Publish":
        subscribed = await aws(
            client,
            "SNS",
            "Subscribe",
            {
                "TopicArn": topic,
                "Protocol": "sqs",
                "Endpoint": f"arn:aws:sqs:us-east-1:000000000000:{queue}",
                "Attributes": {"RawMessageDelivery": raw},
            },
        )
        assert subscribed.status_code == 200, subscribed.text
    elif raw == "true":
        return
    answer = await aws(client, "SNS", action, {"TopicArn": topic, "ResourceArn": topic, **given})
    if stored(answer) and action == "Publish":
        asked = {"QueueUrl": queue, "MessageAttributeNames": ["All"]}
        [found] = (await aws(client, "SQS", "ReceiveMessage", asked)).json()["Messages"]
        body = found["Body"] if raw == "true" else json.loads(found["Body"])["Message"]
        sent = given["Message"]
        assert body == (json.loads(sent)["default"] if "MessageStructure" in given else sent)


# Streams and private queues: PostgreSQL only


@pytest.mark.parametrize(("field", "value"), [("payload", ZERO), ("payload", INSIDE), ("type", ZERO), ("extra1", ZERO)])
@pytest.mark.parametrize("delay", [None, 5])
async def test_streams(request: pytest.FixtureRequest, field: str, value: Any, delay: int | None) -> None:
    stream = f"/v1/streams/zero-{secrets.token_hex(4)}"
    async with running(store=build_store("postgres", request)) as live, live.client() as client:
        await client.post("/v1/streams", json={"name": stream.rpartition("/")[2]})
        await client.post(f"{stream}/consumers", json={"name": "c"})
        event = {"type": "t", "payload": 1, field: value} | ({} if delay is None else {"delay": delay})
        if stored(await client.post(f"{stream}/events", json=event)) and delay is None:
            batch = (await client.get(f"{stream}/consumers/c/batch", params={"wait": 1})).json()
            found = batch["events"][0]
            assert found[field] == value or json.loads(found[field]) == value
            path = f"{stream}/consumers/c/batches/{batch['batch_id']}/nack"
            assert not stored(await client.post(path, json={"id": found["id"], "reason": ZERO}))
        assert not stored(await client.post(f"{stream}/consumers", json={"name": ZERO}))


async def test_private_queues(request: pytest.FixtureRequest) -> None:
    async with running(store=build_store("postgres", request)) as live, live.client() as client:
        for path, given in (
            ("/v1/private/queues", {"recipient_key": ZERO}),
            ("/v1/private/block", {"recipients": [ZERO], "reason": ZERO}),
            ("/v1/private/services", {"key": ZERO}),
            ("/v1/private/senders/lookup", {"lookups": [{"id": ZERO, "signature": ZERO}]}),
        ):
            assert not stored(await client.post(path, json=given))
