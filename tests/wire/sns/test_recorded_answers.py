"""Answers recorded from SNS that are easy to get wrong: notices about subscriptions, policies, queues elsewhere."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from penstock.engine.topics.webhooks import WebhookSettings
from penstock.loops.deliverer import Deliverer
from penstock.model import DEFAULT_TENANT
from penstock.model.topics import Delivery
from tests.endpoint import listening
from tests.wire.amazon import Sqs, refused
from tests.wire.conftest import Live, running
from tests.wire.notifications import Sns, connect, fresh

WEB = "https://hooks.example.com/in"


@pytest.fixture
def sns(live: Live) -> Sns:
    return Sns(connect(live.url))


async def deliveries(live: Live, endpoint: str) -> list[Delivery]:
    """Oldest first, with their bodies, which lists leave out."""
    found = await live.engine.webhooks.list(DEFAULT_TENANT, limit=1000)
    ids = [each.id for each in reversed(found) if each.endpoint == endpoint]
    return [await live.engine.webhooks.get(DEFAULT_TENANT, number) for number in ids]


async def subscribe_endpoint(live: Live, sns: Sns, topic: str, **attributes: str) -> tuple[str, str]:
    """The URL of a confirmed endpoint, and the ARN of its subscription."""
    url = f"{WEB}/{fresh()}"
    arn = await sns.subscribe(topic, url, "https", **attributes)
    [asked] = await deliveries(live, url)
    await sns.call("confirm_subscription", TopicArn=topic, Token=json.loads(asked.body)["Token"])
    return url, arn


async def test_an_unsubscribed_endpoint_is_told(live: Live, sns: Sns) -> None:
    topic = await sns.topic()
    url, arn = await subscribe_endpoint(live, sns, topic)

    await sns.call("unsubscribe", SubscriptionArn=arn)

    told = (await deliveries(live, url))[-1]
    notice, headers = json.loads(told.body), json.loads(told.headers)
    assert list(notice) == [
        "Type", "MessageId", "Token", "TopicArn", "Message", "SubscribeURL", "Timestamp", "SignatureVersion",
        "Signature", "SigningCertURL",
    ]  # fmt: skip
    assert notice["Type"] == headers["x-amz-sns-message-type"] == "UnsubscribeConfirmation"
    assert notice["Message"] == (
        f"You have chosen to deactivate subscription {arn}.\n"
        "To cancel this operation and restore the subscription, visit the SubscribeURL included in this message."
    )
    assert notice["Token"] in notice["SubscribeURL"]
    assert headers["x-amz-sns-subscription-arn"] == arn


async def test_the_link_to_unsubscribe_tells_the_endpoint_too(live: Live, sns: Sns) -> None:
    topic = await sns.topic()
    url, _ = await subscribe_endpoint(live, sns, topic)
    await sns.publish(topic, "hello")
    link = json.loads((await deliveries(live, url))[-1].body)["UnsubscribeURL"]

    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(link)

    assert answer.status_code == 200
    types = [json.loads(each.body)["Type"] for each in await deliveries(live, url)]
    assert types == ["SubscriptionConfirmation", "Notification", "UnsubscribeConfirmation"]


async def test_an_endpoint_that_never_confirmed_is_not_told(live: Live, sns: Sns) -> None:
    url = f"{WEB}/{fresh()}"
    arn = await sns.subscribe(await sns.topic(), url, "https")

    await sns.call("unsubscribe", SubscriptionArn=arn)

    assert [json.loads(each.body)["Type"] for each in await deliveries(live, url)] == ["SubscriptionConfirmation"]


async def test_all_notices_of_a_topic_have_its_signature_version(live: Live, sns: Sns) -> None:
    topic = await sns.topic(SignatureVersion="2")
    url, arn = await subscribe_endpoint(live, sns, topic)
    await sns.publish(topic, "hello")
    await sns.call("unsubscribe", SubscriptionArn=arn)

    versions = [json.loads(each.body)["SignatureVersion"] for each in await deliveries(live, url)]

    assert versions == ["2", "2", "2"]


async def test_requests_to_endpoints_accept_compressed_answers(live: Live, sns: Sns) -> None:
    url, _ = await subscribe_endpoint(live, sns, await sns.topic())

    [asked] = await deliveries(live, url)

    assert json.loads(asked.headers)["accept-encoding"] == "gzip,deflate"


async def test_requests_to_endpoints_have_no_headers_but_those_of_amazon() -> None:
    with listening() as endpoint:
        async with running() as live:
            live.engine.webhooks._settings = WebhookSettings(allow_private=True)
            sns = Sns(connect(live.url))
            await sns.subscribe(await sns.topic(), endpoint.url, "http")
            deliverer = Deliverer(live.engine, enabled=False)
            await deliverer.once()
            await deliverer.close()

    [arrival] = endpoint.arrivals
    assert sorted(arrival.headers) == [
        "accept-encoding", "connection", "content-length", "content-type", "host", "user-agent",
        "x-amz-sns-message-id", "x-amz-sns-message-type", "x-amz-sns-topic-arn",
    ]  # fmt: skip


@pytest.mark.parametrize("raw", ["false", "true"])
async def test_the_content_type_of_a_topic_applies_unless_the_subscription_sets_one(
    live: Live, sns: Sns, raw: str
) -> None:
    policy = json.dumps({"http": {"defaultRequestPolicy": {"headerContentType": "application/json"}}})
    topic = await sns.topic(DeliveryPolicy=policy)
    plain, _ = await subscribe_endpoint(live, sns, topic, RawMessageDelivery=raw)
    own = json.dumps({"requestPolicy": {"headerContentType": "text/csv"}})
    set_by_itself, _ = await subscribe_endpoint(live, sns, topic, RawMessageDelivery=raw, DeliveryPolicy=own)

    await sns.publish(topic, "{}")

    types = [json.loads((await deliveries(live, url))[-1].headers)["content-type"] for url in (plain, set_by_itself)]
    assert types == ["application/json", "text/csv"]


async def test_the_retries_of_a_topic_apply_to_its_subscriptions(live: Live, sns: Sns) -> None:
    retries = {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 2}
    topic = await sns.topic(DeliveryPolicy=json.dumps({"http": {"defaultHealthyRetryPolicy": retries}}))
    url, _ = await subscribe_endpoint(live, sns, topic)

    await sns.publish(topic, "x")

    assert (await deliveries(live, url))[-1].delays == (1.0, 1.0)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            {"http": {"defaultRequestPolicy": {"headerContentType": "application/json"}}},
            {
                "http": {
                    "defaultRequestPolicy": {"headerContentType": "application/json"},
                    "disableSubscriptionOverrides": False,
                }
            },
        ),
        ({"http": {"defaultRequestPolicy": None}}, {"http": {"disableSubscriptionOverrides": False}}),
        ({"http": {"disableSubscriptionOverrides": True}}, {"http": {"disableSubscriptionOverrides": True}}),
    ],
)
async def test_a_delivery_policy_is_shown_whole(sns: Sns, given: Any, shown: Any) -> None:
    topic = await sns.topic()

    await sns.call(
        "set_topic_attributes", TopicArn=topic, AttributeName="DeliveryPolicy", AttributeValue=json.dumps(given)
    )

    assert json.loads((await sns.topic_attributes(topic))["DeliveryPolicy"]) == shown


async def test_the_delivery_policy_of_a_subscription_is_shown_whole(sns: Sns) -> None:
    request = {"headerContentType": "text/csv"}
    topic = await sns.topic()

    arn = await sns.subscribe(topic, WEB, "https", DeliveryPolicy=json.dumps({"requestPolicy": request}))

    whole = {"healthyRetryPolicy": None, "sicklyRetryPolicy": None, "throttlePolicy": None, "requestPolicy": request}
    shown = json.loads((await sns.subscription_attributes(arn))["DeliveryPolicy"])
    assert shown == whole | {"guaranteed": False}


async def test_a_queue_in_another_region_receives(live: Live, sns: Sns) -> None:
    away = Sqs(connect(live.url, "eu-west-1", "sqs"))
    home = Sqs(connect(live.url, service="sqs"))
    name = fresh()
    url = await away.queue(name)
    await home.queue(name)
    topic = await sns.topic()
    await sns.subscribe(topic, await away.arn(url), RawMessageDelivery="true")

    await sns.publish(topic, "far")

    assert await away.bodies(url) == ["far"]
    assert await home.bodies(url) == []


async def test_a_queue_can_be_subscribed_by_its_url(live: Live, sns: Sns) -> None:
    sqs = Sqs(connect(live.url, service="sqs"))
    url = await sqs.queue()
    topic = await sns.topic()

    arn = await sns.subscribe(topic, url)
    await sns.publish(topic, "hello")

    assert (await sns.subscription_attributes(arn))["Endpoint"] == await sqs.arn(url)
    assert len(await sqs.bodies(url)) == 1


async def test_a_text_message_may_go_to_a_number_with_separators(sns: Sns) -> None:
    topic = await sns.topic()

    await sns.subscribe(topic, "+12/34-567.890", "sms")

    with refused("InvalidParameter"):
        await sns.subscribe(topic, "+12//34567890", "sms")


async def test_under_auto_confirm_any_token_confirms(sns: Sns) -> None:
    async with running(auto_confirm=True) as live:
        client = Sns(connect(live.url))
        topic = await client.topic()
        arn = await client.subscribe(topic, WEB, "https")

        answer = await client.call("confirm_subscription", TopicArn=topic, Token="anything")

    assert answer["SubscriptionArn"] == arn


async def test_a_deeply_nested_redrive_policy_is_refused(sns: Sns) -> None:
    topic = await sns.topic()
    arn = await sns.subscribe(topic, "+15551234567", "sms")

    with refused("InvalidParameter", "Invalid parameter: RedrivePolicy: failed to parse JSON."):
        await sns.set(arn, "RedrivePolicy", "[" * 100_000)


async def test_nul_in_the_attributes_of_a_device_is_refused(sns: Sns) -> None:
    credentials = {"PlatformCredential": "k", "PlatformPrincipal": "p"}
    made = await sns.call("create_platform_application", Name=fresh(), Platform="GCM", Attributes=credentials)
    application = made["PlatformApplicationArn"]

    with refused("InvalidParameter"):
        await sns.call("create_platform_endpoint", PlatformApplicationArn=application, Token="a\0b")
    with refused("InvalidParameter"):
        await sns.call(
            "create_platform_endpoint", PlatformApplicationArn=application, Token="ab", CustomUserData="a\0b"
        )
    with refused("InvalidParameter"):
        await sns.call(
            "create_platform_endpoint", PlatformApplicationArn=application, Token="ab", Attributes={"a\0b": "c"}
        )
