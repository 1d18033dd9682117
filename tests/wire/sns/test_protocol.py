"""The two protocols of SNS to the byte, who is served at the shared address, and the service model as judge."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import botocore.session
import httpx
import pytest
from botocore.model import ListShape, MapShape, Shape, StructureShape

from penstock.auth import Mode
from penstock.engine import Engine
from penstock.engine.topics.topics import token_digest
from penstock.model import DEFAULT_TENANT, Scope
from penstock.model.topics import NewSubscription
from penstock.store.sqlite.store import SqliteStore
from penstock.wire.aws.shapes import ListPlan, MapPlan, Plan, Scalar, StructPlan, plan
from penstock.wire.sns import door as sns
from penstock.wire.sns.subscriptions import new_token
from tests.plain import PLAIN
from tests.wire.conftest import Live, running
from tests.wire.notifications import CREDENTIAL, Raw, queue_arn, topic_arn

REQUEST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MODEL = botocore.session.get_session().get_service_model("sns")


@pytest.fixture
async def raw(server: Live) -> AsyncIterator[Raw]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=PLAIN) as http:
        yield Raw(http)


def bytes_of(answer: httpx.Response) -> str:
    return REQUEST_ID.sub("ID", answer.text)


# The service model


def actions() -> dict[str, Any]:
    return dict(sns.service(Engine(SqliteStore(None))).actions)


def test_every_action_of_the_service_model_is_served() -> None:
    assert set(actions()) == set(MODEL.operation_names)


def _compare(shape: Shape, ours: Plan, place: str) -> None:
    if isinstance(shape, StructureShape):
        assert isinstance(ours, StructPlan), place
        have = {field.name: field.plan for field in ours.fields}
        assert set(have) == set(shape.members), place
        for name, member in shape.members.items():
            _compare(member, have[name], f"{place}.{name}")
    elif isinstance(shape, ListShape):
        assert isinstance(ours, ListPlan), place
        assert (ours.names.item, ours.names.flat) == ("member", False), place
        _compare(shape.member, ours.item, f"{place}[]")
    elif isinstance(shape, MapShape):
        assert isinstance(ours, MapPlan), place
        key = shape.key.serialization.get("name", "key")
        value = shape.value.serialization.get("name", "value")
        assert (ours.names.item, ours.names.key, ours.names.value) == ("entry", key, value), place
        _compare(shape.value, ours.value, f"{place}{{}}")
    else:
        assert isinstance(ours, Scalar), place
        assert ours.blob == (shape.type_name == "blob"), place


@pytest.mark.parametrize("name", sorted(MODEL.operation_names))
def test_the_input_of_an_action_has_the_members_of_the_model(name: str) -> None:
    shape = MODEL.operation_model(name).input_shape
    assert shape is not None

    _compare(shape, plan(actions()[name].given), name)


# Bytes


@pytest.mark.parametrize(
    ("action", "given", "json", "query"),
    [
        (
            "CreateTopic",
            {"Name": "golden"},
            '{"TopicArn":"arn:aws:sns:us-east-1:000000000000:golden"}',
            '<?xml version="1.0"?><CreateTopicResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">'
            "<CreateTopicResult><TopicArn>arn:aws:sns:us-east-1:000000000000:golden</TopicArn></CreateTopicResult>"
            "<ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata></CreateTopicResponse>",
        ),
        (
            "ListTopics",
            {},
            '{"Topics":[]}',
            '<?xml version="1.0"?><ListTopicsResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">'
            "<ListTopicsResult><Topics/></ListTopicsResult>"
            "<ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata></ListTopicsResponse>",
        ),
        (
            "DeleteTopic",
            {"TopicArn": topic_arn("none")},
            "",
            '<?xml version="1.0"?><DeleteTopicResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">'
            "<ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata></DeleteTopicResponse>",
        ),
        (
            "SetSMSAttributes",
            {"attributes": {"DefaultSMSType": "Promotional"}},
            "{}",
            '<?xml version="1.0"?><SetSMSAttributesResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">'
            "<SetSMSAttributesResult/><ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata>"
            "</SetSMSAttributesResponse>",
        ),
        (
            "GetSMSAttributes",
            {"attributes": ["MonthlySpendLimit"]},
            '{"attributes":{"MonthlySpendLimit":"1"}}',
            '<?xml version="1.0"?><GetSMSAttributesResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">'
            "<GetSMSAttributesResult><attributes><entry><key>MonthlySpendLimit</key><value>1</value></entry>"
            "</attributes></GetSMSAttributesResult>"
            "<ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata></GetSMSAttributesResponse>",
        ),
        (
            "GetTopicAttributes",
            {"TopicArn": topic_arn("none")},
            '{"__type":"com.amazonaws.sns#NotFoundException","message":"Topic does not exist"}',
            '<?xml version="1.0"?><ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><Error>'
            "<Type>Sender</Type><Code>NotFound</Code><Message>Topic does not exist</Message></Error>"
            "<RequestId>ID</RequestId></ErrorResponse>",
        ),
    ],
    ids=["created", "empty list", "nothing", "empty result", "map", "error"],
)
async def test_answers_are_these_bytes(raw: Raw, action: str, given: Any, json: str, query: str) -> None:
    as_json = await raw.json(action, given)
    as_query = await raw.query(action, given)

    assert (as_json.text, as_json.headers["content-type"]) == (json, "application/x-amz-json-1.0")
    assert (bytes_of(as_query), as_query.headers["content-type"]) == (query, "text/xml")


async def test_a_request_by_get_and_one_by_form_are_the_same(raw: Raw) -> None:
    parameters = {"Action": "CreateTopic", "Name": "by-get", "Attributes.entry.1.key": "DisplayName"}
    parameters["Attributes.entry.1.value"] = "shown"

    made = await raw.http.get("/", params=parameters, headers={"authorization": CREDENTIAL.format(region="us-east-1")})
    found = await raw.query("GetTopicAttributes", {"TopicArn": topic_arn("by-get")})

    assert made.status_code == 200
    assert "<key>DisplayName</key><value>shown</value>" in found.text


async def test_the_json_form_of_a_query_answer(raw: Raw) -> None:
    await raw.json("CreateTopic", {"Name": "named"})
    answer = await raw.http.get("/", params={"Action": "ListTopics"}, headers={"accept": "application/json"})

    assert answer.json()["ListTopicsResponse"]["ListTopicsResult"] == {"Topics": [{"TopicArn": topic_arn("named")}]}


@pytest.mark.parametrize("target", ["AmazonSimpleNotificationService", "AmazonSNS"])
async def test_both_targets_lead_here(raw: Raw, target: str) -> None:
    assert (await raw.json("ListTopics", {}, target)).json() == {"Topics": []}


async def test_an_unknown_target_is_an_unknown_operation(raw: Raw) -> None:
    answer = await raw.json("Nonsense", {})

    assert answer.status_code == 400
    assert answer.json()["__type"].endswith("#UnknownOperationException")


# One address for two services


PERMISSION = {
    "Action": "AddPermission",
    "TopicArn": topic_arn("shared"),
    "QueueUrl": "http://127.0.0.1/000000000000/shared",
    "Label": "label",
    "AWSAccountId.1": "111122223333",
    "ActionName.1": "SendMessage",
    "AWSAccountId.member.1": "111122223333",
    "ActionName.member.1": "Publish",
}
SQS_SCOPE = CREDENTIAL.format(region="us-east-1").replace("/sns/", "/sqs/")


@pytest.mark.parametrize(
    ("version", "scope", "service"),
    [
        ("2010-03-31", None, "sns"),
        ("2012-11-05", None, "sqs"),
        (None, CREDENTIAL.format(region="us-east-1"), "sns"),
        (None, SQS_SCOPE, "sqs"),
    ],
    ids=["version of sns", "version of sqs", "credential of sns", "credential of sqs"],
)
async def test_an_action_of_both_services_goes_to_the_one_that_is_meant(
    raw: Raw, server: Live, version: str | None, scope: str | None, service: str
) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "shared", {})
    await server.engine.topics.create(DEFAULT_TENANT, "shared")
    given = PERMISSION | ({"Version": version} if version else {})

    answer = await raw.http.post("/", data=given, headers={"authorization": scope or "anyone"})

    assert answer.status_code == 200, answer.text
    queue = await server.engine.queues.get(DEFAULT_TENANT, "shared")
    topic = await server.engine.topics.get(DEFAULT_TENANT, "shared")
    assert ("Policy" in queue.settings.labels, "Policy" in topic.attributes) == (service == "sqs", service == "sns")


async def test_the_address_of_a_queue_serves_no_topics(raw: Raw) -> None:
    answer = await raw.http.post("/000000000000/queue", data={"Action": "ListTopics"}, headers={"authorization": "x"})

    assert (answer.status_code, "<Code>InvalidAction</Code>" in answer.text) == (400, True)


# Nobody in particular


@pytest.mark.parametrize("mode", [Mode.TOKEN, Mode.SIGV4])
async def test_links_work_without_credentials_whatever_the_others_must_show(mode: Mode) -> None:
    async with running(mode) as live:
        token = new_token("us-east-1")
        engine = live.engine
        await engine.topics.create(DEFAULT_TENANT, "linked")
        new = NewSubscription(
            tenant=DEFAULT_TENANT, topic="linked", protocol="http", endpoint="http://example.com", confirmed=False
        )
        new.token_sha256 = token_digest(token)
        subscription, _ = await engine.topics.subscribe(new)
        arn = f"{topic_arn('linked')}:{subscription.key}"
        async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as nobody:
            asked = {"TopicArn": topic_arn("linked"), "Token": token}
            confirmed = await nobody.get("/", params={"Action": "ConfirmSubscription", **asked})
            left = await nobody.get("/", params={"Action": "Unsubscribe", "SubscriptionArn": arn})
            refused = await nobody.get("/", params={"Action": "ListTopics"})

        assert (confirmed.status_code, left.status_code, refused.status_code) == (200, 200, 403)
        assert await engine.topics.subscriptions(DEFAULT_TENANT) == []


async def test_a_token_for_some_names_does_not_reach_others_by_a_forged_arn() -> None:
    async with running(Mode.TOKEN) as live:
        engine = live.engine
        await engine.topics.create(DEFAULT_TENANT, "private")
        new = NewSubscription(
            tenant=DEFAULT_TENANT, topic="private", protocol="sqs", endpoint=queue_arn("q"), target="q"
        )
        subscription, _ = await engine.topics.subscribe(new)
        scopes = frozenset({Scope.MANAGE, Scope.READ})
        _, text = await engine.tenants.create_token(DEFAULT_TENANT, "some", scopes, queues="open-*")
        async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http:
            head = {"authorization": f"Bearer {text}"}
            for topic in ("private", "open-door"):
                given = {"SubscriptionArn": f"{topic_arn(topic)}:{subscription.key}"}
                await Raw(http).json("Unsubscribe", given, **head)
            listed = await Raw(http).json("ListSubscriptions", {}, **head)

        assert [each.key for each in await engine.topics.subscriptions(DEFAULT_TENANT)] == [subscription.key]
        assert listed.json() == {"Subscriptions": []}


async def test_a_tenant_confirms_and_sees_only_its_own() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        other = await tenants.create("other")
        _, mine = await tenants.create_token(DEFAULT_TENANT, "mine", frozenset({Scope.ADMIN}))
        _, theirs = await tenants.create_token(other.id, "theirs", frozenset({Scope.ADMIN}))
        async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http:
            raw, my, their = Raw(http), {"authorization": f"Bearer {mine}"}, {"authorization": f"Bearer {theirs}"}
            await raw.json("CreateTopic", {"Name": "private"}, **my)
            given = {"TopicArn": topic_arn("private"), "Protocol": "sqs", "Endpoint": queue_arn("q")}
            subscription = (await raw.json("Subscribe", given, **my)).json()["SubscriptionArn"]

            listed = await raw.json("ListTopics", {}, **their)
            found = await raw.json("GetSubscriptionAttributes", {"SubscriptionArn": subscription}, **their)
            await raw.json("Unsubscribe", {"SubscriptionArn": subscription}, **their)
            still = await raw.json("GetSubscriptionAttributes", {"SubscriptionArn": subscription}, **my)

    assert listed.json() == {"Topics": []}
    assert (found.status_code, still.status_code) == (404, 200)
