"""An agent repairs a queue and a job from end to end: in memory, over standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn

from penstock.client import AsyncClient
from penstock.clock import FakeClock
from penstock.errors import Invalid
from tests.mcp_server.test_tools import agent, call
from tests.mcp_server.world import furnish
from tests.plain import PLAIN
from tests.system.serving import environment
from tests.wire.conftest import Live, running
from tests.wire.prompt import PromptServer

if TYPE_CHECKING:
    from mcp.client import Client


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running() as found:
        async with found.client() as http:
            await furnish(http, streams=False)
        yield found


async def problems(client: Client) -> set[tuple[str, str]]:
    found = await call(client, "overview", stuck_after=3600)
    return {(one["kind"], one["name"]) for one in found["problems"]}


async def repair_a_queue(client: Client) -> None:
    """Three orders failed. One can never succeed and is deleted; the others go back."""
    assert ("dead letters", "orders-failed") in await problems(client)
    failed = await call(client, "get_queue", queue="orders-failed")
    assert (failed["visible"], failed["dead_letters_of"]) == (3, ["orders"])
    letters = (await call(client, "peek_messages", queue="orders-failed"))["messages"]
    assert {(one["message"]["order"], one["dead_letter_source"]) for one in letters} == {
        (n, "orders") for n in range(3)
    }
    [poison] = [one["id"] for one in letters if one["message"]["order"] == 1]

    await call(client, "delete_message", queue="orders-failed", message_id=poison)
    others = [one["id"] for one in letters if one["id"] != poison]
    await call(client, "redrive_dead_letters", queue="orders-failed", message_ids=others)

    assert ("dead letters", "orders-failed") not in await problems(client)
    assert (await call(client, "get_queue", queue="orders"))["visible"] == 2


async def repair_a_job(client: Client, http: httpx.AsyncClient) -> None:
    """A job is dead because of its address; once the cause is repaired it runs again, and succeeds."""
    assert ("dead jobs", "emails") in await problems(client)
    [dead] = (await call(client, "list_jobs", queue="emails", status="dead"))["jobs"]
    detail = await call(client, "get_job", job_id=dead["id"])
    assert [one["error"] for one in detail["attempts"]] == ["SMTPRecipientsRefused: no such mailbox"]
    assert (await call(client, "get_job_queue", queue="emails"))["limits"]["concurrency"] == 2

    assert await call(client, "retry_dead_jobs", queue="emails", job_ids=[dead["id"]]) == {"requeued": 1}
    leased = (await http.post("/queues/emails/lease", json={"worker_id": "w2"})).json()
    await http.post(f"/jobs/{dead['id']}/ack", json={"lease_token": leased["lease_token"], "result": {"sent": True}})

    repaired = await call(client, "get_job", job_id=dead["id"])
    assert (repaired["status"], repaired["result"]) == ("completed", {"sent": True})
    assert ("dead jobs", "emails") not in await problems(client)


async def test_an_agent_finds_out_why_a_queue_is_stuck() -> None:
    """A message that no receiver survives stands at the front; behind a limit of one job, a job hangs."""
    clock = FakeClock()
    async with running(clock=clock) as live, live.client() as http, agent(live, allow_writes=True) as client:
        await http.post("/v1/queues", json={"name": "payments", "visibility_timeout": 60})
        for number in range(3):
            await http.post("/v1/queues/payments/messages", json={"message": {"payment": number}})
        for _ in range(4):
            await http.get("/v1/queues/payments/messages")
            clock.advance(seconds=61)
        await http.put("/queues/thumbnails/limits", json={"concurrency": 1})
        for number in range(2):
            await http.post("/jobs", json={"queue_name": "thumbnails", "payload": {"picture": number}})
        hanging = (await http.post("/queues/thumbnails/lease", json={"worker_id": "w1", "lease_seconds": 3600})).json()
        clock.advance(seconds=400)

        found = await call(client, "overview", stuck_after=300)
        assert {(one["kind"], one["name"]) for one in found["problems"]} == {
            *(("queue", "payments"), ("jobs", "thumbnails")),
        }

        queue = await call(client, "get_queue", queue="payments")
        assert (queue["visible"], queue["settings"]["max_receives"]) == (3, None)
        messages = (await call(client, "peek_messages", queue="payments"))["messages"]
        [poison] = [one for one in messages if one["read_count"] == 4]
        assert (poison["message"], [one["read_count"] for one in messages]) == ({"payment": 0}, [4, 0, 0])
        await call(client, "delete_message", queue="payments", message_id=poison["id"])
        received = (await http.get("/v1/queues/payments/messages?max=3")).json()
        assert [one["message"]["payment"] for one in received] == [1, 2]

        queue = await call(client, "get_job_queue", queue="thumbnails")
        counts = queue["counts"]
        assert (queue["limits"]["concurrency"], counts["pending"], counts["processing"]) == (1, 1, 1)
        [running_job] = (await call(client, "list_jobs", queue="thumbnails", status="processing"))["jobs"]
        assert (running_job["id"], running_job["worker_id"]) == (hanging["job"]["id"], "w1")
        await call(client, "set_job_limits", queue="thumbnails", concurrency=2)
        leased = await http.post("/queues/thumbnails/lease", json={"worker_id": "w2"})
        assert leased.json()["job"]["payload"] == {"picture": 1}

        for one in received:
            await http.delete(f"/v1/queues/payments/messages/{one['id']}")
        assert (await call(client, "overview", stuck_after=300))["problems"] == []


async def whole_session(client: Client, live: Live) -> None:
    async with live.client() as http:
        await repair_a_queue(client)
        await repair_a_job(client, http)


async def test_an_agent_repairs_a_queue_and_a_job(live: Live) -> None:
    async with agent(live, allow_writes=True) as client:
        await whole_session(client, live)


async def test_the_same_over_standard_input_and_output(live: Live) -> None:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    arguments = ["-m", "penstock", "mcp", "--url", live.url, "--allow-writes"]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=environment())

    async with Client(command) as client:
        await whole_session(client, live)


@asynccontextmanager
async def over_http(live: Live) -> AsyncIterator[int]:
    from penstock.mcp_server import create
    from penstock.mcp_server.serving import http_app

    bound = socket.create_server(("127.0.0.1", 0))
    port = int(bound.getsockname()[1])
    async with AsyncClient(live.url, "anyone") as api:
        app = http_app(create(api, "0", allow_writes=True), port)
        server = PromptServer(uvicorn.Config(app, log_config=None))
        # Not serve(): that would take the signals of the test run for itself.
        serving = asyncio.create_task(server._serve([bound]))
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield port
        finally:
            server.stop()
            await serving


async def test_the_same_over_http(live: Live) -> None:
    from mcp.client import Client

    async with over_http(live) as port, Client(f"http://127.0.0.1:{port}/mcp") as client:
        await whole_session(client, live)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:80"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
async def test_other_hosts_and_origins_are_refused(live: Live, headers: dict[str, str], status: int) -> None:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"accept": "application/json, text/event-stream"}
    async with over_http(live) as port, httpx.AsyncClient(trust_env=False, verify=PLAIN) as http:
        answer = await http.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=accept | headers)

    assert answer.status_code == status


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_loopback_addresses_are_served(host: str) -> None:
    from penstock.mcp_server.serving import check_loopback

    check_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_other_addresses_are_not(host: str) -> None:
    from penstock.mcp_server.serving import check_loopback

    with pytest.raises(Invalid, match="loopback"):
        check_loopback(host)
