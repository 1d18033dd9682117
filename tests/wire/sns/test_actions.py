"""Topics and subscriptions as boto3 sees them, on both stores."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import httpx
import pytest

from penstock.model import DEFAULT_TENANT
from tests.plain import PLAIN
from tests.wire.amazon import refused
from tests.wire.conftest import Live, running
from tests.wire.notifications import Sns, connect, fresh, queue_arn

HOOK = "http://hook.example.com/path"


@pytest.fixture
def sns(live: Live) -> Sns:
    return Sns(connect(live.url))


async def confirmation(live: Live, topic: str) -> dict[str, str]:
    """What the endpoint of a topic's pending subscription is sent."""
    name = topic.rpartition(":")[2]
    found = await live.engine.store.topics.list_deliveries(DEFAULT_TENANT, limit=1000)
    # Lists leave the bodies out.
    asked = await live.engine.webhooks.get(DEFAULT_TENANT, next(each.id for each in found if each.topic == name))
    body: dict[str, str] = json.loads(asked.body)
    return body


async def get(live: Live, url: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as nobody:
        return await nobody.get(url)


# Topics


async def test_a_topic_is_there_from_its_making_to_its_deletion(sns: Sns) -> None:
    arn = await sns.topic()

    attributes = await sns.topic_attributes(arn)
    await sns.call("delete_topic", TopicArn=arn)

    assert attributes["TopicArn"] == arn
    with refused("NotFound", "Topic does not exist", 404):
        await sns.topic_attributes(arn)
    await sns.call("delete_topic", TopicArn=arn)


async def test_a_new_topic_has_the_attributes_of_amazon(sns: Sns) -> None:
    arn = await sns.topic()

    found = await sns.topic_attributes(arn)

    assert set(found) == {
        "TopicArn", "Owner", "DisplayName", "Policy", "EffectiveDeliveryPolicy", "SubscriptionsConfirmed",
        "SubscriptionsPending", "SubscriptionsDeleted",
    }  # fmt: skip
    assert (found["DisplayName"], found["Owner"]) == ("", "000000000000")
    (statement,) = json.loads(found["Policy"])["Statement"]
    assert len(statement["Action"]) == 8
    assert statement["Condition"] == {"StringEquals": {"AWS:SourceOwner": "000000000000"}}
    web = json.loads(found["EffectiveDeliveryPolicy"])["http"]
    assert web["defaultHealthyRetryPolicy"]["numRetries"] == 3
    assert web["defaultRequestPolicy"] == {"headerContentType": "text/plain; charset=UTF-8"}


async def test_attributes_given_at_birth_and_later_are_shown(sns: Sns) -> None:
    arn = await sns.topic(fifo=True, DisplayName="Orders", SignatureVersion="2", ContentBasedDeduplication="True")

    await sns.call("set_topic_attributes", TopicArn=arn, AttributeName="DisplayName", AttributeValue="Others")
    await sns.call("set_topic_attributes", TopicArn=arn, AttributeName="TracingConfig", AttributeValue="Active")

    found = await sns.topic_attributes(arn)
    assert {name: found[name] for name in ("DisplayName", "SignatureVersion", "TracingConfig")} == {
        "DisplayName": "Others", "SignatureVersion": "2", "TracingConfig": "Active",
    }  # fmt: skip
    assert (found["FifoTopic"], found["ContentBasedDeduplication"]) == ("true", "true")


async def test_making_a_topic_again_is_fine_while_it_agrees(sns: Sns) -> None:
    name = fresh()
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    first = await sns.call("create_topic", Name=name, Attributes={"DisplayName": "d"}, Tags=tags)

    again = [
        await sns.call("create_topic", Name=name),
        await sns.call("create_topic", Name=name, Attributes={"DisplayName": "d"}),
        await sns.call("create_topic", Name=name, Tags=tags[:1]),
    ]

    assert {answer["TopicArn"] for answer in again} == {first["TopicArn"]}
    with refused(
        "InvalidParameter", "Invalid parameter: Attributes Reason: Topic already exists with different attributes"
    ):
        await sns.call("create_topic", Name=name, Attributes={"DisplayName": "e"})
    with refused("InvalidParameter", "Invalid parameter: Tags Reason: Topic already exists with different tags"):
        await sns.call("create_topic", Name=name, Tags=[{"Key": "a", "Value": "3"}])


async def test_topics_are_listed_a_hundred_at_a_time(live: Live) -> None:
    """In a region of its own, since the tests of a database share one."""
    region = fresh()
    sns = Sns(connect(live.url, region))
    tenant = await live.engine.tenants.in_region(DEFAULT_TENANT, region)
    names = [f"topic-{number:03}" for number in range(205)]
    for name in names:
        await live.engine.topics.create(tenant, name)

    first = await sns.call("list_topics")
    second = await sns.call("list_topics", NextToken=first["NextToken"])
    third = await sns.call("list_topics", NextToken=second["NextToken"])

    pages = [[each["TopicArn"].rpartition(":")[2] for each in page["Topics"]] for page in (first, second, third)]
    assert [len(page) for page in pages] == [100, 100, 5]
    assert list(chain.from_iterable(pages)) == names
    assert "NextToken" not in third


async def test_regions_have_topics_of_their_own(live: Live) -> None:
    name, home, away = fresh(), Sns(connect(live.url)), Sns(connect(live.url, "eu-west-1"))
    here = await home.topic(name)

    there = await away.topic(name, DisplayName="away")

    assert there == here.replace("us-east-1", "eu-west-1")
    assert (await home.topic_attributes(here))["DisplayName"] == ""
    with refused("InvalidParameter", "Invalid parameter: TopicArn"):
        await away.topic_attributes(here)


async def test_tags_come_and_go(sns: Sns) -> None:
    arn = await sns.topic()

    async def tags() -> dict[str, str]:
        answer = await sns.call("list_tags_for_resource", ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for tag in answer["Tags"]}

    assert await tags() == {}
    await sns.call("tag_resource", ResourceArn=arn, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": ""}])
    await sns.call("tag_resource", ResourceArn=arn, Tags=[{"Key": "a", "Value": "2"}])
    assert await tags() == {"a": "2", "b": ""}
    await sns.call("untag_resource", ResourceArn=arn, TagKeys=["b", "never"])
    assert await tags() == {"a": "2"}


async def test_permissions_become_statements_of_the_policy(sns: Sns) -> None:
    arn = await sns.topic()
    account = "111122223333"

    await sns.call("add_permission", TopicArn=arn, Label="one", AWSAccountId=[account], ActionName=["Publish"])
    policy = json.loads((await sns.topic_attributes(arn))["Policy"])
    await sns.call("remove_permission", TopicArn=arn, Label="one")
    await sns.call("remove_permission", TopicArn=arn, Label="never")
    after = json.loads((await sns.topic_attributes(arn))["Policy"])

    assert policy["Statement"][1] == {
        "Sid": "one",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{account}:root"},
        "Action": "SNS:Publish",
        "Resource": arn,
    }
    assert [statement["Sid"] for statement in after["Statement"]] == ["__default_statement_ID"]


async def test_data_protection_policies_are_kept_apart_from_the_attributes(sns: Sns) -> None:
    statement = {"Sid": "s", "DataDirection": "Inbound", "Principal": ["*"], "DataIdentifier": ["x"]}
    policy = json.dumps({"Name": "n", "Version": "2021-06-01", "Statement": [statement | {"Operation": {"Deny": {}}}]})
    arn = await sns.topic()

    none = await sns.call("get_data_protection_policy", ResourceArn=arn)
    await sns.call("put_data_protection_policy", ResourceArn=arn, DataProtectionPolicy=policy)

    assert none["DataProtectionPolicy"] == ""
    assert (await sns.call("get_data_protection_policy", ResourceArn=arn))["DataProtectionPolicy"] == policy
    assert "DataProtectionPolicy" not in await sns.topic_attributes(arn)


# Subscriptions


async def test_a_queue_is_subscribed_at_once(sns: Sns) -> None:
    topic, queue = await sns.topic(), queue_arn(fresh())

    answer = await sns.call("subscribe", TopicArn=topic, Protocol="sqs", Endpoint=queue)

    arn = answer["SubscriptionArn"]
    assert arn.startswith(f"{topic}:")
    found = await sns.subscription_attributes(arn)
    assert found.pop("SubscriptionPrincipal").startswith("arn:aws:iam::000000000000:user/")
    assert found == {
        "SubscriptionArn": arn,
        "TopicArn": topic,
        "Owner": "000000000000",
        "Protocol": "sqs",
        "Endpoint": queue,
        "PendingConfirmation": "false",
        "ConfirmationWasAuthenticated": "true",
        "RawMessageDelivery": "false",
    }
    assert (await sns.topic_attributes(topic))["SubscriptionsConfirmed"] == "1"


async def test_subscribing_again_is_fine_while_it_asks_for_nothing_else(sns: Sns) -> None:
    topic, queue = await sns.topic(), queue_arn(fresh())
    first = await sns.subscribe(topic, queue, RawMessageDelivery="true")

    assert await sns.subscribe(topic, queue) == first
    assert await sns.subscribe(topic, queue, RawMessageDelivery="True") == first
    with refused(
        "InvalidParameter",
        "Invalid parameter: Attributes Reason: Subscription already exists with different attributes",
    ):
        await sns.subscribe(topic, queue, RawMessageDelivery="false")


async def test_attributes_of_a_subscription_are_set_shown_and_taken_away(sns: Sns) -> None:
    topic = await sns.topic()
    arn = await sns.subscribe(topic, queue_arn(fresh()), FilterPolicyScope="MessageBody")
    policy, redrive = '{"a":{"b":["c"]}}', json.dumps({"deadLetterTargetArn": queue_arn("dead")})

    assert "FilterPolicyScope" not in await sns.subscription_attributes(arn)
    await sns.set(arn, "FilterPolicy", policy)
    await sns.set(arn, "RedrivePolicy", redrive)
    await sns.set(arn, "RawMessageDelivery", "TRUE")
    found = await sns.subscription_attributes(arn)
    await sns.set(arn, "FilterPolicy", "")
    after = await sns.subscription_attributes(arn)

    assert (found["FilterPolicy"], found["FilterPolicyScope"]) == (policy, "MessageBody")
    assert (found["RedrivePolicy"], found["RawMessageDelivery"]) == (redrive, "true")
    assert "FilterPolicy" not in after
    with refused("InvalidParameter", "Invalid parameter: AttributeName"):
        await sns.set(arn, "Endpoint", "other")
    with refused("InvalidParameter", "Invalid parameter: RawMessageDelivery: Invalid value []. Must be true or false."):
        await sns.set(arn, "RawMessageDelivery", "")


async def test_the_delivery_policy_of_a_web_subscription_takes_effect(sns: Sns) -> None:
    topic = await sns.topic()
    policy = {"healthyRetryPolicy": {"numRetries": 5, "minDelayTarget": 1, "maxDelayTarget": 2}}

    arn = await sns.subscribe(topic, HOOK, "http", DeliveryPolicy=json.dumps(policy))

    effective = json.loads((await sns.subscription_attributes(arn))["EffectiveDeliveryPolicy"])
    assert effective["healthyRetryPolicy"]["numRetries"] == 5
    assert effective["healthyRetryPolicy"]["backoffFunction"] == "linear"
    assert effective["requestPolicy"] == {"headerContentType": "text/plain; charset=UTF-8"}


async def test_an_endpoint_is_asked_before_it_is_subscribed(live: Live, sns: Sns) -> None:
    topic = await sns.topic()

    pending = await sns.call("subscribe", TopicArn=topic, Protocol="http", Endpoint=HOOK)
    arn = await sns.subscribe(topic, HOOK, "http")
    listed = await sns.call("list_subscriptions_by_topic", TopicArn=topic)

    assert pending["SubscriptionArn"] == "pending confirmation"
    assert [each["SubscriptionArn"] for each in listed["Subscriptions"]] == ["PendingConfirmation"]
    found = await sns.subscription_attributes(arn)
    assert (found["PendingConfirmation"], found["ConfirmationWasAuthenticated"]) == ("true", "false")
    assert (await sns.topic_attributes(topic))["SubscriptionsPending"] == "1"
    asked = await confirmation(live, topic)
    assert asked["Type"] == "SubscriptionConfirmation"
    assert asked["Message"].startswith(f"You have chosen to subscribe to the topic {topic}.")

    confirmed = await sns.call("confirm_subscription", TopicArn=topic, Token=asked["Token"])
    again = await sns.call("confirm_subscription", TopicArn=topic, Token=asked["Token"])

    assert confirmed["SubscriptionArn"] == again["SubscriptionArn"] == arn
    found = await sns.subscription_attributes(arn)
    assert (found["PendingConfirmation"], found["ConfirmationWasAuthenticated"]) == ("false", "true")


async def test_following_the_link_confirms_and_the_other_link_ends_it(live: Live, sns: Sns) -> None:
    topic = await sns.topic()
    arn = await sns.subscribe(topic, HOOK, "http")
    asked = await confirmation(live, topic)

    answer = await get(live, asked["SubscribeURL"])

    assert answer.status_code == 200
    assert f"<SubscriptionArn>{arn}</SubscriptionArn>" in answer.text
    assert (await sns.subscription_attributes(arn))["ConfirmationWasAuthenticated"] == "false"
    link = f"{live.url}/?Action=Unsubscribe&SubscriptionArn={arn}"
    assert (await get(live, link)).status_code == 200
    assert (await get(live, link)).status_code == 200
    with refused("NotFound", "Subscription does not exist", 404):
        await sns.subscription_attributes(arn)


async def test_a_subscription_that_asks_for_it_is_ended_by_nobody(live: Live, sns: Sns) -> None:
    topic = await sns.topic()
    arn = await sns.subscribe(topic, HOOK, "http")
    token = (await confirmation(live, topic))["Token"]
    await sns.call("confirm_subscription", TopicArn=topic, Token=token, AuthenticateOnUnsubscribe="true")

    answer = await get(live, f"{live.url}/?Action=Unsubscribe&SubscriptionArn={arn}")

    assert answer.status_code == 403
    assert "<Code>AuthorizationError</Code>" in answer.text
    assert (await sns.subscription_attributes(arn))["PendingConfirmation"] == "false"


async def test_mail_to_confirm_is_found_in_the_outbox(live: Live, sns: Sns) -> None:
    topic, address = await sns.topic(), f"{fresh()}@example.com"
    arn = await sns.subscribe(topic, address, "email")

    async with live.client() as client:
        items = (await client.get("/v1/outbox?channel=email&limit=1000")).json()
    mail = next(item for item in items if item["address"] == address)
    link = mail["body"].rpartition("\n")[2]

    assert (await get(live, link)).status_code == 200
    assert (await sns.subscription_attributes(arn))["PendingConfirmation"] == "false"


async def test_a_setting_takes_endpoints_at_their_subscribers_word() -> None:
    async with running(auto_confirm=True) as live:
        sns = Sns(connect(live.url))
        topic = await sns.topic()

        answer = await sns.call("subscribe", TopicArn=topic, Protocol="https", Endpoint="https://hook.example.com")

        assert answer["SubscriptionArn"].startswith(f"{topic}:")
        assert await live.engine.store.topics.list_deliveries(DEFAULT_TENANT) == []


async def test_unsubscribing_counts(sns: Sns) -> None:
    topic = await sns.topic()
    arn = await sns.subscribe(topic, queue_arn(fresh()))

    await sns.call("unsubscribe", SubscriptionArn=arn)
    await sns.call("unsubscribe", SubscriptionArn=arn)

    found = await sns.topic_attributes(topic)
    assert (found["SubscriptionsConfirmed"], found["SubscriptionsDeleted"]) == ("0", "1")
    assert (await sns.call("list_subscriptions_by_topic", TopicArn=topic))["Subscriptions"] == []


async def test_subscriptions_are_listed_a_hundred_at_a_time(live: Live) -> None:
    region = fresh()
    sns = Sns(connect(live.url, region))
    topic, other = await sns.topic(), await sns.topic()
    for number in range(101):
        await sns.subscribe(topic, queue_arn(f"queue-{number:03}", region))
    await sns.subscribe(other, queue_arn("queue-000", region))

    async def pages(action: str, **given: Any) -> list[list[str]]:
        found, token = [], None
        for _ in range(3):
            answer = await sns.call(action, **given, **({"NextToken": token} if token else {}))
            found.append([each["Endpoint"].rpartition(":")[2] for each in answer["Subscriptions"]])
            token = answer.get("NextToken")
            if token is None:
                break
        return found

    assert [len(page) for page in await pages("list_subscriptions")] == [100, 2]
    of_topic = await pages("list_subscriptions_by_topic", TopicArn=topic)
    assert list(chain.from_iterable(of_topic)) == [f"queue-{number:03}" for number in range(101)]
