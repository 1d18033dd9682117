"""Clients of the SQS door: boto3 in both protocols, and one that sends whatever it is told to."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4
from xml.etree import ElementTree

import boto3
import botocore
import botocore.session
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"
CREDENTIAL = (
    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/{region}/sqs/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=0"
)

LISTS = {
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "AttributeNames": "AttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "TagKeys": "TagKey",
    "StringListValues": "StringListValue",
    "BinaryListValues": "BinaryListValue",
}
MAPS = {
    "Attributes": ("Attribute", "Name", "Value"),
    "MessageAttributes": ("MessageAttribute", "Name", "Value"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name", "Value"),
    "Tags": ("Tag", "Key", "Value"),
    "tags": ("Tag", "Key", "Value"),
}
SHAPE_NAMES = {
    "AWSAccountIdList": "AWSAccountId",
    "ActionNameList": "ActionName",
    "AttributeNameList": "AttributeName",
    "BatchResultErrorEntryList": "BatchResultErrorEntry",
    "BinaryList": "BinaryListValue",
    "ChangeMessageVisibilityBatchRequestEntryList": "ChangeMessageVisibilityBatchRequestEntry",
    "ChangeMessageVisibilityBatchResultEntryList": "ChangeMessageVisibilityBatchResultEntry",
    "DeleteMessageBatchRequestEntryList": "DeleteMessageBatchRequestEntry",
    "DeleteMessageBatchResultEntryList": "DeleteMessageBatchResultEntry",
    "ListMessageMoveTasksResultEntryList": "ListMessageMoveTasksResultEntry",
    "MessageAttributeNameList": "MessageAttributeName",
    "MessageBodyAttributeMap": "MessageAttribute",
    "MessageBodySystemAttributeMap": "MessageSystemAttribute",
    "MessageList": "Message",
    "MessageSystemAttributeList": "MessageSystemAttributeName",
    "MessageSystemAttributeMap": "Attribute",
    "QueueAttributeMap": "Attribute",
    "QueueUrlList": "QueueUrl",
    "SendMessageBatchRequestEntryList": "SendMessageBatchRequestEntry",
    "SendMessageBatchResultEntryList": "SendMessageBatchResultEntry",
    "StringList": "StringListValue",
    "TagKeyList": "TagKey",
    "TagMap": "Tag",
}
"""What the Query protocol calls the members of each list and map; today's service model says it no more."""


def query_model() -> dict[str, Any]:
    """The service model as it was while SDKs spoke the Query protocol."""
    path = Path(botocore.__file__).parent / "data/sqs/2012-11-05/service-2.json.gz"
    model: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    model["metadata"] |= {"protocol": "query", "protocols": ["query"], "xmlNamespace": NAMESPACE, "signingName": "sqs"}
    for key in ("awsQueryCompatible", "jsonVersion", "targetPrefix", "auth"):
        model["metadata"].pop(key, None)
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    for shape in model["shapes"].values():
        for member in shape.get("members", {}).values():
            if member["shape"] in SHAPE_NAMES:
                member["locationName"] = SHAPE_NAMES[member["shape"]]
    for name, shape in model["shapes"].items():
        if shape["type"] == "list":
            shape["flattened"] = True
            shape["member"]["locationName"] = SHAPE_NAMES[name]
        elif shape["type"] == "map":
            key = "Key" if name == "TagMap" else "Name"
            shape["key"]["locationName"], shape["value"]["locationName"] = key, "Value"
    return model


class Clients:
    """Makes boto3 clients. Reading the service models takes longest, so a test run does it once."""

    def __init__(self, folder: Path) -> None:
        place = folder / "sqs-query" / "2012-11-05"
        place.mkdir(parents=True)
        (place / "service-2.json").write_text(json.dumps(query_model()))
        core = botocore.session.get_session()
        core.get_component("data_loader").search_paths.insert(0, str(folder))
        self._session = boto3.session.Session(botocore_session=core)
        self._lock = threading.Lock()

    def make(
        self, protocol: str, url: str, region: str = "us-east-1", key: tuple[str, str] = ("AKIDEXAMPLE", "secret")
    ) -> Any:
        with self._lock:
            make: Any = self._session.client
            return make(
                "sqs-query" if protocol == "query" else "sqs",
                endpoint_url=url,
                region_name=region,
                aws_access_key_id=key[0],
                aws_secret_access_key=key[1],
                config=Config(retries={"total_max_attempts": 1}, read_timeout=30, proxies={}),
            )


class Sqs:
    """A boto3 client on threads of its own, since the server shares the loop of the test."""

    def __init__(self, client: Any, protocol: str = "json") -> None:
        self.client = client
        self.protocol = protocol

    async def call(self, action: str, **given: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await asyncio.to_thread(getattr(self.client, action), **given)
        return answer

    async def queue(self, name: str | None = None, *, fifo: bool = False, **attributes: Any) -> str:
        name = name or f"q-{uuid4().hex[:12]}{'.fifo' if fifo else ''}"
        if fifo:
            attributes = {"FifoQueue": "true", **attributes}
        given = {key: str(value) for key, value in attributes.items()}
        url: str = (await self.call("create_queue", QueueName=name, Attributes=given))["QueueUrl"]
        return url

    async def fifo(self, **attributes: Any) -> str:
        return await self.queue(fifo=True, ContentBasedDeduplication="true", **attributes)

    async def send(self, url: str, *bodies: str, **given: Any) -> list[dict[str, Any]]:
        return [await self.call("send_message", QueueUrl=url, MessageBody=body, **given) for body in bodies]

    async def receive(self, url: str, most: int = 10, **given: Any) -> list[dict[str, Any]]:
        answer = await self.call("receive_message", QueueUrl=url, MaxNumberOfMessages=most, **given)
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    async def bodies(self, url: str, most: int = 10, **given: Any) -> list[str]:
        return [message["Body"] for message in await self.receive(url, most, **given)]

    async def delete(self, url: str, *messages: Mapping[str, Any]) -> None:
        for message in messages:
            await self.call("delete_message", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    async def hide(self, url: str, message: Mapping[str, Any], seconds: int) -> None:
        handle = message["ReceiptHandle"]
        await self.call("change_message_visibility", QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds)

    async def attributes(self, url: str, *names: str) -> dict[str, str]:
        answer = await self.call("get_queue_attributes", QueueUrl=url, AttributeNames=list(names or ("All",)))
        found: dict[str, str] = answer.get("Attributes", {})
        return found

    async def arn(self, url: str) -> str:
        return (await self.attributes(url, "QueueArn"))["QueueArn"]

    async def set(self, url: str, **attributes: Any) -> None:
        given = {key: str(value) for key, value in attributes.items()}
        await self.call("set_queue_attributes", QueueUrl=url, Attributes=given)

    async def with_dead_letters(self, receives: int = 1, *, fifo: bool = False) -> tuple[str, str]:
        """A queue and its dead-letter queue."""
        more = {"ContentBasedDeduplication": "true"} if fifo else {}
        dead = await self.queue(fifo=fifo, **more)
        policy = json.dumps({"deadLetterTargetArn": await self.arn(dead), "maxReceiveCount": receives})
        return await self.queue(fifo=fifo, RedrivePolicy=policy, VisibilityTimeout=10, **more), dead


@contextmanager
def refused(code: str, message: str | None = None, status: int = 400) -> Iterator[None]:
    with pytest.raises(ClientError) as found:
        yield
    error = found.value.response["Error"]
    assert error["Code"] == code, error
    if message is not None:
        assert error["Message"] == message
    assert found.value.response["ResponseMetadata"]["HTTPStatusCode"] == status


# Raw


def _plain(value: Any) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def flatten(given: Any, prefix: str = "", action: str = "") -> dict[str, str]:
    """A JSON input as the parameters of the Query protocol."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name == "Entries":
            for number, item in enumerate(value, 1):
                found |= flatten(item, f"{prefix}{action}RequestEntry.{number}.")
        elif name in LISTS:
            for number, item in enumerate(value, 1):
                found[f"{prefix}{LISTS[name]}.{number}"] = _plain(item)
        elif name in MAPS:
            item_name, key_name, value_name = MAPS[name]
            for number, (key, item) in enumerate(value.items(), 1):
                start = f"{prefix}{item_name}.{number}"
                found[f"{start}.{key_name}"] = key
                if isinstance(item, dict):
                    found |= flatten(item, f"{start}.{value_name}.")
                else:
                    found[f"{start}.{value_name}"] = _plain(item)
        else:
            found[f"{prefix}{name}"] = _plain(value)
    return found


class Raw:
    """Sends an action in either protocol; the answer is httpx's own."""

    def __init__(self, http: httpx.AsyncClient, region: str = "us-east-1") -> None:
        self.http = http
        self._authorization = CREDENTIAL.format(region=region)

    async def json(self, action: str, given: Any, path: str = "/", **headers: str) -> httpx.Response:
        body = given if isinstance(given, bytes) else json.dumps(given, default=lambda value: b64encode(value).decode())
        head = {
            "authorization": self._authorization,
            "x-amz-target": f"AmazonSQS.{action}",
            "content-type": "application/x-amz-json-1.0",
        }
        return await self.http.post(path, content=body, headers=head | headers)

    async def query(self, action: str | None, given: Any, path: str = "/", **headers: str) -> httpx.Response:
        parameters = flatten(given, action=action or "")
        if action is not None:
            parameters["Action"] = action
        head = {"authorization": self._authorization, "content-type": "application/x-www-form-urlencoded"}
        return await self.http.post(path, content=urlencode(parameters), headers=head | headers)

    async def get(self, path: str, headers: Mapping[str, str] | None = None, **parameters: Any) -> httpx.Response:
        """With credentials in a header, unless they are among the parameters."""
        signed = "X-Amz-Credential" in parameters or "Action" not in parameters
        credentials = {} if signed else {"authorization": self._authorization}
        return await self.http.get(path, params=parameters, headers={**credentials, **(headers or {})})


def xml(answer: httpx.Response) -> ElementTree.Element:
    return ElementTree.fromstring(answer.content)


def text(element: ElementTree.Element, *names: str) -> str | None:
    path = "/".join(f"{{{NAMESPACE}}}{name}" for name in names)
    return element.findtext(path)
