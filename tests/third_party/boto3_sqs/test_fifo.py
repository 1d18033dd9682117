"""boto3 with FIFO queues: order, groups, duplicates."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.third_party.boto3_sqs.calls import (
    Connect,
    arn_of,
    bodies,
    counts,
    delete,
    finished_moves,
    receive,
    receive_one,
)
from tests.third_party.environment import eventually


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
