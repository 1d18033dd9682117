"""Private queues over HTTP: with the Python client, and with requests that prove nothing."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import httpx
import pytest

from penstock import Conflict, Forbidden, PrivateNotifier, PrivateQueue, PrivateSender, QueueFull
from penstock.auth import Mode
from penstock.client import private
from penstock.client.private import LinkData, encode, new_key, public_key, read_link, sign
from penstock.engine.private.queues import REFUSAL_S
from penstock.engine.topics.webhooks import WebhookSettings
from penstock.loops.deliverer import Deliverer
from penstock.model import Scope
from penstock.store.postgres.store import PostgresStore
from tests import cluster
from tests.endpoint import listening
from tests.wire.conftest import Live, running
from tests.wire.raw import connected, request

Result = TypeVar("Result")


@pytest.fixture(scope="module")
def private_dsn(postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
async def server(private_dsn: str) -> AsyncIterator[Live]:
    async with running(store=PostgresStore(private_dsn, max_connections=4)) as live:
        yield live


@pytest.fixture(autouse=True)
def parties_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close every client that a test makes."""
    made: list[private._Party] = []
    start = private._Party.__init__

    def noted(self: private._Party, url: str, party_id: str, key: bytes | None) -> None:
        start(self, url, party_id, key)
        made.append(self)

    monkeypatch.setattr(private._Party, "__init__", noted)
    yield
    for each in made:
        each.close()


async def call(act: Callable[..., Result], *given: Any, **more: Any) -> Result:
    """The client blocks; the server runs in this loop."""
    return await asyncio.to_thread(act, *given, **more)


async def test_from_a_sender_to_a_recipient(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    sender = PrivateSender(server.url, queue.sender_id, new_key())

    await call(sender.secure)
    await call(sender.send, "hello")

    [message] = await call(queue.receive, 10, wait_s=5)
    assert (message.body, message.receives) == ("hello", 1)
    await call(queue.delete_message, message)
    assert await call(queue.receive) == []
    assert (await call(queue.get))["is_secured"] is True


async def test_a_waiting_recipient_is_woken_by_a_send(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    waiting = asyncio.create_task(call(queue.receive, 1, wait_s=20))
    await asyncio.sleep(0.1)

    await call(PrivateSender(server.url, queue.sender_id).send, "late")

    assert [message.body for message in await asyncio.wait_for(waiting, 5)] == ["late"]


async def test_a_notifier_learns_that_something_waits_and_takes_nothing(server: Live) -> None:
    queue, key = await call(PrivateQueue.create, server.url), new_key()
    notifier = PrivateNotifier(server.url, await call(queue.add_notifier, public_key(key)), key)
    assert await call(notifier.is_waiting) is False
    receiving = asyncio.create_task(call(queue.receive, 1, wait_s=20))
    noticing = asyncio.create_task(call(notifier.is_waiting, wait_s=20))
    await asyncio.sleep(0.2)

    await call(PrivateSender(server.url, queue.sender_id).send, "one")
    await call(PrivateSender(server.url, queue.sender_id).send, "two")

    assert len(await asyncio.wait_for(receiving, 5)) == 1
    assert await asyncio.wait_for(noticing, 5) is True
    await call(queue.remove_notifier)
    with pytest.raises(Forbidden):
        await call(notifier.is_waiting)


async def test_a_link_is_read_by_anyone_who_knows_its_id(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    link_id = await call(queue.set_link, b"fixed", b"mutable")

    assert await call(read_link, server.url, link_id) == LinkData(b"fixed", b"mutable")
    await call(queue.remove_link)
    with pytest.raises(Forbidden):
        await call(read_link, server.url, link_id)


async def test_a_suspended_queue_takes_no_messages(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    sender = PrivateSender(server.url, queue.sender_id)

    await call(queue.suspend)
    with pytest.raises(Conflict, match="suspended"):
        await call(sender.send, "no")
    await call(queue.resume)
    await call(sender.send, "yes")

    assert [message.body for message in await call(queue.receive)] == ["yes"]


async def test_new_keys_replace_the_old_ones(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    key = new_key()

    await call(queue.replace_keys, [public_key(key)])

    with pytest.raises(Forbidden):
        await call(queue.get)
    assert (await call(PrivateQueue(server.url, queue.id, key).get))["recipient_id"] == queue.id


async def test_a_full_queue_says_so(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    sender = PrivateSender(server.url, queue.sender_id)
    await call(sender.send, "one")
    tenant = await server.engine.private_messages.tenant()
    for each in await server.engine.queues.list(tenant):
        await server.engine.queues.update(tenant, each.name, {"max_length": 1})

    with pytest.raises(QueueFull):
        await call(sender.send, "two")


async def refusal(server: Live, method: str, path: str, key: bytes | None) -> tuple[int, bytes]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        headers = {}
        if key is not None:
            headers = sign(key, method, path, b"", int(time.time()), secrets.token_hex(8))
        answer = await http.request(method, path, headers=headers)
        return answer.status_code, answer.content


async def test_refusals_cannot_be_told_apart(server: Live) -> None:
    key, stranger = new_key(), new_key()
    queue = await call(PrivateQueue.create, server.url, key=key, sender_key=public_key(key))
    deleted = await call(PrivateQueue.create, server.url)
    await call(deleted.delete)
    blocked = await call(PrivateQueue.create, server.url)
    async with server.client() as operator:
        answer = await operator.post("/v1/private/block", json={"recipient_id": blocked.id, "reason": "spam"})
        assert answer.status_code == 204
    unknown = encode(secrets.token_bytes(24))

    refusals = {
        await refusal(server, "GET", f"/v1/private/{party}/{party_id}", signer)
        for party, party_ids in {
            "recipients": [queue.id, deleted.id, blocked.id, unknown, "no-id-at-all"],
            "senders": [queue.sender_id, deleted.sender_id, unknown],
            "notifiers": [unknown],
        }.items()
        for party_id in party_ids
        for signer in (None, stranger)
    }
    refusals.add(await refusal(server, "GET", f"/v1/private/senders/{blocked.sender_id}", None))
    refusals.add(await refusal(server, "GET", f"/v1/private/links/{unknown}", None))

    assert len(refusals) == 1
    assert {status for status, _ in refusals} == {403}


async def test_the_recipient_of_a_blocked_queue_is_told_why(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    async with server.client() as operator:
        await operator.post("/v1/private/block", json={"sender_id": queue.sender_id, "reason": "spam"})

    assert (await call(queue.get))["block_reason"] == "spam"
    with pytest.raises(Conflict, match="blocked: spam"):
        await call(queue.receive)


async def test_a_signed_send_that_is_repeated_stores_nothing_more(server: Live, private_dsn: str) -> None:
    key = new_key()
    queue = await call(PrivateQueue.create, server.url, sender_key=public_key(key))
    path, body = f"/v1/private/senders/{queue.sender_id}/messages", b'{"message":"once"}'
    headers = sign(key, "POST", path, body, int(time.time()), "nonce")
    async with (
        running(store=PostgresStore(private_dsn, max_connections=4)) as other,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        answers = [
            (await http.post(url + path, content=body, headers=headers)).status_code
            for url in (server.url, server.url, other.url)
        ]

    assert answers == [201, 403, 201]
    assert len(await call(queue.receive, 10)) == 1


async def test_several_queues_are_looked_up_by_their_signed_gets(server: Live) -> None:
    key = new_key()
    queues = [await call(PrivateQueue.create, server.url, key=key) for _ in range(3)]
    wanted = [*(queue.id for queue in queues), encode(secrets.token_bytes(24))]

    def lookup(party_id: str) -> dict[str, object]:
        now = int(time.time())
        headers = sign(key, "GET", f"/v1/private/recipients/{party_id}", b"", now, "n")
        return {"id": party_id, "timestamp": now, "nonce": "n", "signature": headers["penstock-signature"]}

    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
        answer = await http.post(
            "/v1/private/recipients/lookup", json={"requests": [lookup(party_id) for party_id in wanted]}
        )

    found = {each["id"]: each["queue"] for each in answer.json()}
    assert [found[queue.id]["sender_id"] for queue in queues] == [queue.sender_id for queue in queues]
    assert found[wanted[-1]] is None


async def test_the_notifiers_endpoint_is_told_of_a_send_and_of_nothing_else(
    server: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key()
    queue = await call(PrivateQueue.create, server.url)
    notifier = PrivateNotifier(server.url, await call(queue.add_notifier, public_key(key)), key)
    with listening() as endpoint:
        await call(notifier.set_webhook, endpoint.url)
        monkeypatch.setattr(server.engine.webhooks, "_settings", WebhookSettings(allow_private=True))
        await call(PrivateSender(server.url, queue.sender_id).send, "secret")
        deliverer = Deliverer(server.engine, 0.1, enabled=True)
        try:
            async with asyncio.timeout(10):
                while not endpoint.arrivals:
                    await deliverer.once()
                    await asyncio.sleep(0.05)
        finally:
            await deliverer.close()
        [request] = endpoint.arrivals
    told = str(request)
    assert "waiting" in told
    for hidden in ("secret", queue.id, queue.sender_id):
        assert hidden not in told


async def test_creating_needs_a_token_and_the_rest_a_signature(private_dsn: str) -> None:
    async with running(mode=Mode.TOKEN, store=PostgresStore(private_dsn, max_connections=4)) as server:
        _, text = await server.engine.tenants.create_token(
            (await server.engine.tenants.list())[0].id, "maker", frozenset([Scope.MANAGE])
        )
        with pytest.raises(Forbidden):
            await call(PrivateQueue.create, server.url, "pst_wrong")
        queue = await call(PrivateQueue.create, server.url, text)
        await call(PrivateSender(server.url, queue.sender_id).send, "hello")
        assert [message.body for message in await call(queue.receive)] == ["hello"]


async def test_no_id_shows_in_metrics_or_logs(server: Live, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = new_key()
    queue = await call(PrivateQueue.create, server.url)
    notifier_id = await call(queue.add_notifier, public_key(key))
    link_id = await call(queue.set_link, b"f")
    await call(PrivateSender(server.url, queue.sender_id).send, "hello")
    await call(queue.receive)
    with pytest.raises(Forbidden):
        await call(PrivateQueue(server.url, queue.id, new_key()).get)
    async with server.client() as operator:
        shown = (await operator.get("/metrics")).text

    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    logged = "\n".join(str(vars(record)) for record in ours)
    for hidden in (queue.id, queue.sender_id, notifier_id, link_id):
        assert hidden not in shown
        assert hidden not in logged


async def test_a_message_queue_of_a_private_queue_is_out_of_reach(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    await call(PrivateSender(server.url, queue.sender_id).send, "hello")
    async with server.client() as anyone:
        names = [each["name"] for each in (await anyone.get("/v1/queues")).json()]

    assert not [name for name in names if name.startswith("private-")]


async def test_operators_count_and_keep_services(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    async with server.client() as operator:
        made = (
            await operator.post("/v1/private/services", json={"fingerprint": encode(secrets.token_bytes(32))})
        ).json()
        await call(queue.associate, made["service_id"])
        found = (await operator.get(f"/v1/private/services/{made['service_id']}")).json()
        counts = (await operator.get("/v1/private/counts")).json()
        missing = await operator.get("/v1/private/services/999999999")

    assert found["queues"] == 1
    assert counts["queues"] >= 1
    assert missing.status_code == 404


async def test_on_sqlite_the_answer_says_what_is_needed() -> None:
    async with running() as live, live.client() as anyone:
        key = encode(public_key(new_key()))
        answer = await anyone.post("/v1/private/queues", json={"queues": [{"recipient_key": key}]})

    assert answer.status_code == 501
    assert "require PostgreSQL" in answer.json()["error"]


async def head_of_a_large_body(server: Live, sender_id: str, signer: bytes | None) -> int:
    """The status that answers the head of a request, before its body is sent."""
    path = f"/v1/private/senders/{sender_id}/messages"
    signed = {} if signer is None else sign(signer, "POST", path, b"", int(time.time()), secrets.token_hex(8))
    headers = [f"{name}: {value}" for name, value in signed.items()]
    async with connected(server.port) as raw:
        answer = await raw.ask(request("POST", path, b"", "Content-Length: 10000000", "Expect: 100-continue", *headers))
    return answer.status


async def test_the_head_of_a_large_request_does_not_tell_refusals_apart(server: Live) -> None:
    secured = await call(PrivateQueue.create, server.url, sender_key=public_key(new_key()))
    blocked = await call(PrivateQueue.create, server.url)
    async with server.client() as operator:
        await operator.post("/v1/private/block", json={"sender_id": blocked.sender_id, "reason": "spam"})
    refused = [encode(secrets.token_bytes(24)), secured.sender_id, blocked.sender_id]

    unsigned = [await head_of_a_large_body(server, sender_id, None) for sender_id in refused]
    signed = [await head_of_a_large_body(server, sender_id, new_key()) for sender_id in refused]

    assert (unsigned, signed) == ([403] * 3, [100] * 3)


async def test_how_long_a_refusal_takes_does_not_tell_how_many_keys_there_are(server: Live) -> None:
    queue = await call(PrivateQueue.create, server.url)
    path = f"/v1/private/recipients/{queue.id}"
    unknown = f"/v1/private/recipients/{encode(secrets.token_bytes(24))}"
    await call(queue.replace_keys, [public_key(new_key()) for _ in range(8)])

    for refused in (path, unknown):
        began = time.monotonic()
        assert (await refusal(server, "GET", refused, new_key()))[0] == 403
        assert time.monotonic() - began >= REFUSAL_S


async def test_a_large_body_of_nobody_is_refused_by_its_head(server: Live) -> None:
    secured = await call(PrivateQueue.create, server.url, sender_key=public_key(new_key()))
    for sender_id in (encode(secrets.token_bytes(24)), secured.sender_id):
        async with connected(server.port) as raw:
            length = "Content-Length: 10000000"
            answer = await raw.ask(
                request("POST", f"/v1/private/senders/{sender_id}/messages", b"", length, "Expect: 100-continue")
            )

        assert answer.status == 403
