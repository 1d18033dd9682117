"""The `aws` command; what it prints is JSON."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.system.serving import ROOT, Running
from tests.third_party.environment import client_environment, eventually

TYPED = {
    "Author": {"DataType": "String", "StringValue": "Ada"},
    "Amount": {"DataType": "Number", "StringValue": "12.50"},
    "Picture": {"DataType": "Binary", "BinaryValue": "water"},
}
PRINTED = {**TYPED, "Picture": {"DataType": "Binary", "BinaryValue": b64encode(b"water").decode()}}
"""This version takes bytes as they are, and prints them in Base64."""


Answer = tuple[int, str, str]
"""Exit status, standard output, standard error."""


class Aws:
    """Options are named as on the command line, with underscores; whatever is not text is written in JSON."""

    def __init__(self, url: str, run: Callable[[list[str]], Answer]) -> None:
        self._url = url
        self._run = run

    def run(self, action: str, **options: Any) -> Answer:
        words = ["sqs", action, "--output", "json", "--endpoint-url", self._url]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", value if isinstance(value, str) else json.dumps(value)]
        return self._run(words)

    def __call__(self, action: str, **options: Any) -> dict[str, Any]:
        status, out, err = self.run(action, **options)
        assert status == 0, err
        answer: dict[str, Any] = json.loads(out or "{}")
        return answer

    def receive(self, url: str, **more: Any) -> list[dict[str, Any]]:
        options = {"max_number_of_messages": "10", "wait_time_seconds": "10", **more}
        found: list[dict[str, Any]] = self("receive-message", queue_url=url, **options).get("Messages", [])
        return found

    def attribute(self, url: str, name: str) -> str:
        return str(self("get-queue-attributes", queue_url=url, attribute_names=[name])["Attributes"][name])


def environment(server: Running) -> dict[str, str]:
    return client_environment(server.url, {"AWS_MAX_ATTEMPTS": "1", "PYTHONIOENCODING": "utf-8"})


@pytest.fixture
def command(server: Running) -> Aws:
    """The command itself, a process for each call."""

    def run(words: list[str]) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "awscli", *words], env=environment(server), capture_output=True, timeout=60
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return Aws(server.url, run)


@pytest.fixture
def aws(server: Running) -> Iterator[Aws]:
    """One process for many calls."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.third_party.aws_shell"],
        cwd=ROOT,
        env=environment(server),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        asked, answered = shell.stdin, shell.stdout
        assert asked is not None
        assert answered is not None

        def run(words: list[str]) -> Answer:
            print(json.dumps(words), file=asked, flush=True)
            status, out, err = json.loads(answered.readline())
            return status, out, err

        yield Aws(server.url, run)


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def receipts(messages: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{"Id": f"{n}", "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(messages)]


def with_dead_letters(aws: Aws, url: str, name: str, **options: Any) -> tuple[str, str]:
    """The URL and the ARN of a new queue for what was received once."""
    dead = aws("create-queue", queue_name=name, **options)["QueueUrl"]
    arn = aws.attribute(dead, "QueueArn")
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})
    aws("set-queue-attributes", queue_url=url, attributes={"RedrivePolicy": policy})
    return dead, arn


def move_back(aws: Aws, arn: str) -> int:
    aws("start-message-move-task", source_arn=arn)

    def finished() -> list[int]:
        tasks = aws("list-message-move-tasks", source_arn=arn)["Results"]
        return [task["ApproximateNumberOfMessagesMoved"] for task in tasks if task["Status"] == "COMPLETED"]

    return eventually(finished)[0]


def test_the_command_line_lives_a_whole_life_with_a_standard_queue(aws: Aws, name: str) -> None:
    given = {"VisibilityTimeout": "45", "MaximumMessageSize": "1024"}
    url = aws("create-queue", queue_name=name, attributes=given, tags={"team": "water"})["QueueUrl"]
    assert aws("get-queue-url", queue_name=name) == {"QueueUrl": url}
    assert aws("list-queues", queue_name_prefix=name) == {"QueueUrls": [url]}
    aws("tag-queue", queue_url=url, tags={"level": "3"})
    assert aws("list-queue-tags", queue_url=url) == {"Tags": {"team": "water", "level": "3"}}
    aws("set-queue-attributes", queue_url=url, attributes={"VisibilityTimeout": "50"})
    found = aws("get-queue-attributes", queue_url=url, attribute_names=["All"])["Attributes"]
    assert (found["VisibilityTimeout"], found["MaximumMessageSize"]) == ("50", "1024")

    sent = aws("send-message", queue_url=url, message_body="typed", message_attributes=TYPED)
    (message,) = aws.receive(url, message_attribute_names=["All"], message_system_attribute_names=["All"])
    assert (message["MessageId"], message["MessageAttributes"]) == (sent["MessageId"], PRINTED)
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"] == hashlib.md5(b"typed").hexdigest()
    receipt = message["ReceiptHandle"]
    aws("change-message-visibility", queue_url=url, receipt_handle=receipt, visibility_timeout="0")
    (message,) = aws.receive(url)
    aws("delete-message", queue_url=url, receipt_handle=message["ReceiptHandle"])

    entries = [{"Id": "good", "MessageBody": "good"}, {"Id": "long", "MessageBody": "x" * 1025}]
    answer = aws("send-message-batch", queue_url=url, entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert [(entry["Id"], entry["SenderFault"]) for entry in answer["Failed"]] == [("long", True)]
    garbage = {"Id": "garbage", "ReceiptHandle": "garbage"}
    answer = aws("delete-message-batch", queue_url=url, entries=[*receipts(aws.receive(url)), garbage])
    assert [entry["Id"] for entry in answer["Successful"]] == ["0"]
    assert [entry["Code"] for entry in answer["Failed"]] == ["ReceiptHandleIsInvalid"]

    dead, arn = with_dead_letters(aws, url, f"{name}-dead")
    assert aws("list-dead-letter-source-queues", queue_url=dead) == {"queueUrls": [url]}
    aws("send-message", queue_url=url, message_body="poison")
    assert bodies(aws.receive(url, visibility_timeout="0")) == ["poison"]
    assert aws.receive(url, wait_time_seconds="0") == []
    assert bodies(aws.receive(dead, visibility_timeout="0")) == ["poison"]
    assert move_back(aws, arn) == 1
    assert bodies(aws.receive(url, visibility_timeout="0")) == ["poison"]

    aws("purge-queue", queue_url=url)
    assert aws.attribute(url, "ApproximateNumberOfMessages") == "0"
    aws("delete-queue", queue_url=url)
    status, _, refused = aws.run("get-queue-url", queue_name=name)
    assert status != 0
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in refused
    assert "The specified queue does not exist." in refused


def test_the_command_line_lives_a_whole_life_with_a_fifo_queue(aws: Aws, name: str) -> None:
    given = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = aws("create-queue", queue_name=f"{name}.fifo", attributes=given)["QueueUrl"]
    assert aws.attribute(url, "FifoQueue") == "true"

    first, second = (
        aws("send-message", queue_url=url, message_body=body, message_group_id="a", message_deduplication_id="id")
        for body in ("a1", "a duplicate")
    )
    assert first["MessageId"] == second["MessageId"]
    texts = ["b1", "a2", "b2"]
    entries = [{"Id": text, "MessageBody": text, "MessageGroupId": text[0]} for text in texts]
    answer = aws("send-message-batch", queue_url=url, entries=entries)
    numbers = [first["SequenceNumber"], *(entry["SequenceNumber"] for entry in answer["Successful"])]
    assert numbers == sorted(set(numbers))
    messages = aws.receive(url, message_system_attribute_names=["MessageGroupId", "SequenceNumber"])
    assert bodies(messages) == ["a1", "a2", "b1", "b2"]
    assert [message["Attributes"]["MessageGroupId"] for message in messages] == ["a", "a", "b", "b"]
    assert sorted(message["Attributes"]["SequenceNumber"] for message in messages) == numbers
    assert "Failed" not in aws("delete-message-batch", queue_url=url, entries=receipts(messages))

    dead, arn = with_dead_letters(aws, url, f"{name}-dead.fifo", attributes={"FifoQueue": "true"})
    entries = [{"Id": text, "MessageBody": text, "MessageGroupId": "g"} for text in ("p1", "p2")]
    aws("send-message-batch", queue_url=url, entries=entries)
    aws.receive(url, visibility_timeout="0")
    assert aws.receive(url, wait_time_seconds="0") == []
    assert bodies(aws.receive(dead, visibility_timeout="0")) == ["p1", "p2"]
    assert move_back(aws, arn) == 2
    assert bodies(aws.receive(url)) == ["p1", "p2"]

    aws("purge-queue", queue_url=url)
    aws("delete-queue", queue_url=url)
    _, _, refused = aws.run("send-message", queue_url=url, message_body="late", message_group_id="g")
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in refused


def test_odd_texts_pass_the_command_line_unharmed(command: Aws, name: str) -> None:
    texts = ["🚰 ünïcödé 水", "\"double\" 'single' `back` \\", "<&> &amp; ]]>", "a\rb\r\nc\n\td", " padded "]
    url = command("create-queue", queue_name=name)["QueueUrl"]
    entries = [
        {
            "Id": f"{number}",
            "MessageBody": text,
            "MessageAttributes": {"Text": {"DataType": "String", "StringValue": text}},
        }
        for number, text in enumerate(texts)
    ]

    assert len(command("send-message-batch", queue_url=url, entries=entries)["Successful"]) == len(texts)

    messages: list[dict[str, Any]] = []
    while len(messages) < len(texts):
        more = command.receive(url, message_attribute_names=["All"])
        assert more
        messages += more
    assert sorted(bodies(messages)) == sorted(texts)
    for message in messages:
        assert message["MessageAttributes"]["Text"]["StringValue"] == message["Body"]
        assert message["MD5OfBody"] == hashlib.md5(message["Body"].encode()).hexdigest()
