"""What a token that reaches only some queues and topics may name and see."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.model.outbox import Channel, NewOutboxItem
from penstock.model.topics import NewSubscription, Publish
from tests.wire.amazon import Raw as SqsRaw
from tests.wire.conftest import Live, running
from tests.wire.notifications import Raw, queue_arn, topic_arn


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Mode.TOKEN) as live:
        for name in ("team-a-in", "team-a-dead", "team-b-dead"):
            await live.engine.queues.create(DEFAULT_TENANT, name, {})
        await live.engine.topics.create(DEFAULT_TENANT, "team-a-news")
        yield live


@pytest.fixture
async def http(live: Live) -> AsyncIterator[httpx.AsyncClient]:
    _, text = await live.engine.tenants.create_token(DEFAULT_TENANT, "a", frozenset(Scope), queues="team-a-*")
    head = {"authorization": f"Bearer {text}"}
    async with httpx.AsyncClient(base_url=live.url, headers=head, trust_env=False) as http:
        yield http


def redrive(queue: str) -> str:
    return json.dumps({"deadLetterTargetArn": queue_arn(queue), "maxReceiveCount": 3})


@pytest.mark.parametrize(("dead", "status"), [("team-a-dead", 200), ("team-b-dead", 403)])
async def test_a_queue_names_a_dead_letter_queue_within_reach(http: httpx.AsyncClient, dead: str, status: int) -> None:
    given = {"QueueUrl": "team-a-in", "Attributes": {"RedrivePolicy": redrive(dead)}}

    answer = await SqsRaw(http).json("SetQueueAttributes", given, authorization=http.headers["authorization"])

    assert answer.status_code == status


@pytest.mark.parametrize(("dead", "status"), [("team-a-dead", 200), ("team-b-dead", 403)])
async def test_a_subscription_names_a_dead_letter_queue_within_reach(
    http: httpx.AsyncClient, dead: str, status: int
) -> None:
    given: dict[str, Any] = {
        "TopicArn": topic_arn("team-a-news"), "Protocol": "sqs", "Endpoint": queue_arn("team-a-in"),
        "Attributes": {"RedrivePolicy": redrive(dead)},
    }  # fmt: skip

    answer = await Raw(http).json("Subscribe", given, authorization=http.headers["authorization"])

    assert answer.status_code == status


async def test_events_have_routing_keys_within_reach(http: httpx.AsyncClient) -> None:
    statuses = []
    for key in ("team-a-x.made", "team-b-x.made"):
        statuses.append((await http.post(f"/v1/events/{key}", json={"message": 1})).status_code)
    for pattern in ("team-a-x.%23", "%23", "*.made", "team-b-x"):
        answer = await http.post(f"/v1/events/{pattern}/subscriptions", json={"queue_name": "team-a-in"})
        statuses.append(answer.status_code)

    assert statuses == [201, 403, 201, 403, 403, 403]


async def test_deliveries_of_others_are_not_seen(live: Live, http: httpx.AsyncClient) -> None:
    for key in ("team-a-x", "team-b-x"):
        url = "https://hooks.example.com/"
        await live.engine.topics.subscribe(
            NewSubscription(tenant=DEFAULT_TENANT, pattern=key, protocol="https", endpoint=url)
        )
        await live.engine.topics.publish(Publish(tenant=DEFAULT_TENANT, routing_key=key, body="x"))
    other, own = await live.engine.webhooks.list(DEFAULT_TENANT)

    listed = (await http.get("/v1/deliveries")).json()
    statuses = [(await http.get(f"/v1/deliveries/{each.id}")).status_code for each in (own, other)]

    assert [each["routing_key"] for each in listed] == ["team-a-x"]
    assert statuses == [200, 404]
    assert (await http.delete(f"/v1/deliveries/{other.id}")).status_code == 404


async def test_mail_of_others_is_not_seen_and_not_removed(live: Live, http: httpx.AsyncClient) -> None:
    await live.engine.outbox.add(
        [
            NewOutboxItem(
                tenant=DEFAULT_TENANT,
                channel=Channel.SMS,
                address="+1555",
                message_id="m",
                body=str(topic),
                topic=topic,
            )
            for topic in ("team-a-news", "team-b-news", None)
        ]
    )

    listed = (await http.get("/v1/outbox")).json()

    assert [each["body"] for each in listed] == ["team-a-news"]
    assert (await http.delete("/v1/outbox")).status_code == 403
