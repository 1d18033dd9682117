"""Receives and lists end early when their contents are large, and nothing is claimed that is not returned."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from penstock import limits
from penstock.model import DEFAULT_TENANT, Receive, Send, TenantId
from penstock.model.outbox import Channel, NewOutboxItem
from penstock.model.topics import NewSubscription, Publish
from tests.wire.conftest import Live, build_store, running
from tests.wire.raw import connected, request

BODY = "x" * 1000
FITTING = 3
"""Bodies in an answer: the third reaches the bound."""


@pytest.fixture(autouse=True)
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ANSWER_BYTES", 2500)


@pytest.fixture
async def client(open_server: Live) -> AsyncIterator[httpx.AsyncClient]:
    async with open_server.client() as client:
        yield client


async def filled(live: Live, client: httpx.AsyncClient, suffix: str = "", count: int = 8, **more: Any) -> str:
    name = f"large-{secrets.token_hex(4)}{suffix}"
    await live.engine.queues.create(DEFAULT_TENANT, name, {})
    entries = [
        {"message": f"{number}{BODY}", **more}
        | ({"group_id": f"g{number % 2}", "dedup_id": str(number)} if suffix else {})
        for number in range(count)
    ]
    sent = await client.post(f"/v1/queues/{name}/messages", json=entries)
    assert sent.status_code == 201, sent.text
    return name


async def receive(client: httpx.AsyncClient, name: str, **more: Any) -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/queues/{name}/messages", params={"max": 1000, **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


@pytest.mark.parametrize("shuffle", [False, True])
async def test_a_receive_claims_only_what_it_returns(
    open_server: Live, client: httpx.AsyncClient, shuffle: bool
) -> None:
    name = await filled(open_server, client)
    pages = [await receive(client, name, shuffle=str(shuffle).lower()) for _ in range(4)]
    assert [len(page) for page in pages] == [3, 3, 2, 0]
    assert all(message["read_count"] == 1 for page in pages for message in page)
    if not shuffle:
        assert [message["message"][0] for page in pages for message in page] == list("01234567")


async def test_a_receive_of_groups_claims_only_what_it_returns(open_server: Live, client: httpx.AsyncClient) -> None:
    name = await filled(open_server, client, ".fifo")
    first = await receive(client, name)
    assert [message["message"][0] for message in first] == ["0", "2", "4"]
    second = await receive(client, name)
    assert [message["message"][0] for message in second] == ["1", "3", "5"]
    for message in first + second:
        await client.delete(f"/v1/queues/{name}/messages/{message['receipt']}")
    third = await receive(client, name)
    assert sorted(message["message"][0] for message in third) == ["6", "7"]
    assert {message["read_count"] for message in third} == {1}


async def test_headers_and_attributes_count(open_server: Live, client: httpx.AsyncClient) -> None:
    attributes = {"a": {"type": "String", "value": "y" * 1000}}
    name = await filled(open_server, client, headers={"h": "z" * 1000}, attributes=attributes)
    assert len(await receive(client, name, peek="true")) == 1
    assert len(await receive(client, name)) == 1


async def test_one_message_is_returned_however_large(open_server: Live, client: httpx.AsyncClient) -> None:
    name = f"large-{secrets.token_hex(4)}"
    await open_server.engine.queues.create(DEFAULT_TENANT, name, {})
    for _ in range(2):
        await client.post(f"/v1/queues/{name}/messages", json={"message": BODY * 10})
    assert [len(await receive(client, name)) for _ in range(3)] == [1, 1, 0]


async def test_receivers_that_share_a_claim_all_get_something(open_server: Live, client: httpx.AsyncClient) -> None:
    name = await filled(open_server, client, count=20)
    found = await asyncio.gather(*(receive(client, name, max=2) for _ in range(10)))
    assert all(found)
    bodies = [message["message"] for page in found for message in page]
    assert len(bodies) == len(set(bodies))


async def test_an_sqs_receive_ends_early(open_server: Live, client: httpx.AsyncClient) -> None:
    name = await filled(open_server, client)
    asked = json.dumps({"QueueUrl": name, "MaxNumberOfMessages": 10}).encode()
    counts = []
    async with connected(open_server.port) as raw:
        for _ in range(4):
            answer = await raw.ask(request("POST", "/", asked, "X-Amz-Target: AmazonSQS.ReceiveMessage", auth="x"))
            counts.append(len(json.loads(answer.body).get("Messages", [])))
    assert counts == [3, 3, 2, 0]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_the_simple_protocol_ends_early(kind: str, request: pytest.FixtureRequest) -> None:
    name = f"simple-{secrets.token_hex(4)}"
    async with running(store=build_store(kind, request), simple=True) as live, live.client() as client:
        for _ in range(5):
            await client.post("/send", json={"queue_name": name, "message_body": BODY})
        asked = {"queue_name": name, "max_number_of_messages": 10, "wait_time_seconds": 0}
        counts = [len((await client.post("/receive", json=asked)).json()["messages"]) for _ in range(3)]
    assert counts == [3, 2, 0]


async def enqueued(client: httpx.AsyncClient, count: int) -> str:
    queue = f"large-{secrets.token_hex(4)}"
    jobs = [{"payload": BODY, "queue_name": queue, "max_retries": 9} for _ in range(count)]
    made = await client.post("/jobs/batch", json={"jobs": jobs})
    assert made.status_code == 201, made.text
    return queue


async def test_a_lease_of_jobs_claims_only_what_it_returns(open_server: Live, client: httpx.AsyncClient) -> None:
    queue = await enqueued(client, 8)
    asked = {"worker_id": "w", "max": 1000}
    pages = [(await client.post(f"/queues/{queue}/lease", json=asked)).json() for _ in range(4)]
    assert [len(page) for page in pages] == [3, 3, 2, 0]
    stats = next(each for each in (await client.get("/dashboard/queues")).json() if each["queue_name"] == queue)
    assert (stats["pending"], stats["processing"]) == (0, 8)


async def test_workers_that_share_a_claim_all_get_a_job(open_server: Live, client: httpx.AsyncClient) -> None:
    queue = await enqueued(client, 12)
    leased = await asyncio.gather(*(client.post(f"/queues/{queue}/lease", json={"worker_id": "w"}) for _ in range(12)))
    assert len({answer.json()["lease_token"] for answer in leased}) == 12


async def test_attempts_of_a_job_are_the_latest(open_server: Live, client: httpx.AsyncClient) -> None:
    queue = await enqueued(client, 1)
    for number in range(5):
        job = (await client.post(f"/queues/{queue}/lease", json={"worker_id": "w"})).json()
        failed = {"lease_token": job["lease_token"], "error": f"{number}{BODY}", "retry_after": 0}
        assert (await client.post(f"/jobs/{job['job']['id']}/nack", json=failed)).status_code == 200
    found = (await client.get(f"/jobs/{job['job']['id']}/attempts")).json()
    assert [attempt["attempt"] for attempt in found] == [4, 5]


async def test_a_page_of_the_outbox_ends_early(open_server: Live, client: httpx.AsyncClient) -> None:
    mark = secrets.token_hex(4)
    await open_server.engine.outbox.add(
        [
            NewOutboxItem(
                tenant=DEFAULT_TENANT, channel=Channel.SMS, address=f"+1{number}", message_id=mark, topic=None,
                subject=None, body=BODY, attributes=None,
            )
            for number in range(5)
        ]
    )  # fmt: skip
    pages = [(await client.get("/v1/outbox", params={"limit": 1000})).json()]
    pages.append((await client.get("/v1/outbox", params={"limit": 1000, "before": pages[0][-1]["id"]})).json())
    assert [len([item for item in page if item["message_id"] == mark]) for page in pages] == [3, 2]


async def test_a_page_of_deliveries_reads_no_bodies(open_server: Live, client: httpx.AsyncClient) -> None:
    topics, key = open_server.engine.topics, f"large.{secrets.token_hex(4)}"
    await topics.subscribe(
        NewSubscription(tenant=DEFAULT_TENANT, pattern=key, protocol="http", endpoint="http://127.0.0.1:9/")
    )
    for _ in range(5):
        await topics.publish(Publish(tenant=DEFAULT_TENANT, routing_key=key, body=BODY))
    found = await open_server.engine.webhooks.list(DEFAULT_TENANT, limit=1000)
    mine = [delivery for delivery in found if delivery.routing_key == key]
    assert len(mine) == 5
    assert {(delivery.body, delivery.headers) for delivery in mine} == {("", "")}
    shown = await client.get(f"/v1/deliveries/{mine[0].id}")
    assert BODY in shown.json()["body"]


async def test_a_list_of_schedules_reads_no_bodies(open_server: Live, client: httpx.AsyncClient) -> None:
    prefix = f"large-{secrets.token_hex(4)}"
    target = await filled(open_server, client, count=1)
    for number in range(4):
        made = await client.post(
            "/v1/schedules",
            json={"name": f"{prefix}-{number}", "when": "every day at 9", "target": target, "message": BODY},
        )
        assert made.status_code == 201, made.text
    found = await open_server.engine.schedules.list(DEFAULT_TENANT, prefix=prefix)
    assert [schedule.settings.body for schedule in found] == [""] * 4
    shown = await client.get(f"/v1/schedules/{prefix}-0")
    assert shown.json()["message"] == BODY


# Only PostgreSQL has these


@pytest.fixture
async def streams(request: pytest.FixtureRequest) -> AsyncIterator[tuple[httpx.AsyncClient, str, Live]]:
    name = f"large-{secrets.token_hex(4)}"
    async with running(store=build_store("postgres", request)) as live, live.client() as client:
        assert (await client.post("/v1/streams", json={"name": name, "max_retries": 0})).status_code == 201
        assert (await client.post(f"/v1/streams/{name}/consumers", json={"name": "c"})).status_code == 201
        yield client, f"/v1/streams/{name}", live


async def send_events(client: httpx.AsyncClient, stream: str, count: int) -> list[int]:
    events = [{"type": "t", "payload": f"{number}{BODY}"} for number in range(count)]
    sent = await client.post(f"{stream}/events", json=events)
    assert sent.status_code == 201, sent.text
    ids: list[int] = sent.json()["ids"]
    return ids


async def test_a_portion_of_a_batch_ends_early_and_no_event_is_lost(
    streams: tuple[httpx.AsyncClient, str, Live],
) -> None:
    client, stream, _ = streams
    ids = await send_events(client, stream, 8)
    seen: list[list[int]] = []
    while True:
        batch = (await client.get(f"{stream}/consumers/c/batch", params={"max": 1000, "wait": 1})).json()
        if not batch["events"]:
            break
        again = (await client.get(f"{stream}/consumers/c/batch", params={"max": 1000})).json()
        assert again == batch
        seen.append([event["id"] for event in batch["events"]])
        done = await client.post(f"{stream}/consumers/c/batches/{batch['batch_id']}/ack")
        assert done.status_code == 204
        if sum(map(len, seen)) >= len(ids):
            break
    assert [len(page) for page in seen] == [3, 3, 2]
    assert [event for page in seen for event in page] == ids


async def test_a_page_of_dead_letters_ends_early(streams: tuple[httpx.AsyncClient, str, Live]) -> None:
    client, stream, _ = streams
    await send_events(client, stream, 3)
    batch = (await client.get(f"{stream}/consumers/c/batch", params={"max": 1000, "wait": 1})).json()
    while batch["events"]:
        for event in batch["events"]:
            path = f"{stream}/consumers/c/batches/{batch['batch_id']}/nack"
            assert (await client.post(path, json={"id": event["id"], "reason": "r"})).status_code == 204
        await client.post(f"{stream}/consumers/c/batches/{batch['batch_id']}/ack")
        await send_events(client, stream, 3)
        found = (await client.get(f"{stream}/dead-letters", params={"limit": 1000})).json()
        if len(found) >= FITTING:
            break
        batch = (await client.get(f"{stream}/consumers/c/batch", params={"max": 1000, "wait": 1})).json()
    assert len(found) == FITTING


async def test_a_private_receive_ends_early(streams: tuple[httpx.AsyncClient, str, Live]) -> None:
    _, _, live = streams
    tenant = await live.engine.private_messages.tenant()
    name = f"private-{secrets.randbelow(10**9) + 10**9}"
    await live.engine.queues.create(tenant, name, {})
    await send_to(live, tenant, name, 5)
    found = await live.engine.messages.receive(Receive(tenant=tenant, queue=name, limit=1000))
    assert len(found) == FITTING


async def send_to(live: Live, tenant: TenantId, name: str, count: int) -> None:
    body = base64.b64encode(b"x" * 750).decode()
    for _ in range(count):
        await live.engine.messages.send(Send(tenant=tenant, queue=name, body=body))
