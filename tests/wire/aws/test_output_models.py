"""Every action of SQS and SNS, with its XML held against the service model: each element has its place there."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import botocore.session
import httpx
import pytest
from botocore.model import ListShape, MapShape, OperationModel, ServiceModel, Shape, StructureShape

from penstock.engine.topics.topics import token_digest
from penstock.model import DEFAULT_TENANT
from penstock.model.outbox import RecordKind
from penstock.model.topics import NewSubscription
from penstock.wire.sns.subscriptions import new_token
from tests.plain import PLAIN
from tests.wire import amazon, notifications
from tests.wire.conftest import Live, running
from tests.wire.notifications import queue_arn

SNS = botocore.session.get_session().get_service_model("sns")
SQS = ServiceModel(amazon.query_model(), "sqs")
NUMBER = "+15550001234"
REQUEST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Ask = Callable[..., Awaitable[Any]]


def local(element: Element, namespace: str) -> str:
    space, _, name = element.tag[1:].partition("}")
    assert space == namespace
    return name


def text_of(element: Element, kind: str, place: str) -> str:
    assert len(element) == 0, place
    text = element.text or ""
    if kind == "boolean":
        assert text in ("true", "false"), place
    elif kind in ("integer", "long"):
        assert re.fullmatch(r"-?\d+", text), place
    return text


class Judge:
    """Reads an answer as the service model says, and fails at anything that has no place in it."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    def read(self, operation: OperationModel, content: bytes) -> Any:
        root = ElementTree.fromstring(content)
        assert local(root, self._namespace) == f"{operation.name}Response"
        names = [local(child, self._namespace) for child in root]
        shape = operation.output_shape
        wrapper = f"{operation.name}Result"
        assert names == (["ResponseMetadata"] if shape is None else [wrapper, "ResponseMetadata"])
        [request_id] = root[-1]
        assert local(request_id, self._namespace) == "RequestId"
        assert REQUEST_ID.fullmatch(request_id.text or "")
        return {} if shape is None else self._value(shape, root[0], operation.name)

    def _value(self, shape: Shape, element: Element, place: str) -> Any:
        assert not element.attrib, place
        if isinstance(shape, StructureShape):
            return self._struct(shape, element, place)
        if isinstance(shape, ListShape):
            assert {local(child, self._namespace) for child in element} <= {"member"}, place
            return [self._value(shape.member, child, f"{place}[]") for child in element]
        if isinstance(shape, MapShape):
            assert {local(child, self._namespace) for child in element} <= {"entry"}, place
            return dict(self._entry(shape, child, place) for child in element)
        return text_of(element, shape.type_name, place)

    def _struct(self, shape: StructureShape, element: Element, place: str) -> dict[str, Any]:
        assert not (element.text or "").strip(), place
        by_tag = {member.serialization.get("name", name): (name, member) for name, member in shape.members.items()}
        found: dict[str, Any] = {}
        for child in element:
            tag = local(child, self._namespace)
            assert tag in by_tag, f"{place}: {tag} is not a member"
            name, member = by_tag[tag]
            if isinstance(member, ListShape) and member.serialization.get("flattened"):
                found.setdefault(name, []).append(self._value(member.member, child, f"{place}.{name}"))
            elif isinstance(member, MapShape) and member.serialization.get("flattened"):
                key, value = self._entry(member, child, f"{place}.{name}")
                found.setdefault(name, {})[key] = value
            else:
                assert name not in found, f"{place}: {tag} is there twice"
                found[name] = self._value(member, child, f"{place}.{name}")
        assert set(shape.required_members) <= set(found), place
        return found

    def _entry(self, shape: MapShape, element: Element, place: str) -> tuple[str, Any]:
        key_name = shape.key.serialization.get("name", "key")
        value_name = shape.value.serialization.get("name", "value")
        assert [local(child, self._namespace) for child in element] == [key_name, value_name], place
        return element[0].text or "", self._value(shape.value, element[1], place)


class Asked:
    """Asks actions and notes which, and which members of their answers were seen."""

    def __init__(self, raw: Any, model: ServiceModel, namespace: str) -> None:
        self._raw = raw
        self._model = model
        self._judge = Judge(namespace)
        self.seen: dict[str, set[str]] = {}

    async def __call__(self, action: str, **given: Any) -> Any:
        answer = await self._raw.query(action, given)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/xml"), (action, answer.text)
        found = self._judge.read(self._model.operation_model(action), answer.content)
        self.seen.setdefault(action, set()).update(found)
        return found

    def missed(self) -> dict[str, set[str]]:
        """Members that no answer had."""
        wanted = {
            name: set(shape.members) if (shape := self._model.operation_model(name).output_shape) else set()
            for name in self._model.operation_names
        }
        return {name: left for name, members in wanted.items() if (left := members - self.seen.get(name, set()))}


@pytest.fixture
async def door() -> AsyncIterator[tuple[Live, httpx.AsyncClient]]:
    async with (
        running(auto_confirm=False) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False, verify=PLAIN) as http,
    ):
        yield server, http


async def test_the_answers_of_sns_are_those_of_its_model(door: tuple[Live, httpx.AsyncClient]) -> None:
    server, http = door
    ask = Asked(notifications.Raw(http), SNS, notifications.NAMESPACE)
    await server.engine.queues.create(DEFAULT_TENANT, "q", {})
    await topics(ask, server)
    await phones(ask, server)
    await applications(ask)
    assert set(ask.seen) == set(SNS.operation_names)
    # Penstock has no origination numbers, so there is no second page of them.
    assert ask.missed() == {"ListOriginationNumbers": {"NextToken"}}


async def topics(ask: Asked, server: Live) -> None:
    arn = (await ask("CreateTopic", Name="news", Tags=[{"Key": "a", "Value": ""}]))["TopicArn"]
    fifo = (await ask("CreateTopic", Name="n.fifo", Attributes={"FifoTopic": "true"}))["TopicArn"]
    for number in range(100):
        await server.engine.topics.create(DEFAULT_TENANT, f"more-{number}", {})
    assert len((await ask("ListTopics"))["Topics"]) == 100
    assert "Policy" in (await ask("GetTopicAttributes", TopicArn=arn))["Attributes"]
    await ask("SetTopicAttributes", TopicArn=arn, AttributeName="DisplayName", AttributeValue="<&>")
    assert (await ask("GetTopicAttributes", TopicArn=arn))["Attributes"]["DisplayName"] == "<&>"
    await ask("AddPermission", TopicArn=arn, Label="l", AWSAccountId=["111122223333"], ActionName=["Publish"])
    await ask("RemovePermission", TopicArn=arn, Label="l")
    statement = {"DataDirection": "Inbound", "DataIdentifier": ["x"], "Operation": {"Deny": {}}}
    policy = json.dumps({"Name": "p", "Version": "2021-06-01", "Statement": [statement]})
    await ask("PutDataProtectionPolicy", ResourceArn=arn, DataProtectionPolicy=policy)
    await ask("GetDataProtectionPolicy", ResourceArn=arn)
    await ask("TagResource", ResourceArn=arn, Tags=[{"Key": "b", "Value": "c"}])
    assert {"Key": "a", "Value": ""} in (await ask("ListTagsForResource", ResourceArn=arn))["Tags"]
    await ask("UntagResource", ResourceArn=arn, TagKeys=["b"])
    one = (await ask("Subscribe", TopicArn=arn, Protocol="sqs", Endpoint=queue_arn("q")))["SubscriptionArn"]
    await ask(
        "SetSubscriptionAttributes", SubscriptionArn=one, AttributeName="RawMessageDelivery", AttributeValue="true"
    )
    await ask("GetSubscriptionAttributes", SubscriptionArn=one)
    for number in range(101):
        await ask("Subscribe", TopicArn=arn, Protocol="sms", Endpoint=f"+1555000{number:04}")
    assert len((await ask("ListSubscriptions"))["Subscriptions"]) == 100
    assert len((await ask("ListSubscriptionsByTopic", TopicArn=arn))["Subscriptions"]) == 100
    await confirm(ask, server, arn)
    await ask("Publish", TopicArn=fifo, Message="m", MessageGroupId="g", MessageDeduplicationId="d")
    entries = [{"Id": "1", "Message": "m", "Subject": "s"}, {"Id": "2", "Message": ""}]
    both = await ask("PublishBatch", TopicArn=arn, PublishBatchRequestEntries=entries)
    assert [len(both["Successful"]), len(both["Failed"])] == [1, 1]
    await ask("Unsubscribe", SubscriptionArn=one)
    await ask("DeleteTopic", TopicArn=arn)


async def confirm(ask: Asked, server: Live, arn: str) -> None:
    topic = arn.rpartition(":")[2]
    token = new_token("us-east-1")
    await server.engine.topics.subscribe(
        NewSubscription(
            tenant=DEFAULT_TENANT, topic=topic, protocol="http", endpoint="http://127.0.0.1:9/", confirmed=False,
            token_sha256=token_digest(token),
        )
    )  # fmt: skip
    await ask("ConfirmSubscription", TopicArn=arn, Token=token)


async def phones(ask: Asked, server: Live) -> None:
    for number in range(101):
        await server.engine.records.add(DEFAULT_TENANT, RecordKind.OPTED_OUT, f"+1556000{number:04}", {})
    assert (await ask("CheckIfPhoneNumberIsOptedOut", phoneNumber="+15560000001"))["isOptedOut"] == "true"
    assert len((await ask("ListPhoneNumbersOptedOut"))["phoneNumbers"]) == 100
    await ask("OptInPhoneNumber", phoneNumber="+15560000001")
    await ask("SetSMSAttributes", attributes={"DefaultSMSType": "Promotional"})
    await ask("GetSMSAttributes")
    await ask("GetSMSSandboxAccountStatus")
    await ask("CreateSMSSandboxPhoneNumber", PhoneNumber=NUMBER)
    await ask("CreateSMSSandboxPhoneNumber", PhoneNumber="+15550001235")
    assert len((await ask("ListSMSSandboxPhoneNumbers", MaxResults=1))["PhoneNumbers"]) == 1
    found = await server.engine.outbox.list(DEFAULT_TENANT)
    password = next(item.body.split()[-1] for item in found if item.address == NUMBER)
    await ask("VerifySMSSandboxPhoneNumber", PhoneNumber=NUMBER, OneTimePassword=password)
    await ask("DeleteSMSSandboxPhoneNumber", PhoneNumber=NUMBER)
    assert (await ask("ListOriginationNumbers")) == {"PhoneNumbers": []}


async def applications(ask: Asked) -> None:
    made = []
    for number in range(101):
        given = {"Name": f"app-{number}", "Platform": "GCM", "Attributes": {"PlatformCredential": "secret"}}
        made.append((await ask("CreatePlatformApplication", **given))["PlatformApplicationArn"])
    assert len((await ask("ListPlatformApplications"))["PlatformApplications"]) == 100
    arn = made[0]
    await ask(
        "SetPlatformApplicationAttributes", PlatformApplicationArn=arn, Attributes={"SuccessFeedbackSampleRate": "1"}
    )
    await ask("GetPlatformApplicationAttributes", PlatformApplicationArn=arn)
    for number in range(101):
        given = {"PlatformApplicationArn": arn, "Token": f"token-{number}"}
        endpoint = (await ask("CreatePlatformEndpoint", **given))["EndpointArn"]
    assert len((await ask("ListEndpointsByPlatformApplication", PlatformApplicationArn=arn))["Endpoints"]) == 100
    await ask("SetEndpointAttributes", EndpointArn=endpoint, Attributes={"CustomUserData": "x"})
    await ask("GetEndpointAttributes", EndpointArn=endpoint)
    await ask("DeleteEndpoint", EndpointArn=endpoint)
    await ask("DeletePlatformApplication", PlatformApplicationArn=arn)


async def test_the_answers_of_sqs_are_those_of_its_model(door: tuple[Live, httpx.AsyncClient]) -> None:
    _, http = door
    ask = Asked(amazon.Raw(http), SQS, amazon.NAMESPACE)
    dead = (await ask("CreateQueue", QueueName="dead"))["QueueUrl"]
    redrive = json.dumps({"deadLetterTargetArn": queue_arn("dead"), "maxReceiveCount": 1})
    given = {"RedrivePolicy": redrive, "VisibilityTimeout": "0"}
    url = (await ask("CreateQueue", QueueName="q", Attributes=given, tags={"a": "b"}))["QueueUrl"]
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    ordered = (await ask("CreateQueue", QueueName="o.fifo", Attributes=fifo))["QueueUrl"]
    await ask("GetQueueUrl", QueueName="q")
    await ask("ListQueues", MaxResults=1)
    await ask("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=1)
    await ask("CreateQueue", QueueName="q2", Attributes=given)
    await ask("ListDeadLetterSourceQueues", QueueUrl=dead, MaxResults=1)
    assert "QueueArn" in (await ask("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"]))["Attributes"]
    await ask("GetQueueAttributes", QueueUrl=url)
    await ask("SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "0"})
    await ask("TagQueue", QueueUrl=url, Tags={"c": ""})
    assert (await ask("ListQueueTags", QueueUrl=url))["Tags"] == {"a": "b", "c": ""}
    await ask("UntagQueue", QueueUrl=url, TagKeys=["a", "c"])
    assert (await ask("ListQueueTags", QueueUrl=url)) == {}
    await ask("AddPermission", QueueUrl=url, Label="l", AWSAccountIds=["111122223333"], Actions=["SendMessage"])
    await ask("RemovePermission", QueueUrl=url, Label="l")
    await messages(ask, url, ordered)
    await ask("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)
    task = await ask("StartMessageMoveTask", SourceArn=queue_arn("dead"), MaxNumberOfMessagesPerSecond=1)
    await ask("ListMessageMoveTasks", SourceArn=queue_arn("dead"))
    await ask("CancelMessageMoveTask", TaskHandle=task["TaskHandle"])
    await ask("ListMessageMoveTasks", SourceArn=queue_arn("dead"))
    await ask("PurgeQueue", QueueUrl=url)
    await ask("DeleteQueue", QueueUrl=url)
    assert set(ask.seen) == set(SQS.operation_names)
    assert ask.missed() == {}


async def messages(ask: Asked, url: str, ordered: str) -> None:
    attributes = {"a": {"DataType": "String", "StringValue": "\r<"}, "b": {"DataType": "Binary", "BinaryValue": b"\0"}}
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}}
    await ask("SendMessage", QueueUrl=ordered, MessageBody="m", MessageGroupId="g")
    await ask(
        "SendMessage", QueueUrl=url, MessageBody="m\r", MessageAttributes=attributes, MessageSystemAttributes=trace
    )
    sent = await ask(
        "SendMessageBatch",
        QueueUrl=url,
        Entries=[{"Id": "1", "MessageBody": "m"}, {"Id": "2", "MessageBody": "\0"}],
    )
    assert [len(sent["Successful"]), len(sent["Failed"])] == [1, 1]
    found = await ask(
        "ReceiveMessage",
        QueueUrl=url,
        MaxNumberOfMessages=10,
        AttributeNames=["All"],
        MessageAttributeNames=["All"],
    )
    assert {message["Body"] for message in found["Messages"]} == {"m\r", "m"}
    assert any(
        message.get("MessageAttributes", {}).get("a", {}).get("StringValue") == "\r<" for message in found["Messages"]
    )
    handles = [message["ReceiptHandle"] for message in found["Messages"]]
    await ask("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=handles[0], VisibilityTimeout=0)
    bad = {"Id": "2", "ReceiptHandle": "bad"}
    changes = [{"Id": "1", "ReceiptHandle": handles[0], "VisibilityTimeout": 0}, {**bad, "VisibilityTimeout": 0}]
    await ask("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=changes)
    gone = (await ask("ReceiveMessage", QueueUrl=ordered))["Messages"][0]["ReceiptHandle"]
    await ask("DeleteMessage", QueueUrl=ordered, ReceiptHandle=gone)
    more = [{"Id": "1", "ReceiptHandle": gone}, bad]
    await ask("DeleteMessageBatch", QueueUrl=ordered, Entries=more)
    assert (await ask("ReceiveMessage", QueueUrl=ordered)) == {}


@pytest.mark.parametrize("service", ["sns", "sqs"])
async def test_an_error_has_these_elements_and_no_others(door: tuple[Live, httpx.AsyncClient], service: str) -> None:
    _, http = door
    raw: Any = notifications.Raw(http) if service == "sns" else amazon.Raw(http)
    namespace = notifications.NAMESPACE if service == "sns" else amazon.NAMESPACE
    model = SNS if service == "sns" else SQS
    for action in model.operation_names:
        shape = model.operation_model(action).input_shape
        if shape is None or not shape.required_members:
            continue
        answer = await raw.query(action, {})
        assert 400 <= answer.status_code < 500, action
        root = ElementTree.fromstring(answer.content)
        assert local(root, namespace) == "ErrorResponse"
        assert [local(child, namespace) for child in root] == ["Error", "RequestId"], action
        names = ["Type", "Code", "Message"] + (["Detail"] if service == "sqs" else [])
        assert [local(child, namespace) for child in root[0]] == names, action
        assert root[0][0].text == "Sender"
        assert root[0][1].text, action
        assert root[0][2].text, action
        assert REQUEST_ID.fullmatch(root[1].text or "")
