"""One queue, two protocols: what boto3 sends the simple protocol receives, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import httpx
import pytest

from tests import cluster
from tests.system.serving import Running, serving
from tests.third_party.boto3_sqs.calls import CONFIG, attributes_of, counts, receive
from tests.third_party.environment import KEY, REGION, SECRET


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if request.param == "postgres":
        dsn = request.getfixturevalue("postgres_dsn")
        with cluster.empty_database(dsn) as url, serving("--simple", more={"DATABASE_URL": url}) as found:
            yield found
        return
    flags = ["--memory"]
    if request.param == "sqlite":
        flags = ["--sqlite", str(tmp_path_factory.mktemp("sqlite") / "queues.db")]
    with serving(*flags) as found:
        yield found


@pytest.fixture
def sqs(server: Running) -> Any:
    session = boto3.Session(KEY, SECRET, region_name=REGION)
    return session.client("sqs", endpoint_url=server.url, config=CONFIG)


@pytest.fixture
def simple(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        yield http


def call(simple: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    answer = simple.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_what_the_simple_protocol_sends_boto3_receives(simple: httpx.Client, sqs: Any, name: str) -> None:
    sent = call(simple, "/send", queue_name=name, message_body="Hello, world!", message_attributes={"source": "web"})
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]

    [message] = receive(sqs, url, MessageAttributeNames=["All"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert (message["MessageId"], message["MD5OfBody"]) == (sent["message_id"], sent["md5_of_message_body"])
    assert message["MessageAttributes"] == {"source": {"DataType": "String", "StringValue": "web"}}
    assert call(simple, "/queue_length", queue_name=name) == {"queue_name": name, "count": 0, "in_flight": 0}
    assert attributes_of(sqs, url, "MaximumMessageSize", "VisibilityTimeout") == {
        "MaximumMessageSize": "262144",
        "VisibilityTimeout": "30",
    }


def test_what_boto3_sends_the_simple_protocol_receives(simple: httpx.Client, sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    attributes = {
        "Amount": {"DataType": "Number", "StringValue": "12.50"},
        "Picture": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    sent = sqs.send_message(QueueUrl=url, MessageBody="from boto3", MessageAttributes=attributes)

    [message] = call(simple, "/receive", queue_name=name)["messages"]
    in_flight = counts(sqs, url)
    call(simple, "/delete", receipt_handles=[message["receipt_handle"]])

    assert (message["message_id"], message["message_body"]) == (sent["MessageId"], "from boto3")
    assert message["message_attributes"] == {"Amount": "12.50", "Picture": "AP8="}
    assert (in_flight, counts(sqs, url)) == ((0, 1, 0), (0, 0, 0))


def test_both_protocols_share_a_queue_and_its_numbers(simple: httpx.Client, sqs: Any, name: str) -> None:
    call(simple, "/send", queue_name=name, message_body="0")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    for number in range(1, 10):
        if number % 2:
            sqs.send_message(QueueUrl=url, MessageBody=str(number))
        else:
            call(simple, "/send", queue_name=name, message_body=str(number))

    by_simple = call(simple, "/receive", queue_name=name, max_number_of_messages=5)["messages"]
    by_boto3 = receive(sqs, url, 5)
    call(simple, "/delete", receipt_handles=[message["receipt_handle"] for message in by_simple])
    for message in by_boto3:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert [(message["message_body"], message["sequence_number"]) for message in by_simple] == [
        (str(number), number + 1) for number in range(5)
    ]
    assert [message["Body"] for message in by_boto3] == ["5", "6", "7", "8", "9"]
    assert counts(sqs, url) == (0, 0, 0)


def test_a_waiting_receive_of_one_protocol_is_woken_by_a_send_of_the_other(
    simple: httpx.Client, sqs: Any, server: Running, name: str
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=server.url, trust_env=False, timeout=40) as waiting:
        found = pool.submit(call, waiting, "/receive", queue_name=name, wait_time_seconds=20)
        url = sqs.create_queue(QueueName=f"{name}-other")["QueueUrl"].replace("-other", "")
        while True:
            try:
                sqs.send_message(QueueUrl=url, MessageBody="wake up")
                break
            except sqs.exceptions.QueueDoesNotExist:
                continue  # until the receive has created it

        [message] = found.result(15)["messages"]

    assert message["message_body"] == "wake up"
