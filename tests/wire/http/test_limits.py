"""Deadlines, and how many may come at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.messages import Request, Response
from tests.wire.conftest import running
from tests.wire.http.parts import LIVEZ, SEND, TIGHT, route, traffic, until
from tests.wire.raw import Raw, connected, request

# Deadlines


async def test_headers_have_a_deadline() -> None:
    async with running(limits=replace(TIGHT, header_s=0.1)) as live, connected(live.port) as raw:
        await raw.send(b"GET /livez HTTP/1.1\r\nHost: he")

        assert (await raw.answer()).status == 408
        assert await raw.closed()


async def test_bytes_now_and_then_do_not_move_the_deadline() -> None:
    async with running(limits=replace(TIGHT, header_s=0.2)) as live, connected(live.port) as raw:
        await raw.send(b"GET /livez HTTP/1.1\r\n")
        for _ in range(8):
            await raw.send(b"X: y\r\n")
            await asyncio.sleep(0.05)

        assert (await raw.answer()).status == 408


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with running(limits=replace(TIGHT, header_s=0.1)) as live, connected(live.port) as raw:
        assert await raw.closed()


async def _send_for_ever(raw: Raw, data: bytes) -> None:
    while True:
        await raw.send(data)
        await asyncio.sleep(0.02)


async def test_empty_lines_do_not_keep_a_connection_open() -> None:
    async with running(limits=replace(TIGHT, header_s=0.1)) as live, connected(live.port) as raw:
        sending = asyncio.create_task(_send_for_ever(raw, b"\r\n"))
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(sending, 5)


@pytest.mark.parametrize("path", [SEND, "/docs"])
async def test_a_body_has_a_deadline(path: str) -> None:
    async with running(limits=replace(TIGHT, body_s=0.1)) as live, connected(live.port) as raw:
        await raw.send(request("POST", path, b"", "Content-Length: 10") + b"x")

        assert (await raw.answer()).status == 408


async def test_an_idle_connection_is_closed() -> None:
    async with running(limits=replace(TIGHT, keep_alive_s=0.1)) as live, connected(live.port) as raw:
        assert (await raw.ask(LIVEZ)).status == 200
        assert await raw.closed()


async def test_a_handler_has_a_deadline_and_the_connection_survives_it() -> None:
    async def sleepy(request: Request) -> Response:
        await asyncio.sleep(60)
        return Response()

    limits = replace(TIGHT, handler_s=0.1)
    async with running(limits=limits, extra=[route("/sleep", sleepy)]) as live, connected(live.port) as raw:
        assert (await raw.ask(request("POST", "/sleep"))).status == 408
        assert (await raw.ask(LIVEZ)).status == 200


async def test_a_handler_that_waits_on_purpose_has_its_wait_on_top() -> None:
    async def patient(request: Request) -> Response:
        request.wait_s = 5
        await asyncio.sleep(0.3)
        return Response()

    limits = replace(TIGHT, handler_s=0.1)
    async with running(limits=limits, extra=[route("/wait", patient)]) as live, connected(live.port) as raw:
        assert (await raw.ask(request("POST", "/wait"))).status == 200


async def test_a_client_that_takes_nothing_is_dropped() -> None:
    huge = route("/huge", lambda _: Response(200, b"x" * 30_000_000))
    async with running(limits=replace(TIGHT, write_s=0.1), extra=[huge]) as live, connected(live.port) as raw:
        await raw.send(request("POST", "/huge"))

        await until(lambda: live.uvicorn.server_state.total_requests == 1)
        await until(lambda: not live.uvicorn.server_state.connections)


# Counts


async def test_connections_are_capped() -> None:
    async with running(limits=HttpLimits(connections=1)) as live, connected(live.port) as first:
        assert (await first.ask(LIVEZ)).status == 200
        async with connected(live.port) as second:
            answer = await second.answer()

        assert (answer.status, answer.json["code"]) == (503, "TooManyConnections")


async def test_connections_of_one_address_are_capped_and_counted_back() -> None:
    async with running(limits=HttpLimits(connections_per_address=1)) as live:
        async with connected(live.port) as first, connected(live.port) as second:
            assert (await first.ask(LIVEZ)).status == 200
            assert (await second.answer()).status == 503
        await until(lambda: not traffic(live).addresses)


async def test_requests_in_flight_are_capped() -> None:
    gate = asyncio.Event()

    async def hold(request: Request) -> Response:
        await gate.wait()
        return Response()

    async with (
        running(limits=HttpLimits(requests_in_flight=1), extra=[route("/hold", hold)]) as live,
        connected(live.port) as first,
        connected(live.port) as second,
    ):
        await first.send(request("POST", "/hold"))
        await until(lambda: traffic(live).active[()] == 1)

        assert (await second.ask(LIVEZ)).status == 503
        assert (await second.ask(request("GET", "/docs"))).status == 503
        gate.set()
        assert (await first.answer()).status == 200
        assert (await second.ask(LIVEZ)).status == 200
        assert traffic(live).active[()] == 0


@pytest.mark.parametrize("path", ["/v1/queues", "/jobs", "/", "/docs"])
async def test_a_server_that_is_too_busy_says_when_to_come_back(path: str) -> None:
    async with running(limits=replace(TIGHT, requests_in_flight=0)) as live, connected(live.port) as raw:
        answer = await raw.ask(request("POST", path, b"{}", "X-Amz-Target: AmazonSQS.ListQueues"))

        assert (answer.status, answer.headers.get("retry-after")) == (503, "1")


async def test_what_a_door_says_about_when_to_come_back_is_said_once() -> None:
    slow = Response(429, headers=((b"retry-after", b"7"),))
    async with running(extra=[route("/slow", lambda _: slow)]) as live, connected(live.port) as raw:
        await raw.send(request("POST", "/slow", b"", "Connection: close"))

        assert (await raw.rest()).count(b"retry-after") == 1
