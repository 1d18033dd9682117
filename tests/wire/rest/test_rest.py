"""The native REST API as a client meets it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from penstock.auth import Mode
from penstock.engine import Engine
from penstock.errors import Unavailable
from penstock.model import DEFAULT_TENANT, Scope
from penstock.server.versions import version
from penstock.store.postgres.store import PostgresStore
from tests.plain import PLAIN
from tests.wire.conftest import Live, running

MESSAGES = "/v1/queues/q/messages"


@pytest.fixture(params=["sqlite", "postgres"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    """The same answers whatever the store."""
    store = PostgresStore(request.getfixturevalue("migrated_database")) if request.param == "postgres" else None
    async with running(store=store) as live:
        yield live


@pytest.fixture
async def q(client: httpx.AsyncClient) -> str:
    assert (await client.post("/v1/queues", json={"name": "q"})).status_code == 201
    return "q"


async def send(client: httpx.AsyncClient, message: Any, queue: str = "q", **more: Any) -> int:
    answer = await client.post(f"/v1/queues/{queue}/messages", json={"message": message, **more})
    assert answer.status_code == 201, answer.text
    sent: int = answer.json()["id"]
    return sent


async def receive(client: httpx.AsyncClient, queue: str = "q", **query: Any) -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/queues/{queue}/messages", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


# Queues


async def test_a_queue_is_created_once(client: httpx.AsyncClient) -> None:
    created = await client.post("/v1/queues", json={"name": "q", "fifo": False})
    again = await client.post("/v1/queues", json={"name": "q"})
    other = await client.post("/v1/queues", json={"name": "q", "visibility_timeout": 99})

    assert (created.status_code, again.status_code, other.status_code) == (201, 200, 409)
    assert created.json()["settings"]["visibility_timeout"] == 30
    assert other.json()["field"] == "visibility_timeout"
    assert "_s" not in other.json()["error"]


async def test_a_name_that_ends_in_fifo_is_that_of_a_fifo_queue(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/queues", json={"name": "a.fifo"})).json()["fifo"] is True
    assert (await client.post("/v1/queues", json={"name": "b.fifo", "fifo": True})).status_code == 201
    answer = await client.post("/v1/queues", json={"name": "c.fifo", "fifo": False})
    assert (answer.status_code, answer.json()["field"]) == (400, "fifo")


async def test_every_setting_can_be_given_and_changed(client: httpx.AsyncClient) -> None:
    await client.post("/v1/queues", json={"name": "dead.fifo"})
    settings = {
        "visibility_timeout": 5, "delay": 1, "retention": 60, "receive_wait": 2, "max_message_bytes": 100,
        "max_length": 7, "max_receives": 3, "dead_letter_queue": "dead.fifo", "lifo": False, "archive": True,
        "content_dedup": True, "dedup_window": 9, "dedup_scope": "group", "throughput_limit": "group",
        "tags": {"team": "a"},
    }  # fmt: skip
    created = await client.post("/v1/queues", json={"name": "q.fifo", **settings})
    changed = await client.patch(
        "/v1/queues/q.fifo", json={"delay": 0, "max_length": None, "max_receives": None, "dead_letter_queue": None}
    )

    assert created.json()["settings"] == settings
    expected = settings | {"delay": 0, "max_length": None, "max_receives": None, "dead_letter_queue": None}
    assert (changed.status_code, changed.json()["settings"]) == (200, expected)


async def test_a_missing_dead_letter_queue_is_named(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/queues", json={"name": "q", "max_receives": 1, "dead_letter_queue": "gone"})

    assert (answer.status_code, answer.json()["field"]) == (404, "dead_letter_queue")


async def test_queues_are_listed_by_prefix_and_page(client: httpx.AsyncClient) -> None:
    for name in ("a1", "a2", "b1"):
        await client.post("/v1/queues", json={"name": name})

    async def names(**query: Any) -> list[str]:
        return [item["name"] for item in (await client.get("/v1/queues", params=query)).json()]

    assert await names() == ["a1", "a2", "b1"]
    assert await names(prefix="a") == ["a1", "a2"]
    assert await names(after="a1", limit=1) == ["a2"]
    [first, *_] = (await client.get("/v1/queues")).json()
    assert (first["is_partitioned"], first["is_unlogged"], first["fifo"]) == (False, False, False)
    assert datetime.fromisoformat(first["created_at"]).tzinfo is not None


async def test_a_queue_tells_how_full_it_is(client: httpx.AsyncClient, q: str) -> None:
    empty = (await client.get("/v1/queues/q")).json()
    await send(client, 1)
    await send(client, 2, delay=60)
    await send(client, 3)
    await receive(client)
    full = (await client.get("/v1/queues/q")).json()

    assert (empty["queue_length"], empty["oldest_msg_age_sec"], empty["newest_msg_age_sec"]) == (0, None, None)
    assert (full["queue_length"], full["queue_visible_length"], full["total_messages"]) == (3, 1, 3)
    assert (full["visible"], full["in_flight"], full["delayed"]) == (1, 1, 1)
    assert (full["queue_name"], full["oldest_msg_age_sec"]) == ("q", 0)
    assert full["settings"]["retention"] == 345_600
    datetime.fromisoformat(full["scrape_time"])


async def test_a_queue_is_dropped_once(client: httpx.AsyncClient, q: str) -> None:
    assert (await client.delete("/v1/queues/q")).status_code == 204
    again = await client.delete("/v1/queues/q")
    assert (again.status_code, again.json()["code"], again.json()["field"]) == (404, "QueueNotFound", "name")


async def test_purge_tells_how_many(client: httpx.AsyncClient, q: str) -> None:
    await send(client, 1)
    await send(client, 2)

    assert (await client.post("/v1/queues/q/purge")).json() == {"deleted": 2}
    assert await receive(client) == []


# Messages


@pytest.mark.parametrize(
    "message",
    [
        "text",
        "",
        "ünï \u2028 \U0001f600",
        1,
        12345678901234567890123,
        1.5,
        True,
        None,
        [1, {"a": "b"}],
        {"z": 1, "a": [None]},
    ],
)
async def test_any_json_value_comes_back_as_it_was(client: httpx.AsyncClient, q: str, message: Any) -> None:
    if message == "":
        await client.post(MESSAGES, json={"message": message})
    else:
        await send(client, message)
    found = await receive(client)

    assert [item["message"] for item in found] == [message]


async def test_json_is_kept_to_the_letter(client: httpx.AsyncClient, q: str) -> None:
    text = b'{"b" : 1.10, "a": 1e3, "big": 123456789012345678901234567890}'
    await client.post(MESSAGES, content=b'{"message": ' + text + b"}")

    assert text in (await client.get(MESSAGES)).content


async def test_a_message_carries_everything_it_was_given(client: httpx.AsyncClient, q: str) -> None:
    attributes = {
        "kind": {"type": "String", "value": "x"},
        "size": {"type": "Number.int", "value": "-1.5e3"},
        "blob": {"type": "Binary", "value": base64.b64encode(b"\x00\xff").decode()},
    }
    sent = await send(
        client, "hi", headers={"trace": ["a", 1]}, priority=7, group_id="g1", dedup_id="d1", attributes=attributes
    )
    [found] = await receive(client, vt=60)

    assert (found["id"], found["headers"], found["priority"]) == (sent, {"trace": ["a", 1]}, 7)
    assert (found["attributes"], found["group_id"], found["read_count"]) == (attributes, "g1", 1)
    assert found["receipt"]
    hidden = datetime.fromisoformat(found["visible_at"]) - datetime.fromisoformat(found["first_received_at"])
    assert hidden == timedelta(seconds=60)
    assert "dead_letter_source" not in found


async def test_a_bare_message_has_null_headers_and_no_absent_things(client: httpx.AsyncClient, q: str) -> None:
    await send(client, "hi")
    [found] = await receive(client)

    assert found["headers"] is None
    assert not {"attributes", "group_id", "dead_letter_source"} & set(found)


async def test_a_duplicate_is_said_to_be_one(client: httpx.AsyncClient, q: str) -> None:
    first = await client.post(MESSAGES, json={"message": 1, "dedup_id": "d", "dedup_window": 60})
    second = await client.post(MESSAGES, json={"message": 1, "dedup_id": "d", "dedup_window": 60})

    assert first.json() == {"id": first.json()["id"]}
    assert (second.status_code, second.json()) == (201, {"id": first.json()["id"], "duplicate": True})


async def test_a_batch_is_stored_in_order(client: httpx.AsyncClient, q: str) -> None:
    answer = await client.post(MESSAGES, json=[{"message": number} for number in range(20)])

    assert answer.status_code == 201
    assert list(answer.json()) == ["ids"]
    found = await receive(client, max=1000)
    assert [item["id"] for item in found] == answer.json()["ids"]


async def test_a_bad_entry_fails_alone(client: httpx.AsyncClient, q: str) -> None:
    bad_attribute = {"a": {"type": "Number", "value": "many"}}
    answer = await client.post(
        MESSAGES,
        json=[{"message": 1}, {"message": 2, "priority": 5000}, {"message": 3, "attributes": bad_attribute}],
    )

    assert answer.status_code == 201
    assert [bool(given) for given in answer.json()["ids"]] == [True, False, False]
    assert [(item["index"], item["field"]) for item in answer.json()["errors"]] == [
        (1, "[1].priority"),
        (2, "[2].attributes.a.value"),
    ]


async def test_a_batch_that_fails_whole_has_the_status_of_its_first_error(client: httpx.AsyncClient, q: str) -> None:
    bad = await client.post(MESSAGES, json=[{"message": 1, "delay": -1}, {"message": 2, "delay": -2}])
    unknown = await client.post("/v1/queues/none/messages", json=[{"message": 1}])

    assert (bad.status_code, bad.json()["field"], len(bad.json()["errors"])) == (400, "[0].delay", 2)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "QueueNotFound")


async def test_a_full_queue_says_so(client: httpx.AsyncClient) -> None:
    await client.post("/v1/queues", json={"name": "q", "max_length": 1})
    await send(client, 1)
    answer = await client.post(MESSAGES, json={"message": 2})

    assert (answer.status_code, answer.json()["code"]) == (429, "QueueFull")


async def test_size_counts_headers_and_attributes(client: httpx.AsyncClient) -> None:
    await client.post("/v1/queues", json={"name": "q", "max_message_bytes": 50})
    await send(client, "x" * 50)
    answer = await client.post(MESSAGES, json={"message": "x" * 40, "headers": {"a": "y" * 20}})

    assert (answer.status_code, answer.json()["code"]) == (413, "TooLarge")


async def test_peek_changes_nothing(client: httpx.AsyncClient, q: str) -> None:
    await send(client, "hi")
    [peeked] = await receive(client, peek=True)
    [found] = await receive(client)

    assert (peeked["message"], peeked["read_count"], "receipt" in peeked) == ("hi", 0, False)
    assert found["read_count"] == 1


async def test_shuffle_and_fifo_are_understood(client: httpx.AsyncClient, q: str) -> None:
    await client.post(MESSAGES, json=[{"message": number} for number in range(10)])

    found = await receive(client, max=10, shuffle="true", fifo="false")
    assert sorted(item["message"] for item in found) == list(range(10))


async def test_a_receive_may_name_its_dead_letter_queue(client: httpx.AsyncClient, q: str) -> None:
    await client.post("/v1/queues", json={"name": "dead"})
    await send(client, "poison")
    await receive(client, vt=0)

    assert await receive(client, max_receives=1, dead_letter_queue="dead") == []
    [dead] = await receive(client, "dead")
    assert (dead["message"], dead["dead_letter_source"]) == ("poison", "q")


async def test_a_long_poll_is_woken_by_a_send(client: httpx.AsyncClient, q: str) -> None:
    waiting = asyncio.create_task(receive(client, wait=20))
    await asyncio.sleep(0.05)
    await send(client, "hello")

    assert [item["message"] for item in await asyncio.wait_for(waiting, 5)] == ["hello"]


async def test_a_long_poll_ends_empty(client: httpx.AsyncClient, q: str) -> None:
    assert await receive(client, wait=1) == []


# Delete, archive, hide


async def test_messages_are_deleted_by_id_and_by_receipt(client: httpx.AsyncClient, q: str) -> None:
    ids = (await client.post(MESSAGES, json=[{"message": number} for number in range(4)])).json()["ids"]
    found = await receive(client, max=4)

    assert (await client.delete(f"{MESSAGES}/{ids[0]}")).status_code == 204
    assert (await client.delete(f"{MESSAGES}/{found[1]['receipt']}")).status_code == 204
    body = {"ids": [ids[2], 999_999], "receipts": [found[3]["receipt"]]}
    many = await client.request("DELETE", MESSAGES, json=body)
    assert (many.status_code, many.json()) == (200, {"deleted": [ids[2], ids[3]]})
    gone = await client.delete(f"{MESSAGES}/{ids[0]}")
    assert (gone.status_code, gone.json()["code"], gone.json()["field"]) == (404, "MessageNotFound", "id")


async def test_a_stale_receipt_deletes_nothing(client: httpx.AsyncClient, q: str) -> None:
    sent = await send(client, 1)
    [first] = await receive(client, vt=0)
    [second] = await receive(client)

    stale = await client.delete(f"{MESSAGES}/{sent}", params={"receipt": first["receipt"]})
    assert (stale.status_code, stale.json()["code"]) == (409, "ReceiptStale")
    assert (await client.delete(f"{MESSAGES}/{sent}", params={"receipt": second["receipt"]})).status_code == 204


async def test_a_receipt_belongs_to_its_message_and_queue(client: httpx.AsyncClient, q: str) -> None:
    await client.post("/v1/queues", json={"name": "other"})
    first, second = await send(client, 1), await send(client, 2)
    found = await receive(client, max=2)

    swapped = await client.delete(f"{MESSAGES}/{first}", params={"receipt": found[1]["receipt"]})
    elsewhere = await client.delete(f"/v1/queues/other/messages/{second}", params={"receipt": found[1]["receipt"]})
    assert (swapped.status_code, elsewhere.status_code) == (400, 400)


async def test_visibility_is_prolonged_and_released(client: httpx.AsyncClient, q: str) -> None:
    sent = await send(client, 1)
    [found] = await receive(client, vt=60)
    longer = await client.patch(f"{MESSAGES}/{sent}", json={"vt": 600, "receipt": found["receipt"]})
    assert longer.json()["id"] == sent
    assert datetime.fromisoformat(longer.json()["visible_at"]) > datetime.fromisoformat(found["visible_at"])
    assert await receive(client) == []

    assert (await client.patch(f"{MESSAGES}/{sent}", json={"vt": -5})).status_code == 200
    assert [item["id"] for item in await receive(client)] == [sent]
    assert (await client.patch(f"{MESSAGES}/99999", json={"vt": 1})).status_code == 404


async def test_a_message_is_archived_once(client: httpx.AsyncClient, q: str) -> None:
    sent = await send(client, 1)

    assert (await client.post(f"{MESSAGES}/{sent}/archive")).status_code == 204
    assert (await client.post(f"{MESSAGES}/{sent}/archive")).status_code == 404


# Dead letters


async def test_dead_letters_are_sent_back(server: Live, client: httpx.AsyncClient) -> None:
    await client.post("/v1/queues", json={"name": "dead"})
    await client.post("/v1/queues", json={"name": "q", "max_receives": 1, "dead_letter_queue": "dead"})
    await send(client, "poison")
    await receive(client, vt=0)
    assert await receive(client) == []

    assert (await client.get("/v1/queues/dead/sources")).json() == ["q"]
    started = await client.post("/v1/queues/dead/redrive", json={"rate": 100})
    assert (started.status_code, started.json()["state"], started.json()["rate"]) == (202, "running", 100)
    async with asyncio.timeout(5):
        while not await server.engine.queues.run_moves():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    [found] = await receive(client)
    assert found["message"] == "poison"
    [task] = (await client.get("/v1/queues/dead/redrive")).json()
    assert (task["id"], task["moved"]) == (started.json()["id"], 1)


async def test_a_redrive_is_cancelled_from_its_own_queue_only(client: httpx.AsyncClient) -> None:
    await client.post("/v1/queues", json={"name": "dead"})
    await client.post("/v1/queues", json={"name": "q", "max_receives": 1, "dead_letter_queue": "dead"})
    for _ in range(3):
        await send(client, "poison")
    await receive(client, vt=0, max=3)
    await receive(client, max=3)
    task = (await client.post("/v1/queues/dead/redrive", json={"rate": 1})).json()

    assert (await client.delete(f"/v1/queues/q/redrive/{task['id']}")).status_code == 404
    cancelled = await client.delete(f"/v1/queues/dead/redrive/{task['id']}")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")


async def test_a_redrive_names_a_missing_destination(client: httpx.AsyncClient, q: str) -> None:
    answer = await client.post("/v1/queues/q/redrive", json={"destination": "gone"})

    assert (answer.status_code, answer.json()["field"]) == (404, "destination")


# Operators


async def test_the_server_tells_how_it_is(server: Live, client: httpx.AsyncClient) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=PLAIN) as nobody:
        alive = await nobody.get("/livez")
        assert (alive.status_code, alive.json()) == (200, {"status": "ok", "version": version()})
        ready = await nobody.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ok"})


async def test_a_server_without_its_database_is_not_ready(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(engine: Engine) -> None:
        raise Unavailable()

    monkeypatch.setattr(Engine, "ping", away)

    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "degraded"})
    assert (await client.get("/livez")).status_code == 200


# Tokens


async def test_tokens_reach_what_they_were_made_for() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        admin = (await tenants.create_token(DEFAULT_TENANT, "admin", frozenset({Scope.ADMIN})))[1]
        scopes = frozenset({Scope.SEND, Scope.READ})
        sender = (await tenants.create_token(DEFAULT_TENANT, "sender", scopes, queues="mail-*"))[1]
        async with live.client(admin) as full, live.client(sender) as narrow, live.client("pst_x_y") as stranger:
            for name in ("mail-1", "pay"):
                assert (await full.post("/v1/queues", json={"name": name})).status_code == 201

            assert (await stranger.get("/v1/queues")).status_code == 401
            assert [item["name"] for item in (await narrow.get("/v1/queues")).json()] == ["mail-1"]
            assert (await narrow.post("/v1/queues/mail-1/messages", json={"message": 1})).status_code == 201
            assert (await narrow.post("/v1/queues/pay/messages", json={"message": 1})).status_code == 403
            assert (await narrow.get("/v1/queues/mail-1/messages")).status_code == 403
            assert (await narrow.delete("/v1/queues/mail-1")).status_code == 403
            assert (await narrow.get("/v1/queues/pay")).status_code == 403


async def test_a_dead_letter_queue_must_be_within_reach() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        admin = (await tenants.create_token(DEFAULT_TENANT, "admin", frozenset({Scope.ADMIN})))[1]
        scopes = frozenset({Scope.MANAGE, Scope.RECEIVE})
        narrow_token = (await tenants.create_token(DEFAULT_TENANT, "narrow", scopes, queues="mail*"))[1]
        async with live.client(admin) as full, live.client(narrow_token) as narrow:
            await full.post("/v1/queues", json={"name": "pay"})
            body = {"name": "mail", "max_receives": 1, "dead_letter_queue": "pay"}

            assert (await narrow.post("/v1/queues", json=body)).json()["field"] == "dead_letter_queue"
            assert (await narrow.post("/v1/queues", json={"name": "mail"})).status_code == 201
            query: dict[str, str | int] = {"max_receives": 1, "dead_letter_queue": "pay"}
            assert (await narrow.get("/v1/queues/mail/messages", params=query)).status_code == 403
            assert (await narrow.post("/v1/queues/mail/redrive", json={"destination": "pay"})).status_code == 403


async def test_tenants_do_not_meet() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        other = await tenants.create("other")
        one = (await tenants.create_token(DEFAULT_TENANT, "one", frozenset({Scope.ADMIN})))[1]
        two = (await tenants.create_token(other.id, "two", frozenset({Scope.ADMIN})))[1]
        async with live.client(one) as first, live.client(two) as second:
            await first.post("/v1/queues", json={"name": "q"})
            sent = await send(first, "mine")

            assert (await second.get("/v1/queues")).json() == []
            for answer in (
                await second.get("/v1/queues/q"),
                await second.get(MESSAGES),
                await second.post(MESSAGES, json={"message": 1}),
                await second.delete(f"{MESSAGES}/{sent}"),
                await second.delete("/v1/queues/q"),
            ):
                assert answer.status_code == 404


async def test_a_send_may_opt_out_of_waiting_for_the_disk(client: httpx.AsyncClient, q: str) -> None:
    one = await client.post(MESSAGES, json={"message": "a", "sync_commit": False})
    many = await client.post(MESSAGES, json=[{"message": "b", "sync_commit": False}, {"message": "c"}])
    call = await client.post(MESSAGES, params={"sync_commit": "false"}, json={"message": "d"})
    wrong = await client.post(MESSAGES, params={"sync_commit": "maybe"}, json={"message": "e"})

    assert [answer.status_code for answer in (one, many, call)] == [201, 201, 201]
    assert (wrong.status_code, wrong.json()["field"]) == (400, "sync_commit")
    assert [message["message"] for message in await receive(client, max=10)] == ["a", "b", "c", "d"]
