"""FIFO queues over REST, by names without the suffix `.fifo`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.store.postgres.store import PostgresStore
from tests.wire.conftest import Live, running

STEPS = "/v1/queues/steps/messages"


@pytest.fixture(params=["sqlite", "postgres"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    store = PostgresStore(request.getfixturevalue("migrated_database")) if request.param == "postgres" else None
    async with running(store=store) as live:
        yield live


@pytest.fixture
async def steps(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.post("/v1/queues", json={"name": "steps", "fifo": True})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def send(client: httpx.AsyncClient, message: str, group: str = "a") -> dict[str, Any]:
    answer = await client.post(STEPS, json={"message": message, "group_id": group})
    assert answer.status_code == 201, answer.text
    sent: dict[str, Any] = answer.json()
    return sent


async def bodies(client: httpx.AsyncClient, path: str = STEPS, **query: Any) -> list[str]:
    answer = await client.get(path, params={"max": 10, "fifo": "true", **query})
    assert answer.status_code == 200, answer.text
    return [message["message"] for message in answer.json()]


async def test_a_queue_asked_for_as_fifo_is_one(client: httpx.AsyncClient, steps: dict[str, Any]) -> None:
    again = await client.post("/v1/queues", json={"name": "steps", "fifo": True})

    assert (steps["name"], steps["fifo"], steps["settings"]["content_dedup"]) == ("steps.fifo", True, True)
    assert (again.status_code, again.json()) == (200, steps)
    assert [queue["name"] for queue in (await client.get("/v1/queues")).json()] == ["steps.fifo"]


async def test_a_send_needs_a_group_and_nothing_more(client: httpx.AsyncClient, steps: dict[str, Any]) -> None:
    for message in ("first", "second"):
        await send(client, message)
    await send(client, "other", "b")
    assert (await send(client, "first"))["duplicate"] is True
    assert (await client.post(STEPS, json={"message": "no group"})).json()["field"] == "group_id"

    assert await bodies(client, max=1) == ["first"]
    assert await bodies(client) == ["other"]


async def test_sqs_knows_it_by_its_full_name(client: httpx.AsyncClient, steps: dict[str, Any]) -> None:
    async def call(action: str, **given: Any) -> Any:
        headers = {"x-amz-target": f"AmazonSQS.{action}", "content-type": "application/x-amz-json-1.0"}
        answer = await client.post("/", headers=headers, json=given)
        assert answer.status_code == 200, answer.text
        return answer.json()

    url = (await call("GetQueueUrl", QueueName="steps.fifo"))["QueueUrl"]
    found = await call("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
    assert (found["Attributes"]["FifoQueue"], found["Attributes"]["ContentBasedDeduplication"]) == ("true", "true")
    await call("SendMessage", QueueUrl=url, MessageBody="from SQS", MessageGroupId="a")
    assert await bodies(client) == ["from SQS"]


async def test_every_route_of_the_queue_takes_the_short_name(client: httpx.AsyncClient, steps: dict[str, Any]) -> None:
    batch = await client.post(STEPS, json=[{"message": "a", "group_id": "g"}, {"message": "b", "group_id": "g"}])
    assert batch.status_code == 201
    looked = (await client.get("/v1/queues/steps")).json()
    assert (looked["queue_name"], looked["queue_length"], looked["fifo"]) == ("steps.fifo", 2, True)
    assert await bodies(client, peek="true") == ["a", "b"]
    [first, second] = (await client.get(STEPS, params={"max": 10})).json()

    hidden = await client.patch(f"{STEPS}/{first['id']}", json={"vt": 60})
    gone = await client.delete(f"{STEPS}/{first['id']}")
    batch = await client.request("DELETE", STEPS, json={"ids": [second["id"]]})
    assert (hidden.status_code, gone.status_code, batch.json()) == (200, 204, {"deleted": [second["id"]]})

    changed = await client.patch("/v1/queues/steps", json={"max_length": 5})
    assert changed.json()["settings"]["max_length"] == 5
    assert (await client.post("/v1/queues/steps/purge")).json() == {"deleted": 0}
    assert (await client.delete("/v1/queues/steps")).status_code == 204
    assert (await client.get("/v1/queues/steps")).status_code == 404


async def test_other_things_name_it_by_its_short_name(client: httpx.AsyncClient, steps: dict[str, Any]) -> None:
    subscribed = await client.post("/v1/events/order.*/subscriptions", json={"queue_name": "steps"})
    assert (subscribed.status_code, subscribed.json()["queue_name"]) == (201, "steps.fifo")
    listed = (await client.get("/v1/queues/steps/subscriptions")).json()
    assert [each["id"] for each in listed] == [subscribed.json()["id"]]
    assert (await client.post("/v1/events/order.new", json={"message": "event"})).json()["queues_matched"] == 1
    assert await bodies(client) == ["event"]

    made = await client.post(
        "/v1/queues", json={"name": "work", "fifo": True, "dead_letter_queue": "steps", "max_receives": 3}
    )
    assert made.json()["settings"]["dead_letter_queue"] == "steps.fifo"
    timed = {"name": "daily", "cron": "0 9 * * *", "target": "steps", "message": "go"}
    assert (await client.post("/v1/schedules", json=timed)).json()["target"] == "steps.fifo"
    moved = await client.patch("/v1/schedules/daily", json={"target": "work"})
    assert moved.json()["target"] == "work.fifo"


async def test_a_queue_of_exactly_that_name_comes_first(client: httpx.AsyncClient, steps: dict[str, Any]) -> None:
    await send(client, "ordered")
    assert (await client.post("/v1/queues", json={"name": "steps"})).json()["name"] == "steps"

    assert (await client.post(STEPS, json={"message": "plain"})).status_code == 201
    assert await bodies(client) == ["plain"]
    assert await bodies(client, "/v1/queues/steps.fifo/messages") == ["ordered"]
    clash = await client.post("/v1/queues", json={"name": "steps", "fifo": True})
    assert (clash.status_code, clash.json()["field"]) == (409, "fifo")


async def test_a_queue_that_is_not_there_is_missed_by_the_name_given(client: httpx.AsyncClient) -> None:
    for answer in (await client.post(STEPS, json={"message": "m"}), await client.get("/v1/queues/steps")):
        assert (answer.status_code, answer.json()["error"]) == (404, "Queue 'steps' does not exist")


async def test_a_token_reaches_a_queue_by_its_full_name() -> None:
    async with running(Mode.TOKEN) as live:
        tokens, scopes = live.engine.tenants, frozenset({Scope.SEND, Scope.MANAGE})
        _, full = await tokens.create_token(DEFAULT_TENANT, "full", scopes, queues="*.fifo")
        _, short = await tokens.create_token(DEFAULT_TENANT, "short", scopes, queues="steps")
        body = {"message": "m", "group_id": "a"}
        async with live.client(full) as allowed, live.client(short) as refused:
            assert (await refused.post("/v1/queues", json={"name": "steps", "fifo": True})).status_code == 403
            assert (await allowed.post("/v1/queues", json={"name": "steps", "fifo": True})).status_code == 201
            for _ in range(2):
                assert (await allowed.post(STEPS, json=body)).status_code == 201
                assert (await refused.post(STEPS, json=body)).status_code == 404
