"""Clients of the SNS door: boto3, and one that sends whatever it is told to, in either protocol."""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4
from xml.etree import ElementTree

import boto3
import httpx
from botocore.config import Config

NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"
VERSION = "2010-03-31"
ACCOUNT = "000000000000"
CREDENTIAL = (
    "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/{region}/sns/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=0"
)


def topic_arn(name: str, region: str = "us-east-1") -> str:
    return f"arn:aws:sns:{region}:{ACCOUNT}:{name}"


def queue_arn(name: str, region: str = "us-east-1") -> str:
    return f"arn:aws:sqs:{region}:{ACCOUNT}:{name}"


def fresh(ending: str = "") -> str:
    return f"t-{uuid4().hex[:12]}{ending}"


_making = threading.Lock()
_sessions: list[boto3.session.Session] = []


def connect(url: str, region: str = "us-east-1", service: str = "sns") -> Any:
    """A boto3 client. Reading the service models takes longest, so a test run does it once."""
    with _making:
        if not _sessions:
            _sessions.append(boto3.session.Session())
        make: Any = _sessions[0].client
        return make(
            service,
            endpoint_url=url,
            region_name=region,
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key="secret",
            config=Config(retries={"total_max_attempts": 1}, read_timeout=30, proxies={}),
        )


class Sns:
    """A boto3 client on threads of its own, since the server shares the loop of the test."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def call(self, action: str, **given: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await asyncio.to_thread(getattr(self.client, action), **given)
        return answer

    async def topic(self, name: str | None = None, *, fifo: bool = False, **attributes: str) -> str:
        name = name or fresh(".fifo" if fifo else "")
        if fifo:
            attributes = {"FifoTopic": "true", **attributes}
        arn: str = (await self.call("create_topic", Name=name, Attributes=attributes))["TopicArn"]
        return arn

    async def subscribe(self, topic: str, endpoint: str, protocol: str = "sqs", **attributes: str) -> str:
        answer = await self.call(
            "subscribe",
            TopicArn=topic,
            Protocol=protocol,
            Endpoint=endpoint,
            Attributes=attributes,
            ReturnSubscriptionArn=True,
        )
        arn: str = answer["SubscriptionArn"]
        return arn

    async def publish(self, topic: str, message: str, **given: Any) -> dict[str, Any]:
        return await self.call("publish", TopicArn=topic, Message=message, **given)

    async def topic_attributes(self, arn: str) -> dict[str, str]:
        found: dict[str, str] = (await self.call("get_topic_attributes", TopicArn=arn))["Attributes"]
        return found

    async def subscription_attributes(self, arn: str) -> dict[str, str]:
        answer = await self.call("get_subscription_attributes", SubscriptionArn=arn)
        found: dict[str, str] = answer["Attributes"]
        return found

    async def set(self, subscription: str, name: str, value: str) -> None:
        await self.call(
            "set_subscription_attributes", SubscriptionArn=subscription, AttributeName=name, AttributeValue=value
        )


# Raw


def flatten(given: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A JSON input as the parameters of the Query protocol."""
    found: dict[str, str] = {}
    for name, value in given.items():
        found |= _flat(f"{prefix}{name}", value, named=name == "MessageAttributes")
    return found


def _flat(name: str, value: Any, *, named: bool = False) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, list):
        return {
            key: text
            for number, item in enumerate(value, 1)
            for key, text in _inner(f"{name}.member.{number}", item).items()
        }
    if isinstance(value, dict):
        key_name, value_name = ("Name", "Value") if named else ("key", "value")
        found: dict[str, str] = {}
        for number, (key, item) in enumerate(value.items(), 1):
            found[f"{name}.entry.{number}.{key_name}"] = key
            found |= _inner(f"{name}.entry.{number}.{value_name}", item)
        return found
    return {name: _plain(value)}


def _inner(name: str, item: Any) -> dict[str, str]:
    return flatten(item, f"{name}.") if isinstance(item, dict) else {name: _plain(item)}


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


class Raw:
    """Sends an action in either protocol; the answer is httpx's own."""

    def __init__(self, http: httpx.AsyncClient, region: str = "us-east-1") -> None:
        self.http = http
        self._authorization = CREDENTIAL.format(region=region)

    async def send(self, protocol: str, action: str, given: Any) -> httpx.Response:
        return await (self.json if protocol == "json" else self.query)(action, given)

    async def json(
        self, action: str, given: Any, target: str = "AmazonSimpleNotificationService", **headers: str
    ) -> httpx.Response:
        body = given if isinstance(given, bytes) else json.dumps(given, default=lambda value: b64encode(value).decode())
        head = {
            "authorization": self._authorization,
            "x-amz-target": f"{target}.{action}",
            "content-type": "application/x-amz-json-1.0",
        }
        return await self.http.post("/", content=body, headers=head | headers)

    async def query(self, action: str, given: Mapping[str, Any], **headers: str) -> httpx.Response:
        parameters = {"Action": action, "Version": VERSION, **flatten(given)}
        head = {"authorization": self._authorization, "content-type": "application/x-www-form-urlencoded"}
        return await self.http.post("/", content=urlencode(parameters), headers=head | headers)


def refusal(protocol: str, answer: httpx.Response) -> tuple[str, str, int]:
    """Code, message and status of an error."""
    if protocol == "json":
        return answer.headers["x-amzn-query-error"].split(";")[0], answer.json()["message"], answer.status_code
    error = ElementTree.fromstring(answer.content).find(f"{{{NAMESPACE}}}Error")
    assert error is not None, answer.text
    code, message = (error.findtext(f"{{{NAMESPACE}}}{name}") or "" for name in ("Code", "Message"))
    return code, message, answer.status_code
