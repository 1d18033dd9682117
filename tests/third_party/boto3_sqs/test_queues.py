"""boto3 makes, finds, changes and deletes queues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.third_party.boto3_sqs.calls import Connect, arn_of, attributes_of
from tests.third_party.environment import REGION


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
