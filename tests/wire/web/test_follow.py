"""The page Follow, over HTTP."""

from __future__ import annotations

import httpx

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope, Send
from penstock.model.jobs import NewJob
from tests.wire.conftest import Live, running
from tests.wire.web.markup import INERT, dangers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def send(live: Live, queue: str = "orders", body: str = "x") -> int:
    await live.engine.queues.create(DEFAULT_TENANT, queue, {})
    entry = Send(tenant=DEFAULT_TENANT, queue=queue, body=body, trace=f"00-{TRACE}-00f067aa0ba902b7-01")
    return (await live.engine.messages.send(entry)).id


async def test_a_message_a_job_and_a_trace_are_followed(server: Live, client: httpx.AsyncClient) -> None:
    number = await send(server)
    job = await server.engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue="mail", payload="{}"))

    assert "Id of a message" in (await client.get("/ui/follow")).text
    by_id = (await client.get(f"/ui/follow?id={number}")).text
    assert 'href="/ui/queues/orders"' in by_id
    assert f"/ui/follow?id={TRACE}" in by_id
    assert "sent" in (await client.get(f"/ui/follow?id={TRACE}")).text
    assert "enqueued" in (await client.get(f"/ui/follow?id={job.id}")).text
    assert "Nothing with this id" in (await client.get("/ui/follow?id=none")).text
    answer = await client.get("/v1/follow", params={"id": TRACE})
    assert [step["what"] for step in answer.json()["steps"]] == ["sent", "waiting"]


async def test_what_is_asked_is_shown_inert(server: Live, client: httpx.AsyncClient) -> None:
    for text in INERT:
        page = await client.get("/ui/follow", params={"id": text})
        assert (page.status_code, dangers(page.text)) == (200, []), text


async def test_a_limited_token_follows_only_what_it_reaches() -> None:
    async with running(Mode.TOKEN) as live:
        numbers = [await send(live, queue) for queue in ("orders", "secrets")]
        scopes = frozenset({Scope.READ})
        _, text = await live.engine.tenants.create_token(DEFAULT_TENANT, "few", scopes, queues="orders")
        async with live.client(text) as client:
            assert "Nothing with this id" in (await client.get(f"/ui/follow?id={numbers[1]}")).text
            assert "secrets" not in (await client.get(f"/ui/follow?id={TRACE}")).text
            answer = await client.get("/v1/follow", params={"id": TRACE})
            assert {step["where"] for step in answer.json()["steps"]} == {"orders"}
