"""boto3 finds dead letters and moves them home."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.third_party.boto3_sqs.calls import ATTRIBUTES, arn_of, finished_moves, receive, receive_one
from tests.third_party.environment import eventually


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
