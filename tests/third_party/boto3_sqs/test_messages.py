"""boto3 sends, receives, changes and deletes messages."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.third_party.boto3_sqs.calls import (
    ATTRIBUTES,
    Connect,
    bodies,
    counts,
    md5,
    md5_of_attributes,
    receive,
    receive_all,
    receive_one,
)
from tests.third_party.environment import eventually


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
