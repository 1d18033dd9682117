"""Connections: in which order they are answered, what they survive, how they end."""

from __future__ import annotations

import asyncio

from penstock.model import DEFAULT_TENANT, Send
from penstock.wire.http.messages import Request, Response
from tests.wire.conftest import Live, running
from tests.wire.http.parts import LIVEZ, SEND, route, until
from tests.wire.raw import Raw, connected, request

# Order and reuse


async def test_pipelined_requests_are_answered_in_order_whoever_serves_them() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.05)
        return Response(200, b"slow")

    async with running(extra=[route("/slow", slow)]) as live, connected(live.port) as raw:
        slow_one = request("POST", "/slow")
        await raw.send(slow_one + LIVEZ + request("GET", "/static/penstock.svg") + slow_one + LIVEZ)
        bodies = [(await raw.answer()).body for _ in range(5)]

        assert [bodies[0], bodies[3]] == [b"slow", b"slow"]
        assert bodies[2].startswith(b"<svg")
        assert bodies[1] == bodies[4]
        assert bodies[1].startswith(b'{"status":"ok"')


async def test_thousands_of_requests_in_one_packet_are_answered(raw: Raw) -> None:
    await raw.send(request("GET", "/readyz") + LIVEZ * 3000)
    for _ in range(3001):
        assert (await raw.answer()).status == 200


async def test_a_bad_request_waits_its_turn_to_be_refused(raw: Raw) -> None:
    await raw.send(request("GET", "/readyz") + LIVEZ + request("GET", "/livez", host=None) + LIVEZ)

    assert [(await raw.answer()).status for _ in range(3)] == [200, 200, 400]
    assert await raw.closed()


async def test_a_wrong_path_or_method_does_not_cost_the_connection(raw: Raw) -> None:
    assert (await raw.ask(request("GET", "/v1/nothing"))).status == 404
    answer = await raw.ask(request("PUT", "/v1/queues", b"abc"))

    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
    assert "connection" not in answer.headers
    assert (await raw.ask(LIVEZ)).status == 200


async def test_the_client_may_close(raw: Raw) -> None:
    answer = await raw.ask(request("GET", "/livez", b"", "Connection: close"))

    assert answer.headers["connection"] == "close"
    assert await raw.closed()


async def test_a_request_in_single_bytes_is_understood(raw: Raw) -> None:
    for byte in request("POST", "/v1/queues", b'{"name":"slowly"}'):
        await raw.send(bytes([byte]))

    assert (await raw.answer()).status == 201


async def test_head_has_the_length_and_no_body(raw: Raw) -> None:
    await raw.send(request("HEAD", "/livez"))
    answer = await raw.answer(body=False)

    assert answer.status == 200
    assert len((await raw.ask(LIVEZ)).body) == int(answer.headers["content-length"]) > 0


async def test_head_never_receives_messages(raw: Raw) -> None:
    await raw.send(request("HEAD", SEND))

    assert (await raw.answer(body=False)).status == 405


async def test_options_says_what_is_served(raw: Raw) -> None:
    answer = await raw.ask(request("OPTIONS", SEND, auth=None))

    assert (answer.status, answer.headers["allow"]) == (204, "DELETE, GET, OPTIONS, POST")


async def test_an_offer_to_upgrade_is_passed_over(raw: Raw) -> None:
    offer = request("GET", "/livez", b"", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA")

    assert (await raw.ask(offer + LIVEZ)).status == 200
    assert (await raw.answer()).status == 200
    assert (await raw.ask(LIVEZ)).status == 200


async def test_a_full_url_is_understood(raw: Raw) -> None:
    assert (await raw.ask(request("GET", "http://here/livez?x=1"))).status == 200


# Endings


async def test_a_client_that_leaves_ends_its_long_poll_at_once(server: Live, raw: Raw) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "q", {})
    await raw.send(request("GET", f"{SEND}?wait=20"))
    await until(lambda: server.engine.metrics.requests_active.values[()] == 1)

    raw.hang_up()

    await until(lambda: server.engine.metrics.requests_active.values[()] == 0)
    assert not server.uvicorn.server_state.tasks
    await server.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="q", body="kept"))
    counts = await server.engine.queues.counts(DEFAULT_TENANT, "q")
    assert (counts.visible, counts.in_flight) == (1, 0)


async def test_a_stopping_server_finishes_what_it_began() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def hold(request: Request) -> Response:
        begun.set()
        await gate.wait()
        return Response(200, b"done")

    async with (
        running(extra=[route("/hold", hold)]) as live,
        connected(live.port) as busy,
        connected(live.port) as idle,
    ):
        await idle.ask(LIVEZ)
        await busy.send(request("POST", "/hold"))
        await begun.wait()
        stopping = asyncio.create_task(live.stop())
        assert await idle.closed()
        gate.set()
        answer = await busy.answer()

        assert (answer.body, answer.headers["connection"]) == (b"done", "close")
        assert await busy.closed()
        await stopping


async def test_a_stopping_server_lets_long_polls_go_with_nothing() -> None:
    async with running() as live, connected(live.port) as raw:
        await live.engine.queues.create(DEFAULT_TENANT, "q", {})
        await raw.send(request("GET", f"{SEND}?wait=20"))
        await until(lambda: live.engine.metrics.requests_active.values[()] == 1)
        async with asyncio.timeout(3):
            await live.stop()

        assert (await raw.answer()).body == b"[]"


async def test_a_body_that_is_coming_in_is_served_before_the_stop() -> None:
    async with running() as live, connected(live.port) as raw:
        body = b'{"name":"late"}'
        await raw.send(request("POST", "/v1/queues", body)[: -len(body)])
        await until(lambda: bool(live.uvicorn.server_state.connections))
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(live.stop())
        await asyncio.sleep(0.05)

        assert (await raw.ask(body)).status == 201
        await stopping
