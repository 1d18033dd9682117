"""What is published, and what each kind of subscriber gets of it, on both stores."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.clock import FakeClock
from penstock.engine.topics.notices import signed_text
from penstock.model import DEFAULT_TENANT
from tests.plain import PLAIN
from tests.wire.amazon import Sqs, refused
from tests.wire.conftest import Live
from tests.wire.notifications import Raw, Sns, connect, fresh

BINARY = {"DataType": "Binary", "BinaryValue": b"\x02\x03\x04"}
NUMBER = {"DataType": "Number", "StringValue": "99.12"}
TEXT = {"DataType": "String", "StringValue": "blue"}


class Both:
    """SNS and SQS of one server."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.sns = Sns(connect(live.url))
        self.sqs = Sqs(connect(live.url, service="sqs"))

    async def pair(self, *, fifo: bool = False, **attributes: str) -> tuple[str, str]:
        """A topic, and the URL of a queue that is subscribed to it."""
        given = {"ContentBasedDeduplication": "true"} if fifo else {}
        topic = await self.sns.topic(fifo=fifo, **given)
        url, _ = await self.queue(topic, fifo=fifo, **attributes)
        return topic, url

    async def queue(self, topic: str, *, fifo: bool = False, **attributes: str) -> tuple[str, str]:
        url = await self.sqs.queue(fifo=fifo)
        return url, await self.sns.subscribe(topic, await self.sqs.arn(url), **attributes)

    async def messages(self, url: str) -> list[dict[str, Any]]:
        return await self.sqs.receive(url, MessageAttributeNames=["All"], AttributeNames=["All"])

    async def envelopes(self, url: str) -> list[dict[str, Any]]:
        return [json.loads(message["Body"]) for message in await self.messages(url)]

    async def texts(self, url: str) -> list[str]:
        return [envelope["Message"] for envelope in await self.envelopes(url)]

    async def outbox(self, address: str) -> list[dict[str, Any]]:
        async with self.live.client() as client:
            items = (await client.get("/v1/outbox?limit=1000")).json()
        return [item for item in items if item["address"] == address]


@pytest.fixture
def both(live: Live) -> Both:
    return Both(live)


# Envelopes


async def test_a_subscribed_queue_receives_the_envelope(both: Both, clock: FakeClock) -> None:
    topic, url = await both.pair()

    sent = await both.sns.publish(
        topic, "öß €\r\n", Subject="Hi", MessageAttributes={"a": NUMBER, "b": BINARY, "c": TEXT}
    )

    (found,) = await both.envelopes(url)
    assert list(found) == [
        "Type", "MessageId", "TopicArn", "Subject", "Message", "Timestamp", "SignatureVersion", "Signature",
        "SigningCertURL", "UnsubscribeURL", "MessageAttributes",
    ]  # fmt: skip
    assert (found["MessageId"], found["TopicArn"]) == (sent["MessageId"], topic)
    assert (found["Subject"], found["Message"], found["SignatureVersion"]) == ("Hi", "öß €\r\n", "1")
    assert found["Timestamp"] == f"{clock.now():%Y-%m-%dT%H:%M:%S}.000Z"
    assert found["MessageAttributes"] == {
        "a": {"Type": "Number", "Value": "99.12"},
        "b": {"Type": "Binary", "Value": "AgME"},
        "c": {"Type": "String", "Value": "blue"},
    }


@pytest.mark.parametrize("version", ["1", "2"])
async def test_the_signature_is_good_for_the_certificate_it_names(both: Both, version: str) -> None:
    topic, url = await both.pair()
    await both.sns.call(
        "set_topic_attributes", TopicArn=topic, AttributeName="SignatureVersion", AttributeValue=version
    )
    await both.sns.publish(topic, "signed", Subject="s")

    (found,) = await both.envelopes(url)
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as nobody:
        answer = await nobody.get(found["SigningCertURL"])
        same = [await nobody.get(f"{both.live.url}{path}") for path in ("/SimpleNotificationService.pem", "/v1/cert")]
        missing = await nobody.get(f"{both.live.url}/SimpleNotificationService.txt")

    assert found["SignatureVersion"] == version
    key = x509.load_pem_x509_certificate(answer.content).public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    algorithm = hashes.SHA256() if version == "2" else hashes.SHA1()
    key.verify(b64decode(found["Signature"]), signed_text(found), padding.PKCS1v15(), algorithm)
    assert {each.text for each in same} == {answer.text}
    assert missing.status_code == 404


async def test_raw_delivery_hands_on_the_message_and_its_attributes(both: Both) -> None:
    topic, url = await both.pair(RawMessageDelivery="true")

    await both.sns.publish(topic, "plain", Subject="lost", MessageAttributes={"a": NUMBER, "b": BINARY})

    (found,) = await both.messages(url)
    assert found["Body"] == "plain"
    assert found["MessageAttributes"] == {"a": NUMBER, "b": BINARY}


async def test_the_trace_of_a_request_reaches_the_queue(both: Both) -> None:
    topic, url = await both.pair()
    trace = "Root=1-3152b799-8954dae64eda91bc9a23a7e8;Parent=7fa8c0f79203be72;Sampled=1"

    async with httpx.AsyncClient(base_url=both.live.url, trust_env=False, verify=PLAIN) as http:
        await Raw(http).query("Publish", {"TopicArn": topic, "Message": "x"}, **{"x-amzn-trace-id": trace})

    (found,) = await both.messages(url)
    assert found["Attributes"]["AWSTraceHeader"] == trace


async def test_a_publish_without_a_trace_shows_none(both: Both) -> None:
    topic, url = await both.pair()

    await both.sns.publish(topic, "x")

    (found,) = await both.messages(url)
    assert "AWSTraceHeader" not in found["Attributes"]


async def test_a_topic_may_be_named_as_target(both: Both) -> None:
    topic, url = await both.pair()

    await both.sns.call("publish", TargetArn=topic, Message="x")

    assert await both.texts(url) == ["x"]


async def test_each_protocol_may_have_a_text_of_its_own(both: Both) -> None:
    topic, url = await both.pair()
    number = "+15550123"
    await both.sns.subscribe(topic, number, "sms")

    await both.sns.publish(topic, json.dumps({"default": "d", "sqs": "for queues", "sms": 1}), MessageStructure="json")
    await both.sns.publish(topic, '{"default":"first","default":"second"}', MessageStructure="json")

    assert await both.texts(url) == ["for queues", "second"]
    assert [item["body"] for item in await both.outbox(number)][:2] == ["second", "d"]


# Filters


async def test_a_policy_on_attributes_chooses_messages(both: Both) -> None:
    topic, url = await both.pair(FilterPolicy=json.dumps({"price": [{"numeric": [">", 0, "<=", 100]}]}))

    await both.sns.publish(topic, "cheap", MessageAttributes={"price": NUMBER})
    await both.sns.publish(topic, "dear", MessageAttributes={"price": NUMBER | {"StringValue": "111"}})
    await both.sns.publish(topic, "free")

    assert await both.texts(url) == ["cheap"]


async def test_a_policy_on_bodies_chooses_messages(both: Both) -> None:
    policy = {"object": {"key": [{"prefix": "auto-"}], "old": [{"exists": False}]}}
    topic, url = await both.pair(FilterPolicy=json.dumps(policy), FilterPolicyScope="MessageBody")
    good, bad = '{"object":{"key":"auto-1"}}', '{"object":{"key":"auto-1","old":1}}'

    for body in (bad, good, "no json"):
        await both.sns.publish(topic, body)

    assert await both.texts(url) == [good]


async def test_a_changed_policy_counts_from_the_next_publish(both: Both) -> None:
    topic = await both.sns.topic()
    url, subscription = await both.queue(topic)

    await both.sns.publish(topic, "one")
    await both.sns.set(subscription, "FilterPolicy", '{"a":["b"]}')
    await both.sns.publish(topic, "two")
    await both.sns.set(subscription, "FilterPolicy", "")
    await both.sns.publish(topic, "three")

    assert await both.texts(url) == ["one", "three"]


# FIFO


async def test_a_fifo_topic_numbers_and_deduplicates(both: Both) -> None:
    topic, url = await both.pair(fifo=True)

    first = await both.sns.publish(topic, "a", MessageGroupId="g")
    again = await both.sns.publish(topic, "a", MessageGroupId="g")
    second = await both.sns.publish(topic, "b", MessageGroupId="g", MessageDeduplicationId="own")

    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    assert len(first["SequenceNumber"]) == 20
    assert first["SequenceNumber"] < second["SequenceNumber"]
    messages = await both.messages(url)
    envelopes = [json.loads(message["Body"]) for message in messages]
    assert [envelope["Message"] for envelope in envelopes] == ["a", "b"]
    assert [envelope["SequenceNumber"] for envelope in envelopes] == [first["SequenceNumber"], second["SequenceNumber"]]
    assert not {"Signature", "SignatureVersion", "SigningCertURL"} & set(envelopes[0])
    assert {message["Attributes"]["MessageGroupId"] for message in messages} == {"g"}
    assert messages[1]["Attributes"]["MessageDeduplicationId"] == "own"


async def test_a_repeated_batch_answers_with_the_same_ids(both: Both) -> None:
    topic, url = await both.pair(fifo=True)
    entries = [{"Id": str(number), "Message": f"m{number}", "MessageGroupId": "g"} for number in range(3)]

    first = await both.sns.call("publish_batch", TopicArn=topic, PublishBatchRequestEntries=entries)
    again = await both.sns.call("publish_batch", TopicArn=topic, PublishBatchRequestEntries=entries)

    assert first["Successful"] == again["Successful"]
    assert [each["Id"] for each in first["Successful"]] == ["0", "1", "2"]
    assert first["Failed"] == []
    assert await both.texts(url) == ["m0", "m1", "m2"]


async def test_a_standard_queue_may_listen_to_a_fifo_topic(both: Both) -> None:
    topic = await both.sns.topic(fifo=True, ContentBasedDeduplication="true")
    url, _ = await both.queue(topic)

    await both.sns.publish(topic, "x", MessageGroupId="g")

    (found,) = await both.messages(url)
    assert "MessageGroupId" not in found["Attributes"]


# Batches


async def test_a_bad_subject_fails_its_entry_alone(both: Both) -> None:
    topic, url = await both.pair()
    entries = [
        {"Id": "good", "Message": "one"},
        {"Id": "bad", "Message": "two", "Subject": "two\nlines"},
        {"Id": "last", "Message": "three", "MessageAttributes": {"a": TEXT}},
    ]

    answer = await both.sns.call("publish_batch", TopicArn=topic, PublishBatchRequestEntries=entries)

    assert [each["Id"] for each in answer["Successful"]] == ["good", "last"]
    assert answer["Failed"] == [
        {"Id": "bad", "Code": "InvalidParameter", "Message": "Invalid parameter: Subject", "SenderFault": True}
    ]
    assert await both.texts(url) == ["one", "three"]


# What does not arrive


async def test_what_a_deleted_queue_would_have_got_goes_to_the_dead_letters(both: Both) -> None:
    topic = await both.sns.topic()
    dead = await both.sqs.queue()
    redrive = json.dumps({"deadLetterTargetArn": await both.sqs.arn(dead)})
    url, _ = await both.queue(topic, RedrivePolicy=redrive)
    await both.sqs.call("delete_queue", QueueUrl=url)

    await both.sns.publish(topic, "nobody home")

    assert await both.texts(dead) == ["nobody home"]


async def test_an_endpoint_gets_nothing_before_it_has_confirmed(both: Both) -> None:
    topic = await both.sns.topic()
    name = topic.rpartition(":")[2]
    await both.sns.subscribe(topic, "http://hook.example.com", "http")

    await both.sns.publish(topic, "early")

    found = await both.live.engine.store.topics.list_deliveries(DEFAULT_TENANT, limit=1000)
    assert [each.confirms for each in found if each.topic == name] == [True]


# What does not leave the machine


async def test_text_messages_go_to_the_outbox(both: Both) -> None:
    number = "+15550199"

    sent = await both.sns.call("publish", PhoneNumber=number, Message="hi", MessageAttributes={"kind": TEXT})

    item = (await both.outbox(number))[0]
    assert (item["channel"], item["body"], item["message_id"]) == ("sms", "hi", sent["MessageId"])
    assert item["attributes"] == {"kind": {"type": "String", "value": "blue"}}


async def test_a_number_that_opted_out_gets_nothing_until_it_opts_in(both: Both) -> None:
    number = f"+1555{int(fresh()[2:8], 16):08}"
    async with both.live.client() as client:
        answer = await client.post("/v1/outbox/opt-outs", json={"phone_number": number})
    assert answer.status_code == 204

    assert (await both.sns.call("check_if_phone_number_is_opted_out", phoneNumber=number))["isOptedOut"] is True
    assert number in (await both.sns.call("list_phone_numbers_opted_out"))["phoneNumbers"]
    await both.sns.call("publish", PhoneNumber=number, Message="unwanted")
    assert await both.outbox(number) == []
    await both.sns.call("opt_in_phone_number", phoneNumber=number)
    assert (await both.sns.call("check_if_phone_number_is_opted_out", phoneNumber=number))["isOptedOut"] is False
    await both.sns.call("publish", PhoneNumber=number, Message="wanted")
    assert [item["body"] for item in await both.outbox(number)] == ["wanted"]


async def test_mail_of_a_topic_goes_to_the_outbox(both: Both) -> None:
    topic, address = await both.sns.topic(), f"{fresh()}@example.com"
    await both.sns.subscribe(topic, address, "email-json")
    link = (await both.outbox(address))[0]["body"].rpartition("\n")[2]
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as nobody:
        await nobody.get(link)

    await both.sns.publish(topic, "news", Subject="Today")

    item = (await both.outbox(address))[0]
    assert (item["channel"], item["subject"], item["body"]) == ("email-json", "Today", "news")
    assert item["topic"] == topic.rpartition(":")[2]


async def test_the_outbox_is_paged_and_emptied(both: Both) -> None:
    for number in range(3):
        await both.sns.call("publish", PhoneNumber="+15550177", Message=str(number))

    async with both.live.client() as client:
        first = (await client.get("/v1/outbox?limit=2&channel=sms")).json()
        rest = (await client.get(f"/v1/outbox?limit=1&before={first[-1]['id']}")).json()
        wrong = await client.get("/v1/outbox?channel=pigeon")
        emptied = (await client.delete("/v1/outbox")).json()
        nothing = (await client.get("/v1/outbox")).json()

    assert [item["body"] for item in (*first, *rest)] == ["2", "1", "0"]
    assert wrong.status_code == 400
    assert emptied["deleted"] >= 3
    assert nothing == []


# Mobile applications and phones


async def test_an_application_and_its_devices(both: Both) -> None:
    sns, name = both.sns, fresh()
    secrets = {"PlatformCredential": "never kept", "EventEndpointCreated": "arn:aws:sns:us-east-1:000000000000:t"}
    given = {"Name": name, "Platform": "GCM", "Attributes": secrets}
    application = (await sns.call("create_platform_application", **given))["PlatformApplicationArn"]
    assert application.endswith(f":app/GCM/{name}")
    assert (await sns.call("create_platform_application", **given))["PlatformApplicationArn"] == application
    with refused(
        "InvalidParameter",
        "Invalid parameter: Name Reason: An application with the same name but different properties already exists",
    ):
        await sns.call("create_platform_application", **given | {"Attributes": {"PlatformCredential": "other"}})
    found = await sns.call("get_platform_application_attributes", PlatformApplicationArn=application)
    assert found["Attributes"] == {"Enabled": "true", "EventEndpointCreated": secrets["EventEndpointCreated"]}

    device = {"PlatformApplicationArn": application, "Token": "token", "CustomUserData": "me"}
    endpoint = (await sns.call("create_platform_endpoint", **device))["EndpointArn"]
    assert (await sns.call("create_platform_endpoint", **device))["EndpointArn"] == endpoint
    with refused(
        "InvalidParameter",
        f"Invalid parameter: Token Reason: Endpoint {endpoint} already exists with the same Token, "
        "but different attributes.",
    ):
        await sns.call("create_platform_endpoint", **device | {"CustomUserData": "you"})
    await sns.call("set_endpoint_attributes", EndpointArn=endpoint, Attributes={"Token": "rotated"})
    assert (await sns.call("create_platform_endpoint", **device | {"Token": "rotated"}))["EndpointArn"] == endpoint
    listed = await sns.call("list_endpoints_by_platform_application", PlatformApplicationArn=application)
    assert [each["Attributes"]["Token"] for each in listed["Endpoints"]] == ["rotated"]

    bodies = json.dumps({"default": "d", "GCM": "for google"})
    await sns.call("publish", TargetArn=endpoint, Message=bodies, MessageStructure="json")
    assert [item["body"] for item in await both.outbox(endpoint)] == ["for google"]
    await sns.call("set_endpoint_attributes", EndpointArn=endpoint, Attributes={"Enabled": "false"})
    with refused("EndpointDisabled", "Endpoint is disabled"):
        await sns.call("publish", TargetArn=endpoint, Message="x")

    await sns.call(
        "set_platform_application_attributes", PlatformApplicationArn=application, Attributes={"Enabled": "false"}
    )
    await sns.call("set_endpoint_attributes", EndpointArn=endpoint, Attributes={"Enabled": "true"})
    with refused("PlatformApplicationDisabled", "Platform application is disabled"):
        await sns.call("publish", TargetArn=endpoint, Message="x")
    applications = (await sns.call("list_platform_applications"))["PlatformApplications"]
    assert application in {each["PlatformApplicationArn"] for each in applications}
    await sns.call("delete_platform_application", PlatformApplicationArn=application)
    with refused("NotFound", "Endpoint does not exist", 404):
        await sns.call("get_endpoint_attributes", EndpointArn=endpoint)
    await sns.call("delete_endpoint", EndpointArn=endpoint)


async def test_the_sandbox_verifies_numbers_with_a_code_from_the_outbox(live: Live) -> None:
    region, number = fresh(), "+15550142"
    sns = Sns(connect(live.url, region))
    tenant = await live.engine.tenants.in_region(DEFAULT_TENANT, region)
    await sns.call("create_sms_sandbox_phone_number", PhoneNumber=number, LanguageCode="en-US")
    (item,) = await live.engine.outbox.list(tenant)
    code = item.body.rpartition(" ")[2]

    async def status() -> list[str]:
        answer = await sns.call("list_sms_sandbox_phone_numbers")
        return [each["Status"] for each in answer["PhoneNumbers"]]

    assert (await sns.call("get_sms_sandbox_account_status"))["IsInSandbox"] is True
    assert await status() == ["Pending"]
    wrong = f"{(int(code) + 1) % 10**6:06}"
    with refused("VerificationException", "The one-time password is not valid"):
        await sns.call("verify_sms_sandbox_phone_number", PhoneNumber=number, OneTimePassword=wrong)
    await sns.call("verify_sms_sandbox_phone_number", PhoneNumber=number, OneTimePassword=code)
    assert await status() == ["Verified"]
    await sns.call("delete_sms_sandbox_phone_number", PhoneNumber=number)
    assert await status() == []
    assert (await sns.call("list_origination_numbers"))["PhoneNumbers"] == []
    for digit in range(10):
        await sns.call("create_sms_sandbox_phone_number", PhoneNumber=f"+1555010{digit}")
    with refused("UserError"):
        await sns.call("create_sms_sandbox_phone_number", PhoneNumber=number)


async def test_settings_of_text_messages_are_kept(live: Live) -> None:
    sns = Sns(connect(live.url, fresh()))

    await sns.call("set_sms_attributes", attributes={"DefaultSMSType": "Transactional", "DefaultSenderID": "me"})
    await sns.call("set_sms_attributes", attributes={"DefaultSenderID": "you"})

    found = (await sns.call("get_sms_attributes"))["attributes"]
    assert found == {"MonthlySpendLimit": "1", "DefaultSMSType": "Transactional", "DefaultSenderID": "you"}
    chosen = await sns.call("get_sms_attributes", attributes=["DefaultSMSType", "never"])
    assert chosen["attributes"] == {"DefaultSMSType": "Transactional"}
