"""Streams over the native REST API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from penstock.store.postgres.store import PostgresStore
from tests.wire.conftest import Live, running


@pytest.fixture
async def server(postgres_dsn: str) -> AsyncIterator[Live]:
    async with running(store=PostgresStore(postgres_dsn)) as live:
        yield live


@pytest.fixture
async def stream(client: httpx.AsyncClient) -> str:
    """The path of a stream with one consumer."""
    name = f"s-{uuid4().hex[:12]}"
    assert (await client.post("/v1/streams", json={"name": name})).status_code == 201
    assert (await client.post(f"/v1/streams/{name}/consumers", json={"name": "shop"})).status_code == 201
    return f"/v1/streams/{name}"


async def receive(client: httpx.AsyncClient, stream: str, consumer: str = "shop", **query: Any) -> dict[str, Any]:
    answer = await client.get(f"{stream}/consumers/{consumer}/batch", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def settle(
    client: httpx.AsyncClient, stream: str, batch: Any, verb: str = "ack", consumer: str = "shop", **more: Any
) -> httpx.Response:
    return await client.post(f"{stream}/consumers/{consumer}/batches/{batch['batch_id']}/{verb}", **more)


async def test_a_stream_lives_from_its_creation_to_its_end(client: httpx.AsyncClient) -> None:
    name = f"s-{uuid4().hex[:12]}"
    created = await client.post("/v1/streams", json={"name": name, "max_retries": 3, "event_ttl": 3600})
    again = await client.post("/v1/streams", json={"name": name, "max_retries": 9})
    changed = await client.patch(f"/v1/streams/{name}", json={"event_ttl": None, "ticker_max_lag": 0.5, "paused": True})
    listed = await client.get("/v1/streams", params={"prefix": name})
    stats = await client.get(f"/v1/streams/{name}")
    dropped = await client.delete(f"/v1/streams/{name}")
    gone = await client.get(f"/v1/streams/{name}")

    assert (created.status_code, again.status_code, dropped.status_code) == (201, 200, 204)
    assert created.json()["settings"]["event_ttl"] == 3600
    assert again.json() == created.json()
    settings = changed.json()["settings"]
    assert (settings["event_ttl"], settings["ticker_max_lag"], settings["paused"]) == (None, 0.5, True)
    assert [each["name"] for each in listed.json()] == [name]
    assert (stats.json()["depth"], stats.json()["consumers"], stats.json()["settings"]) == (0, 0, settings)
    assert (gone.status_code, gone.json()["code"], gone.json()["field"]) == (404, "StreamNotFound", "name")


async def test_an_event_reaches_every_consumer_and_goes_when_acknowledged(
    client: httpx.AsyncClient, stream: str
) -> None:
    await client.post(f"{stream}/consumers", json={"name": "audit"})
    sent = await client.post(f"{stream}/events", json={"payload": {"order": 1}, "type": "paid", "extra2": "more"})
    many = await client.post(f"{stream}/events", json=[{"payload": "plain"}, {"payload": 7}])
    assert (sent.status_code, many.status_code) == (201, 201)

    for consumer in ("shop", "audit"):
        batch = await receive(client, stream, consumer)
        events = batch["events"]
        assert [event["id"] for event in events] == [sent.json()["id"], *many.json()["ids"]]
        assert [event["payload"] for event in events] == [{"order": 1}, "plain", 7]
        assert (events[0]["type"], events[0]["extra2"], events[0]["retries"]) == ("paid", "more", 0)
        assert (await receive(client, stream, consumer))["batch_id"] == batch["batch_id"]
        assert (await settle(client, stream, batch, consumer=consumer)).status_code == 204
        assert await receive(client, stream, consumer) == {"batch_id": None, "events": []}


async def test_a_batch_is_received_in_pieces_and_nothing_is_lost(client: httpx.AsyncClient, stream: str) -> None:
    await client.post(f"{stream}/events", json=[{"payload": number} for number in range(25)])
    seen = []
    while (batch := await receive(client, stream, max=10))["batch_id"] is not None:
        seen += [event["payload"] for event in batch["events"]]
        await settle(client, stream, batch)

    assert seen == list(range(25))


async def test_a_waiting_consumer_is_woken_by_a_send(client: httpx.AsyncClient, stream: str) -> None:
    waiting = asyncio.create_task(receive(client, stream, wait=20))
    await asyncio.sleep(0.2)
    await client.post(f"{stream}/events", json={"payload": 1})

    batch = await asyncio.wait_for(waiting, 10)

    assert [event["payload"] for event in batch["events"]] == [1]


async def test_a_waiting_consumer_is_woken_by_a_sql_user(
    client: httpx.AsyncClient, stream: str, postgres_dsn: str
) -> None:
    waiting = asyncio.create_task(receive(client, stream, wait=20))
    await asyncio.sleep(0.2)
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute("select pgque.send(%s, 'hello')", [stream.rpartition("/")[2]])

    batch = await asyncio.wait_for(waiting, 10)

    assert [event["payload"] for event in batch["events"]] == ["hello"]


async def test_a_wait_without_events_ends_with_nothing(client: httpx.AsyncClient, stream: str) -> None:
    assert await receive(client, stream, wait=1) == {"batch_id": None, "events": []}


async def test_a_failed_event_comes_again_and_ends_as_a_dead_letter(
    client: httpx.AsyncClient, stream: str, server: Live
) -> None:
    await client.patch(stream, json={"max_retries": 1})
    await client.post(f"{stream}/events", json={"payload": "bad"})
    for attempt in range(2):
        batch = await receive(client, stream)
        [event] = batch["events"]
        assert event["retries"] == attempt
        body = {"id": event["id"], "retry_after": 0, "reason": "no such customer"}
        assert (await settle(client, stream, batch, "nack", json=body)).status_code == 204
        assert (await settle(client, stream, batch)).status_code == 204
        await server.engine.streams.maintain()

    [dead] = (await client.get(f"{stream}/dead-letters")).json()
    assert (dead["reason"], dead["consumer"], dead["event"]["payload"]) == ("no such customer", "shop", "bad")
    replayed = await client.post(f"{stream}/dead-letters/{dead['id']}/replay")
    assert replayed.json() == {"replayed": 1}
    assert (await receive(client, stream))["events"][0]["payload"] == "bad"
    assert (await client.post(f"{stream}/dead-letters/{dead['id']}/replay")).status_code == 404
    assert (await client.post(f"{stream}/dead-letters/replay")).json() == {"replayed": 0}
    assert (await client.delete(f"{stream}/dead-letters")).json() == {"deleted": 0}


async def test_an_event_may_be_sent_later(client: httpx.AsyncClient, stream: str) -> None:
    at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for body in ({"payload": 1, "at": at}, {"payload": 1, "delay": 60}):
        answer = await client.post(f"{stream}/events", json=body)
        assert (answer.status_code, list(answer.json())) == (202, ["scheduled_id"])

    assert await receive(client, stream) == {"batch_id": None, "events": []}


async def test_consumers_are_listed_with_their_lag_and_removed(client: httpx.AsyncClient, stream: str) -> None:
    again = await client.post(f"{stream}/consumers", json={"name": "shop"})
    await client.post(f"{stream}/events", json=[{"payload": 1}, {"payload": 2}])
    batch = await receive(client, stream)

    [shop] = (await client.get(f"{stream}/consumers")).json()

    assert again.status_code == 200
    assert (shop["name"], shop["pending"], shop["batch_id"]) == ("shop", 2, batch["batch_id"])
    assert (await client.delete(f"{stream}/consumers/shop")).status_code == 204
    missing = await client.get(f"{stream}/consumers/shop/batch")
    assert (missing.status_code, missing.json()["code"]) == (404, "SubscriptionNotFound")
    assert (await client.delete(f"{stream}/consumers/shop")).status_code == 404


async def test_the_health_of_a_stream_is_told(client: httpx.AsyncClient, stream: str) -> None:
    found = (await client.get(f"{stream}/health")).json()

    assert {"ticker_running"} <= {check["check"] for check in found}


async def test_a_batch_that_is_not_the_consumers_is_not_settled(client: httpx.AsyncClient, stream: str) -> None:
    await client.post(f"{stream}/consumers", json={"name": "other"})
    await client.post(f"{stream}/events", json={"payload": 1})
    batch = await receive(client, stream)

    stranger = await settle(client, stream, batch, consumer="other")
    first = await settle(client, stream, batch)
    second = await settle(client, stream, batch)

    assert (stranger.status_code, first.status_code, second.status_code) == (409, 204, 409)
    assert stranger.json()["field"] == "batch_id"


# Bad input


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/streams", {"name": "with:colon"}, "name"),
        ("POST", "/v1/streams", {"name": "x" * 41}, "name"),
        ("POST", "/v1/streams", {"name": "ok", "max_retries": -1}, "max_retries"),
        ("POST", "/v1/streams", {"name": "ok", "colour": "red"}, "colour"),
        ("PATCH", "{}", {"ticker_max_count": 0}, "ticker_max_count"),
        ("POST", "{}/consumers", {"name": "a b"}, "consumer"),
        ("POST", "{}/events", {}, "payload"),
        ("POST", "{}/events", [], "body"),
        ("POST", "{}/events", {"payload": "nul \0"}, "payload"),
        ("POST", "{}/events", {"payload": 1, "type": ""}, "type"),
        ("POST", "{}/events", {"payload": 1, "extra1": "x" * 4097}, "extra1"),
        ("POST", "{}/events", {"payload": 1, "delay": 1, "at": "2030-01-01T00:00:00Z"}, "at"),
        ("POST", "{}/events", [{"payload": 1, "delay": 1}], "at"),
        ("POST", "{}/consumers/shop/batches/x/ack", None, "batch_id"),
        ("POST", "{}/consumers/shop/batches/1/nack", {"id": 0}, "id"),
        ("POST", "{}/consumers/shop/batches/1/nack", {"id": 1, "retry_after": -1}, "retry_after"),
        ("GET", "{}/consumers/shop/batch?max=0", None, "max"),
        ("GET", "{}/consumers/shop/batch?wait=21", None, "wait"),
        ("GET", "{}/dead-letters?limit=0", None, "limit"),
        ("POST", "{}/dead-letters/x/replay", None, "id"),
    ],
)
async def test_bad_input_is_refused_by_the_name_of_the_field(
    client: httpx.AsyncClient, stream: str, method: str, path: str, body: Any, field: str
) -> None:
    answer = await client.request(method, path.format(stream), json=body)

    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == field


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/streams/none", None),
        ("PATCH", "/v1/streams/none", {}),
        ("DELETE", "/v1/streams/none", None),
        ("GET", "/v1/streams/none/health", None),
        ("GET", "/v1/streams/none/consumers", None),
        ("POST", "/v1/streams/none/consumers", {"name": "shop"}),
        ("DELETE", "/v1/streams/none/consumers/shop", None),
        ("POST", "/v1/streams/none/events", {"payload": 1}),
        ("POST", "/v1/streams/none/events", {"payload": 1, "delay": 5}),
        ("GET", "/v1/streams/none/consumers/shop/batch", None),
        ("POST", "/v1/streams/none/consumers/shop/batches/1/ack", None),
        ("GET", "/v1/streams/none/dead-letters", None),
        ("POST", "/v1/streams/none/dead-letters/replay", None),
        ("DELETE", "/v1/streams/none/dead-letters", None),
    ],
)
async def test_a_stream_that_does_not_exist_is_not_found(
    client: httpx.AsyncClient, method: str, path: str, body: Any
) -> None:
    answer = await client.request(method, path, json=body)

    assert (answer.status_code, answer.json()["code"]) == (404, "StreamNotFound"), answer.text


# Tenants and scopes


@pytest.fixture
async def guarded(postgres_dsn: str) -> AsyncIterator[Live]:
    async with running(mode=Mode.TOKEN, store=PostgresStore(postgres_dsn)) as live:
        yield live


async def test_tenants_do_not_see_each_other(guarded: Live) -> None:
    name = f"s-{uuid4().hex[:12]}"
    clients = []
    for tenant in (DEFAULT_TENANT, (await guarded.engine.tenants.create(f"tenant-{uuid4().hex}")).id):
        _, token = await guarded.engine.tenants.create_token(tenant, "all", frozenset({Scope.ADMIN}))
        clients.append(guarded.client(token))
    async with clients[0] as ours, clients[1] as theirs:
        for client in (ours, theirs):
            assert (await client.post("/v1/streams", json={"name": name})).status_code == 201
            await client.post(f"/v1/streams/{name}/consumers", json={"name": "shop"})
        await ours.post(f"/v1/streams/{name}/events", json={"payload": "ours"})
        await theirs.post(f"/v1/streams/{name}/events", json={"payload": "theirs"})
        mine = await receive(ours, f"/v1/streams/{name}")
        yours = await receive(theirs, f"/v1/streams/{name}")

        assert [event["payload"] for event in mine["events"]] == ["ours"]
        assert [event["payload"] for event in yours["events"]] == ["theirs"]
        assert (await settle(theirs, f"/v1/streams/{name}", mine)).status_code == 409
        assert [each["name"] for each in (await theirs.get("/v1/streams")).json()] == [name]
        seen = {each["name"] for each in (await ours.get("/v1/streams", params={"prefix": name})).json()}
        assert seen == {name}
        assert not any(":" in each["name"] for each in (await ours.get("/v1/streams")).json())
        assert (await ours.delete(f"/v1/streams/{name}")).status_code == 204
        assert (await theirs.get(f"/v1/streams/{name}")).status_code == 200


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [(Scope.READ, "read"), (Scope.SEND, "send"), (Scope.RECEIVE, "receive"), (Scope.MANAGE, "manage")],
)
async def test_a_token_does_what_its_scope_says(guarded: Live, scope: Scope, allowed: str) -> None:
    name = f"s-{uuid4().hex[:12]}"
    await guarded.engine.streams.create(DEFAULT_TENANT, name, {})
    await guarded.engine.streams.subscribe(DEFAULT_TENANT, name, "shop")
    _, token = await guarded.engine.tenants.create_token(DEFAULT_TENANT, "one", frozenset({scope}))
    requests = {
        "read": ("GET", f"/v1/streams/{name}", None),
        "send": ("POST", f"/v1/streams/{name}/events", {"payload": 1}),
        "receive": ("GET", f"/v1/streams/{name}/consumers/shop/batch", None),
        "manage": ("PATCH", f"/v1/streams/{name}", {}),
    }
    async with guarded.client(token) as client:
        answers = {
            needed: (await client.request(method, path, json=body)).status_code
            for needed, (method, path, body) in requests.items()
        }

    assert {needed for needed, status in answers.items() if status < 300} == {allowed}, answers
    assert {status for status in answers.values() if status >= 300} == {403}


async def test_a_store_without_streams_says_so() -> None:
    async with running() as live, live.client() as client:
        answer = await client.post("/v1/streams", json={"name": "orders"})

    assert (answer.status_code, answer.json()["code"]) == (501, "Unsupported")
    assert "PostgreSQL" in answer.json()["error"]
