"""What the tests of boto3 ask of a client, and the sums they check."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from typing import Any

from botocore.config import Config

CONFIG = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=30, max_pool_connections=4)
ATTRIBUTES: dict[str, Any] = {
    "Author": {"DataType": "String", "StringValue": "Ada “the Countess” <&> 🚰"},
    "Amount": {"DataType": "Number", "StringValue": "-12.50e2"},
    "Picture": {"DataType": "Binary", "BinaryValue": bytes(range(256))},
    "Colour.hex": {"DataType": "String.rgb", "StringValue": "#0b7285"},
}

Connect = Callable[..., Any]


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


def finished_moves(sqs: Any, url: str) -> list[dict[str, Any]]:
    tasks = sqs.list_message_move_tasks(SourceArn=arn_of(sqs, url))["Results"]
    return [task for task in tasks if task["Status"] == "COMPLETED"]
