"""boto3, in the protocol it speaks today and in the one it spoke until 2023."""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests import cluster
from tests.clients.environment import KEY, REGION, SECRET, eventually
from tests.clients.query_model import write_query_model
from tests.system.serving import Running, penstock, serving

CONFIG = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30, max_pool_connections=4)
ATTRIBUTES: dict[str, Any] = {
    "Author": {"DataType": "String", "StringValue": "Ada “the Countess” <&> 🚰"},
    "Amount": {"DataType": "Number", "StringValue": "-12.50e2"},
    "Picture": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
    "Colour.hex": {"DataType": "String.rgb", "StringValue": "#0b7285"},
}

Connect = Callable[..., Any]


@pytest.fixture(scope="session")
def query_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_query_model(folder)
    return folder


@pytest.fixture(scope="session", params=["json", "query"])
def session(request: pytest.FixtureRequest, query_models: Path) -> boto3.Session:
    core = botocore.session.Session()
    if request.param == "query":
        core.get_component("data_loader").search_paths.insert(0, str(query_models))
    return boto3.Session(KEY, SECRET, region_name=REGION, botocore_session=core)


@pytest.fixture
def connect(server: Running, session: boto3.Session) -> Connect:
    """Makes clients of their own, which threads do not share here."""

    def make(**more: Any) -> Any:
        return session.client("sqs", endpoint_url=server.url, config=CONFIG, **more)

    return make


@pytest.fixture
def sqs(connect: Connect) -> Any:
    return connect()


@pytest.fixture
def url(sqs: Any, name: str) -> str:
    """A standard queue."""
    return str(sqs.create_queue(QueueName=name)["QueueUrl"])


@pytest.fixture
def fifo(sqs: Any, name: str) -> str:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    return str(sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"])


def attributes_of(sqs: Any, url: str, *names: str) -> dict[str, str]:
    found: dict[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names or ["All"]))["Attributes"]
    return found


def arn_of(sqs: Any, url: str) -> str:
    return attributes_of(sqs, url, "QueueArn")["QueueArn"]


def counts(sqs: Any, url: str) -> tuple[int, int, int]:
    """Messages that are visible, in flight, delayed."""
    names = ("", "NotVisible", "Delayed")
    found = attributes_of(sqs, url, *(f"ApproximateNumberOfMessages{name}" for name in names))
    visible, in_flight, delayed = (int(found[f"ApproximateNumberOfMessages{name}"]) for name in names)
    return visible, in_flight, delayed


def receive(sqs: Any, url: str, most: int = 10, wait: int = 5, **more: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=most, WaitTimeSeconds=wait, **more)
    found: list[dict[str, Any]] = answer.get("Messages", [])
    return found


def receive_all(sqs: Any, url: str, count: int) -> list[dict[str, Any]]:
    """That many, however few come at a time."""
    messages: list[dict[str, Any]] = []
    while len(messages) < count:
        more = receive(sqs, url)
        assert more, f"only {len(messages)} came"
        messages += more
    return messages


def receive_one(sqs: Any, url: str, **more: Any) -> dict[str, Any]:
    (message,) = receive(sqs, url, 1, **more)
    return message


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def delete(sqs: Any, url: str, messages: list[dict[str, Any]]) -> None:
    entries = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(messages)]
    assert "Failed" not in sqs.delete_message_batch(QueueUrl=url, Entries=entries)


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def md5_of_attributes(attributes: Mapping[str, Any]) -> str:
    """As AWS documents it for those who check."""
    digest = hashlib.md5()

    def add(part: bytes) -> None:
        digest.update(struct.pack("!I", len(part)) + part)

    for name, attribute in sorted(attributes.items()):
        add(name.encode())
        add(attribute["DataType"].encode())
        binary = "BinaryValue" in attribute
        digest.update(b"\x02" if binary else b"\x01")
        add(attribute["BinaryValue"] if binary else attribute["StringValue"].encode())
    return digest.hexdigest()


# Queues


def test_the_two_sessions_speak_two_protocols(sqs: Any) -> None:
    protocol = sqs.meta.service_model.metadata["protocol"]

    headers = sqs.list_queues()["ResponseMetadata"]["HTTPHeaders"]

    assert headers["content-type"] == {"json": "application/x-amz-json-1.0", "query": "text/xml"}[protocol]


def test_a_queue_is_created_with_attributes_and_tags_and_found_again(sqs: Any, name: str) -> None:
    given = {"VisibilityTimeout": "45", "MessageRetentionPeriod": "3600", "DelaySeconds": "2"}
    url = sqs.create_queue(QueueName=name, Attributes=given, tags={"team": "water", "empty": ""})["QueueUrl"]

    assert url.endswith(f"/{name}")
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "water", "empty": ""}
    assert sqs.create_queue(QueueName=name, Attributes=given)["QueueUrl"] == url
    found = attributes_of(sqs, url)
    assert given.items() <= found.items()
    assert found["MaximumMessageSize"] == "1048576"
    assert found["QueueArn"].startswith(f"arn:aws:sqs:{REGION}:")
    assert found["QueueArn"].endswith(f":{name}")
    assert "FifoQueue" not in found


def test_attributes_and_tags_of_a_queue_change(sqs: Any, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7", "ReceiveMessageWaitTimeSeconds": "1"})
    sqs.tag_queue(QueueUrl=url, Tags={"a": "1", "b": "2"})
    sqs.tag_queue(QueueUrl=url, Tags={"b": "3"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["a", "never there"])

    assert attributes_of(sqs, url, "VisibilityTimeout", "ReceiveMessageWaitTimeSeconds") == {
        "VisibilityTimeout": "7",
        "ReceiveMessageWaitTimeSeconds": "1",
    }
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"b": "3"}


def test_permissions_become_a_policy(sqs: Any, url: str) -> None:
    sqs.add_permission(QueueUrl=url, Label="readers", AWSAccountIds=["123456789012"], Actions=["ReceiveMessage"])

    (statement,) = json.loads(attributes_of(sqs, url, "Policy")["Policy"])["Statement"]
    assert (statement["Sid"], statement["Action"]) == ("readers", "SQS:ReceiveMessage")
    sqs.remove_permission(QueueUrl=url, Label="readers")
    assert "Policy" not in attributes_of(sqs, url)


def test_a_paginator_walks_all_queues(sqs: Any, name: str) -> None:
    made = {sqs.create_queue(QueueName=f"{name}-{number}")["QueueUrl"] for number in range(7)}

    pages = list(sqs.get_paginator("list_queues").paginate(QueueNamePrefix=name, PaginationConfig={"PageSize": 3}))

    assert [len(page["QueueUrls"]) for page in pages] == [3, 3, 1]
    assert {url for page in pages for url in page["QueueUrls"]} == made


def test_an_equal_name_with_other_attributes_is_refused(sqs: Any, name: str) -> None:
    sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "1"})

    with pytest.raises(sqs.exceptions.QueueNameExists, match="different value for attribute DelaySeconds") as refused:
        sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "2"})

    assert refused.value.response["Error"]["Code"] == "QueueAlreadyExists"


def test_a_deleted_queue_is_gone(sqs: Any, url: str, name: str) -> None:
    sqs.delete_queue(QueueUrl=url)

    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as gone:
        sqs.get_queue_url(QueueName=name)
    assert gone.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert gone.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert gone.value.response["ResponseMetadata"]["RequestId"]
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.send_message(QueueUrl=url, MessageBody="too late")
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=name)


def test_regions_do_not_see_each_others_queues(connect: Connect, url: str, name: str) -> None:
    elsewhere = connect(region_name="eu-central-1")

    with pytest.raises(elsewhere.exceptions.QueueDoesNotExist):
        elsewhere.get_queue_url(QueueName=name)
    there = elsewhere.create_queue(QueueName=name)["QueueUrl"]
    assert arn_of(elsewhere, there).split(":")[3] == "eu-central-1"


# Messages


def test_typed_attributes_arrive_whole(sqs: Any, url: str) -> None:
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    body = 'a "quoted" <&> body,\r\n\ttabbed, 🚰 and ünïcödé'
    sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=ATTRIBUTES, MessageSystemAttributes=trace)

    found = receive_one(sqs, url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"])

    assert (found["MessageId"], found["Body"]) == (sent["MessageId"], body)
    assert found["MessageAttributes"] == ATTRIBUTES
    assert sent["MD5OfMessageBody"] == found["MD5OfBody"] == md5(body)
    assert sent["MD5OfMessageAttributes"] == found["MD5OfMessageAttributes"] == md5_of_attributes(ATTRIBUTES)
    assert sent["MD5OfMessageSystemAttributes"] == md5_of_attributes(trace)
    assert "SequenceNumber" not in sent
    system = found["Attributes"]
    assert system["AWSTraceHeader"] == trace["AWSTraceHeader"]["StringValue"]
    assert system["ApproximateReceiveCount"] == "1"
    assert abs(int(system["SentTimestamp"]) / 1000 - time.time()) < 30
    assert int(system["ApproximateFirstReceiveTimestamp"]) >= int(system["SentTimestamp"])


def test_only_the_attributes_asked_for_are_returned(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="body", MessageAttributes=ATTRIBUTES)

    some = receive_one(sqs, url, MessageAttributeNames=["Colour.*"], AttributeNames=["SenderId"], VisibilityTimeout=0)
    none = receive_one(sqs, url)

    wanted = {"Colour.hex": ATTRIBUTES["Colour.hex"]}
    assert (some["MessageAttributes"], some["MD5OfMessageAttributes"]) == (wanted, md5_of_attributes(wanted))
    assert set(some["Attributes"]) == {"SenderId"}
    assert set(none) == {"MessageId", "ReceiptHandle", "MD5OfBody", "Body"}


def test_a_batch_succeeds_in_part(sqs: Any, url: str) -> None:
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"MaximumMessageSize": "1024"})
    entries = [
        {"Id": "good", "MessageBody": "good", "MessageAttributes": ATTRIBUTES},
        {"Id": "long", "MessageBody": "x" * 1025},
        {"Id": "late", "MessageBody": "late", "DelaySeconds": 901},
        {"Id": "fine", "MessageBody": "fine"},
    ]

    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)

    assert [(entry["Id"], entry["MD5OfMessageBody"]) for entry in answer["Successful"]] == [
        ("good", md5("good")),
        ("fine", md5("fine")),
    ]
    assert answer["Successful"][0]["MD5OfMessageAttributes"] == md5_of_attributes(ATTRIBUTES)
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in answer["Failed"]] == [
        ("long", "InvalidParameterValue", True),
        ("late", "InvalidParameterValue", True),
    ]
    assert sorted(bodies(receive_all(sqs, url, 2))) == ["fine", "good"]


def test_messages_are_changed_and_deleted_in_batches_that_succeed_in_part(sqs: Any, url: str) -> None:
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": f"{n}", "MessageBody": f"{n}"} for n in range(3)])
    held = receive_all(sqs, url, 3)
    entries = [{"Id": f"{n}", "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(held)]
    garbage = {"Id": "garbage", "ReceiptHandle": "garbage"}

    changed = sqs.change_message_visibility_batch(
        QueueUrl=url, Entries=[{**entry, "VisibilityTimeout": 60} for entry in [*entries, garbage]]
    )
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=[garbage, *entries])

    for answer in (changed, deleted):
        assert [entry["Id"] for entry in answer["Successful"]] == ["0", "1", "2"]
        assert [(entry["Id"], entry["Code"]) for entry in answer["Failed"]] == [("garbage", "ReceiptHandleIsInvalid")]
    assert counts(sqs, url) == (0, 0, 0)


def test_a_batch_is_refused_as_a_whole_where_aws_refuses_it(sqs: Any, url: str) -> None:
    def send(*ids: str) -> Any:
        return sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": id, "MessageBody": "body"} for id in ids])

    with pytest.raises(sqs.exceptions.BatchEntryIdsNotDistinct):
        send("same", "same")
    with pytest.raises(sqs.exceptions.TooManyEntriesInBatchRequest):
        send(*map(str, range(11)))
    with pytest.raises(sqs.exceptions.InvalidBatchEntryId):
        send("not an id")


def test_a_long_poll_ends_when_a_message_comes(connect: Connect, sqs: Any, url: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        waiting = pool.submit(receive, connect(), url, 1, 20)
        sqs.send_message(QueueUrl=url, MessageBody="at last", DelaySeconds=1)
        (message,) = waiting.result(20)

    assert message["Body"] == "at last"
    assert 0.9 < time.monotonic() - began < 5


def test_an_empty_long_poll_lasts_as_long_as_asked(sqs: Any, url: str) -> None:
    began = time.monotonic()

    assert receive(sqs, url, wait=1) == []
    assert 0.95 < time.monotonic() - began < 2
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)


def test_a_message_made_visible_comes_again_until_it_is_deleted(sqs: Any, url: str) -> None:
    sqs.send_message(QueueUrl=url, MessageBody="again")
    first = receive_one(sqs, url)
    assert receive(sqs, url, wait=0) == []
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)

    second = receive_one(sqs, url, MessageSystemAttributeNames=["ApproximateReceiveCount"])

    assert second["MessageId"] == first["MessageId"]
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert second["Attributes"] == {"ApproximateReceiveCount": "2"}
    assert counts(sqs, url) == (0, 1, 0)
    for _ in range(2):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    assert counts(sqs, url) == (0, 0, 0)
    with pytest.raises(ClientError, match="not a valid receipt handle"):
        sqs.delete_message(QueueUrl=url, ReceiptHandle="garbage")


def test_purging_drops_what_is_visible_in_flight_and_delayed(sqs: Any, url: str) -> None:
    sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": f"{n}", "MessageBody": "body"} for n in range(3)])
    receive_one(sqs, url)
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    assert counts(sqs, url) == (2, 1, 1)

    sqs.purge_queue(QueueUrl=url)

    assert eventually(lambda: counts(sqs, url) == (0, 0, 0))


def test_poison_goes_to_the_dead_letters_and_back(sqs: Any, url: str, name: str) -> None:
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": 2})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
    sent = sqs.send_message(QueueUrl=url, MessageBody="poison", MessageAttributes=ATTRIBUTES)
    assert sqs.get_paginator("list_dead_letter_source_queues").paginate(QueueUrl=dead).build_full_result() == {
        "queueUrls": [url]
    }

    for _ in range(2):
        receive_one(sqs, url, VisibilityTimeout=0)
    assert receive(sqs, url, wait=0) == []
    buried = receive_one(sqs, dead, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"])

    assert (buried["MessageId"], buried["MessageAttributes"]) == (sent["MessageId"], ATTRIBUTES)
    assert buried["Attributes"]["ApproximateReceiveCount"] == "3"
    assert buried["Attributes"]["DeadLetterQueueSourceArn"] == arn_of(sqs, url)

    sqs.change_message_visibility(QueueUrl=dead, ReceiptHandle=buried["ReceiptHandle"], VisibilityTimeout=0)
    assert sqs.start_message_move_task(SourceArn=arn_of(sqs, dead))["TaskHandle"]
    assert receive_one(sqs, url, wait=20)["Body"] == "poison"
    (task,) = eventually(lambda: finished_moves(sqs, dead))
    assert task["ApproximateNumberOfMessagesMoved"] == 1
    assert "TaskHandle" not in task


def finished_moves(sqs: Any, url: str) -> list[dict[str, Any]]:
    tasks = sqs.list_message_move_tasks(SourceArn=arn_of(sqs, url))["Results"]
    return [task for task in tasks if task["Status"] == "COMPLETED"]


def test_a_move_is_cancelled(sqs: Any, url: str, name: str) -> None:
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
    for _ in range(3):
        entries = [{"Id": f"{n}", "MessageBody": f"{n}"} for n in range(10)]
        sqs.send_message_batch(QueueUrl=dead, Entries=entries)
    task = sqs.start_message_move_task(
        SourceArn=arn_of(sqs, dead), DestinationArn=arn_of(sqs, url), MaxNumberOfMessagesPerSecond=1
    )

    moved = sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])["ApproximateNumberOfMessagesMoved"]

    assert moved < 30
    (found,) = sqs.list_message_move_tasks(SourceArn=arn_of(sqs, dead))["Results"]
    assert found["Status"] in ("CANCELLING", "CANCELLED")
    with pytest.raises(sqs.exceptions.ResourceNotFoundException) as refused:
        sqs.start_message_move_task(SourceArn=arn_of(sqs, url).replace(name, "nowhere"))
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


# FIFO


def test_a_fifo_queue_keeps_the_order_of_its_groups(sqs: Any, fifo: str) -> None:
    sent = [
        sqs.send_message(QueueUrl=fifo, MessageBody=f"{group}{n}", MessageGroupId=group)
        for n in range(3)
        for group in ("a", "b")
    ]
    numbers = [message["SequenceNumber"] for message in sent]
    assert numbers == sorted(set(numbers))
    assert {len(number) for number in numbers} == {20}

    messages = receive(sqs, fifo, MessageSystemAttributeNames=["All"])

    assert bodies(messages) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert [message["Attributes"]["MessageGroupId"] for message in messages] == ["a"] * 3 + ["b"] * 3
    assert {message["MessageId"]: message["Attributes"]["SequenceNumber"] for message in messages} == {
        message["MessageId"]: message["SequenceNumber"] for message in sent
    }
    assert messages[0]["Attributes"]["MessageDeduplicationId"] == hashlib.sha256(b"a0").hexdigest()


def test_a_group_waits_for_what_is_in_flight(connect: Connect, sqs: Any, fifo: str) -> None:
    for body in ("first", "second"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="group")
    first = receive_one(sqs, fifo)
    assert receive(sqs, fifo, wait=0) == []

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(receive, connect(), fifo, 1, 20)
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"])
        assert bodies(waiting.result(20)) == ["second"]


def test_a_released_message_goes_before_its_successors(sqs: Any, fifo: str) -> None:
    for body in ("first", "second"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="group")
    first = receive_one(sqs, fifo)
    sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)

    again = receive(sqs, fifo)

    assert bodies(again) == ["first", "second"]
    delete(sqs, fifo, again)
    assert counts(sqs, fifo) == (0, 0, 0)


def test_duplicates_are_dropped_by_content_and_by_id(sqs: Any, fifo: str) -> None:
    def send(body: str, **more: Any) -> str:
        return str(sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="group", **more)["MessageId"])

    assert send("same") == send("same")
    first = receive_one(sqs, fifo)
    delete(sqs, fifo, [first])
    assert send("same") == first["MessageId"]
    assert send("one", MessageDeduplicationId="id") == send("two", MessageDeduplicationId="id")

    assert bodies(receive(sqs, fifo)) == ["one"]


def test_a_fifo_batch_succeeds_in_part_and_in_order(sqs: Any, fifo: str) -> None:
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"MaximumMessageSize": "1024"})
    texts = ["first", "x" * 1025, "second", "third"]
    entries = [{"Id": f"{n}", "MessageBody": text, "MessageGroupId": "group"} for n, text in enumerate(texts)]

    answer = sqs.send_message_batch(QueueUrl=fifo, Entries=entries)

    numbers = [entry["SequenceNumber"] for entry in answer["Successful"]]
    assert [entry["Id"] for entry in answer["Successful"]] == ["0", "2", "3"]
    assert [entry["Id"] for entry in answer["Failed"]] == ["1"]
    assert numbers == sorted(set(numbers))
    assert bodies(receive(sqs, fifo)) == ["first", "second", "third"]


def test_a_receive_attempt_is_repeated(sqs: Any, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="body", MessageGroupId="group")

    first = receive_one(sqs, fifo, ReceiveRequestAttemptId="attempt")
    second = receive_one(sqs, fifo, ReceiveRequestAttemptId="attempt")

    assert first["MessageId"] == second["MessageId"]
    assert receive(sqs, fifo, wait=0, ReceiveRequestAttemptId="another") == []


def test_what_a_fifo_queue_needs_is_asked_for(sqs: Any, fifo: str, name: str) -> None:
    with pytest.raises(ClientError) as refused:
        sqs.send_message(QueueUrl=fifo, MessageBody="body")
    assert refused.value.response["Error"]["Code"] == "MissingParameter"
    with pytest.raises(ClientError) as refused:
        sqs.create_queue(QueueName=f"{name}-plain", Attributes={"FifoQueue": "true"})
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_order_survives_the_way_to_the_dead_letters_and_back(sqs: Any, fifo: str, name: str) -> None:
    dead = sqs.create_queue(QueueName=f"{name}-dead.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"RedrivePolicy": policy})
    order = [f"{number}" for number in range(4)]
    for body in order:
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="group")

    assert bodies(receive(sqs, fifo, VisibilityTimeout=0)) == order
    assert receive(sqs, fifo, wait=0) == []
    assert bodies(receive(sqs, dead, VisibilityTimeout=0)) == order

    sqs.start_message_move_task(SourceArn=arn_of(sqs, dead))
    eventually(lambda: finished_moves(sqs, dead))
    assert bodies(receive(sqs, fifo)) == order


def test_a_purged_fifo_queue_forgets_its_duplicates(sqs: Any, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="body", MessageGroupId="group")
    sqs.purge_queue(QueueUrl=fifo)
    eventually(lambda: counts(sqs, fifo) == (0, 0, 0))

    sqs.send_message(QueueUrl=fifo, MessageBody="body", MessageGroupId="group")

    assert bodies(receive(sqs, fifo)) == ["body"]
    sqs.delete_queue(QueueUrl=fifo)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_attributes(QueueUrl=fifo, AttributeNames=["All"])


# Many at once

THREADS = 16
MESSAGES = 2_000


def test_of_many_clients_each_message_reaches_exactly_one(connect: Connect, url: str) -> None:
    clients = [connect() for _ in range(THREADS)]
    seen: Counter[str] = Counter()
    all_there = threading.Event()
    lock = threading.Lock()

    def send(part: int) -> None:
        for start in range(part, MESSAGES, 10 * THREADS // 4):
            numbers = range(start, min(start + 10 * THREADS // 4, MESSAGES), THREADS // 4)
            entries = [{"Id": f"{number}", "MessageBody": f"{number}"} for number in numbers]
            assert "Failed" not in clients[part].send_message_batch(QueueUrl=url, Entries=entries)

    def work(part: int) -> None:
        while not all_there.is_set():
            messages = receive(clients[part], url, wait=1)
            if messages:
                delete(clients[part], url, messages)
            with lock:
                seen.update(bodies(messages))
                if seen.total() >= MESSAGES:
                    all_there.set()

    with ThreadPoolExecutor(THREADS) as pool:
        jobs = [pool.submit(send, part) for part in range(THREADS // 4)]
        jobs += [pool.submit(work, part) for part in range(THREADS // 4, THREADS)]
        try:
            assert all_there.wait(50)
        finally:
            all_there.set()
            for job in jobs:
                job.result(10)

    assert seen == Counter(f"{number}" for number in range(MESSAGES))
    assert counts(clients[0], url) == (0, 0, 0)


def test_many_clients_keep_the_order_of_every_group(connect: Connect, fifo: str) -> None:
    groups, length = 20, 20
    clients = [connect() for _ in range(8)]
    seen: defaultdict[str, list[int]] = defaultdict(list)
    all_there = threading.Event()
    lock = threading.Lock()

    def send(part: int) -> None:
        for number in range(0, length, 10):
            for group in range(part, groups, 2):
                entries = [
                    {"Id": f"{n}", "MessageBody": f"{group} {n}", "MessageGroupId": f"{group}"}
                    for n in range(number, number + 10)
                ]
                assert "Failed" not in clients[part].send_message_batch(QueueUrl=fifo, Entries=entries)

    def work(part: int) -> None:
        while not all_there.is_set():
            messages = receive(clients[part], fifo, 3, 1)
            with lock:
                for body in bodies(messages):
                    group, number = body.split()
                    seen[group].append(int(number))
                if sum(map(len, seen.values())) >= groups * length:
                    all_there.set()
            if messages:
                delete(clients[part], fifo, messages)

    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(send, part) for part in range(2)] + [pool.submit(work, part) for part in range(2, 8)]
        try:
            assert all_there.wait(50)
        finally:
            all_there.set()
            for job in jobs:
                job.result(10)

    assert seen == {f"{group}": list(range(length)) for group in range(groups)}


# Resources


def test_the_resource_api_lives_a_whole_life(server: Running, session: boto3.Session, name: str) -> None:
    resource: Any = session.resource("sqs", endpoint_url=server.url, config=CONFIG)
    dead = resource.create_queue(QueueName=f"{name}-dead")
    policy = json.dumps({"deadLetterTargetArn": dead.attributes["QueueArn"], "maxReceiveCount": 1})
    queue = resource.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})
    assert resource.get_queue_by_name(QueueName=name).url == queue.url
    assert {found.url for found in resource.queues.filter(QueueNamePrefix=name)} == {queue.url, dead.url}
    assert [found.url for found in dead.dead_letter_source_queues.all()] == [queue.url]

    queue.send_message(MessageBody="one", MessageAttributes=ATTRIBUTES)
    queue.send_messages(Entries=[{"Id": "two", "MessageBody": "two"}])
    queue.set_attributes(Attributes={"VisibilityTimeout": "50"})
    queue.reload()
    assert queue.attributes["VisibilityTimeout"] == "50"
    messages = take(queue, 2)
    assert messages["one"].message_attributes == ATTRIBUTES
    messages["one"].delete()
    messages["two"].change_visibility(VisibilityTimeout=0)

    assert queue.receive_messages(WaitTimeSeconds=0) == []
    assert list(take(dead)) == ["two"]
    dead.purge()
    for found in (queue, dead):
        found.delete()
    with pytest.raises(resource.meta.client.exceptions.QueueDoesNotExist):
        queue.load()


def take(queue: Any, count: int = 1) -> dict[str, Any]:
    """That many messages of a queue by their bodies."""
    messages: dict[str, Any] = {}
    while len(messages) < count:
        more = queue.receive_messages(MaxNumberOfMessages=10, WaitTimeSeconds=5, MessageAttributeNames=["All"])
        assert more
        messages |= {message.body: message for message in more}
    return messages


# Signatures


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def signed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """The address of a server that checks them, and an access key."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            place = ["--sqlite", str(tmp_path_factory.mktemp("signed") / "penstock.db")]
        else:
            dsn = stack.enter_context(cluster.empty_database(request.getfixturevalue("postgres_dsn")))
            place = ["--database-url", dsn]
        created = penstock("token", "create", "--aws", "--json", *place)
        assert created.returncode == 0, created.stderr
        key = json.loads(created.stdout)
        server = stack.enter_context(serving("--auth", "sigv4", *place))
        yield server.url, key["access_key_id"], key["secret_access_key"]


def test_a_signed_life_is_a_whole_one(signed: tuple[str, str, str], session: boto3.Session, name: str) -> None:
    address, key, secret = signed
    sqs: Any = session.client(
        "sqs", endpoint_url=address, aws_access_key_id=key, aws_secret_access_key=secret, config=CONFIG
    )
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="signed & sealed 🚰", MessageAttributes=ATTRIBUTES)
    message = receive_one(sqs, url, MessageAttributeNames=["All"])
    assert (message["Body"], message["MessageAttributes"]) == ("signed & sealed 🚰", ATTRIBUTES)
    delete(sqs, url, [message])
    assert counts(sqs, url) == (0, 0, 0)
    sqs.delete_queue(QueueUrl=url)


@pytest.mark.parametrize(
    ("forged", "code"), [("secret", "SignatureDoesNotMatch"), ("key", "InvalidClientTokenId")], ids=["secret", "key"]
)
def test_a_forged_signature_opens_nothing(
    signed: tuple[str, str, str], session: boto3.Session, forged: str, code: str
) -> None:
    address, key, secret = signed
    sqs: Any = session.client(
        "sqs",
        endpoint_url=address,
        aws_access_key_id=KEY if forged == "key" else key,
        aws_secret_access_key=SECRET if forged == "secret" else secret,
        config=CONFIG,
    )

    with pytest.raises(ClientError) as refused:
        sqs.list_queues()

    assert refused.value.response["Error"]["Code"] == code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
