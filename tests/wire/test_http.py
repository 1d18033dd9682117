"""The HTTP layer by its bytes: what it lets through, what it refuses, in which order it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from penstock import web
from penstock.errors import QueueFull
from penstock.model import DEFAULT_TENANT, Send
from penstock.wire.faults import json_fault
from penstock.wire.http import HttpLimits, Request, Response, Route, Router
from penstock.wire.protocol import PenstockProtocol
from penstock.wire.traffic import Traffic
from tests.wire.conftest import Live, running
from tests.wire.raw import Raw, connected, request

LIVEZ = request("GET", "/livez")
SEND = "/v1/queues/q/messages"
TIGHT = HttpLimits(sweep_s=0.05)


@pytest.fixture
async def raw(server: Live) -> AsyncIterator[Raw]:
    async with connected(server.port) as raw:
        yield raw


def traffic(live: Live) -> Traffic:
    protocol = live.uvicorn.config.http_protocol_class
    assert issubclass(protocol, PenstockProtocol)
    return protocol.shared


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def route(path: str, handler: Callable[[Request], Response | Awaitable[Response]], *, body_bytes: int = 100) -> Route:
    return Route("POST", path, handler, fault=json_fault, body_bytes=body_bytes, open=True)


# What servers let through


async def test_length_and_transfer_encoding_together_are_refused(raw: Raw) -> None:
    answer = await raw.ask(request("POST", SEND, b"{}", "Transfer-Encoding: chunked"))

    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert await raw.closed()


@pytest.mark.parametrize("path", ["/livez", "/docs"])
async def test_a_request_without_host_is_refused_whoever_serves_the_path(raw: Raw, path: str) -> None:
    answer = await raw.ask(request("GET", path, host=None))

    assert (answer.status, answer.json["code"], answer.json["field"]) == (400, "HostRequired", "host")


HOME = HttpLimits(home_only=True, hosts=frozenset({"queues.example.org"}))


@pytest.mark.parametrize("path", ["/livez", "/docs", "/v1/queues"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9324", "127.0.0.1.evil.example", "localhost.evil.example"]
)
async def test_a_server_at_home_does_not_answer_to_a_strangers_name(host: str, path: str) -> None:
    async with running(limits=HOME) as live, connected(live.port) as raw:
        answer = await raw.ask(request("GET", path, host=host))

        assert (answer.status, answer.json["code"], answer.json["field"]) == (403, "HostNotAllowed", "host")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:9324",
        "127.0.0.1:9324",
        "[::1]:9324",
        "penstock:9324",
        "sqs.localhost",
        "queues.example.org",
    ],
)
async def test_a_server_at_home_answers_to_names_of_its_machine(host: str) -> None:
    async with running(limits=HOME) as live, connected(live.port) as raw:
        assert (await raw.ask(request("GET", "/livez", host=host))).status == 200


async def test_http_1_0_needs_no_host_and_closes(raw: Raw) -> None:
    answer = await raw.ask(b"GET /livez HTTP/1.0\r\n\r\n")

    assert answer.status == 200
    assert await raw.closed()


async def test_another_version_is_refused(raw: Raw) -> None:
    assert (await raw.ask(b"GET /livez HTTP/2.0\r\nHost: here\r\n\r\n")).status in (400, 505)


@pytest.mark.parametrize("path", ["/livez", "/docs"])
async def test_a_header_of_a_megabyte_is_refused(raw: Raw, path: str) -> None:
    await raw.send(request("GET", path, b"", "X-Long: " + "a" * 1_000_000))
    answer = await raw.answer()

    assert answer.status == 431
    assert await raw.closed()


async def test_an_unfinished_header_is_refused_as_soon_as_it_is_too_long(raw: Raw) -> None:
    await raw.send(b"GET /livez HTTP/1.1\r\nHost: here\r\nX-Long: ")
    for _ in range(60):
        await raw.send(b"a" * 1000)

    assert (await raw.answer()).status == 431


async def test_an_endless_trailer_is_refused() -> None:
    async with running(extra=[route("/slow", lambda _: Response())]) as live, connected(live.port) as raw:
        await raw.send(request("POST", "/slow", b"", "Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\nX-Long: ")
        for _ in range(60):
            await raw.send(b"a" * 1000)

        assert (await raw.answer()).status == 431


async def test_twenty_thousand_headers_are_refused(raw: Raw) -> None:
    await raw.send(request("GET", "/livez", b"", *(f"X-{number}: 1" for number in range(20_000))))

    assert (await raw.answer()).status == 431


async def test_a_hundred_headers_pass_and_one_more_does_not(server: Live) -> None:
    for count, status in ((98, 200), (99, 431)):
        async with connected(server.port) as raw:
            assert (await raw.ask(request("GET", "/livez", b"", *(f"X-{n}: 1" for n in range(count))))).status == status


async def test_header_bytes_are_counted_when_they_come_in_one_packet(raw: Raw) -> None:
    answer = await raw.ask(request("GET", "/livez", b"", *(f"X-{number}: {'a' * 1000}" for number in range(40))))

    assert answer.status == 431


@pytest.mark.parametrize("path", ["/livez", "/docs"])
async def test_a_long_url_is_refused(raw: Raw, path: str) -> None:
    assert (await raw.ask(request("GET", f"{path}?{'a' * 9000}"))).status == 414


@pytest.mark.parametrize("name", ["Host: there", "Authorization: Bearer y"])
async def test_what_decides_about_a_request_is_said_once(raw: Raw, name: str) -> None:
    answer = await raw.ask(request("GET", "/v1/queues", b"", name))

    assert (answer.status, answer.json["code"]) == (400, "RepeatedHeader")


async def test_only_chunked_is_understood(raw: Raw) -> None:
    assert (await raw.ask(request("POST", SEND, b"", "Transfer-Encoding: gzip, chunked"))).status == 501


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"get / HTTP/1.1\r\n\r\n"])
async def test_garbage_is_answered_with_400(raw: Raw, garbage: bytes) -> None:
    answer = await raw.ask(garbage)

    assert (answer.status, answer.json["code"]) == (400, "InvalidRequest")
    assert await raw.closed()


# Bodies


async def test_a_body_is_refused_by_its_length_before_it_is_sent(raw: Raw) -> None:
    answer = await raw.ask(request("POST", "/v1/queues", b"", "Content-Length: 300000", "Expect: 100-continue"))

    assert (answer.status, answer.json["field"]) == (413, "body")
    assert answer.headers["connection"] == "close"


async def test_the_refusal_of_a_large_body_reaches_a_client_that_goes_on_sending(raw: Raw) -> None:
    await raw.send(request("POST", "/v1/queues", b"x" * 3_000_000))

    assert (await raw.answer()).status == 413


async def test_a_chunked_body_is_counted_as_it_comes(raw: Raw) -> None:
    await raw.send(request("POST", "/v1/queues", b"", "Transfer-Encoding: chunked"))
    for _ in range(30):
        await raw.send(b"2710\r\n" + b"x" * 10_000 + b"\r\n")

    assert (await raw.answer()).status == 413


async def test_a_body_for_the_web_pages_is_capped_too(raw: Raw) -> None:
    assert (await raw.ask(request("POST", "/docs", b"", "Content-Length: 100000"))).status == 413


async def test_chunks_are_put_together() -> None:
    seen: list[bytes] = []

    def handler(request: Request) -> Response:
        seen.append(bytes(request.body))
        return Response()

    async with running(extra=[route("/echo", handler)]) as live, connected(live.port) as raw:
        head = request("POST", "/echo", b"", "Transfer-Encoding: chunked")
        answer = await raw.ask(head + b"3\r\nabc\r\n2;note=1\r\nde\r\n1\r\nf\r\n0\r\nX-Trailer: 1\r\n\r\n")

        assert (answer.status, seen) == (200, [b"abcdef"])
        assert (await raw.ask(LIVEZ)).status == 200
        assert traffic(live).buffered == 0


async def test_a_client_that_expects_to_be_asked_for_the_body_is_asked() -> None:
    echo = route("/echo", lambda request: Response(200, bytes(request.body)))
    async with running(extra=[echo]) as live, connected(live.port) as raw:
        await raw.send(request("POST", "/echo", b"", "Content-Length: 2", "Expect: 100-continue"))

        assert (await raw.answer()).status == 100
        assert (await raw.ask(b"ok")).body == b"ok"


async def test_large_bodies_share_one_budget() -> None:
    limits = HttpLimits(buffered_bytes=1_000_000)
    big = route("/big", lambda _: Response(), body_bytes=10_000_000)
    async with running(limits=limits, extra=[big]) as live, connected(live.port) as raw:
        await raw.send(request("POST", "/big", b"x" * 3_000_000))

        assert (await raw.answer()).status == 503
        raw.hang_up()
        await until(lambda: traffic(live).buffered == 0)


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
        assert bodies[1] == bodies[4] == b'{"status":"ok"}'


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

    assert (answer.status, answer.headers["content-length"]) == (200, "15")
    assert (await raw.ask(LIVEZ)).body == b'{"status":"ok"}'


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


# Web pages


async def test_a_page_may_come_in_pieces() -> None:
    async def app(scope: web.Event, receive: web.Receive, send: web.Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for piece in (b"one ", b"two ", b"three"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with running(app=app) as live, connected(live.port) as raw:
        answer = await raw.ask(request("GET", "/events"))

        assert (answer.headers["content-type"], answer.headers["connection"]) == ("text/event-stream", "close")
        assert await raw.rest() == b"one two three"


async def test_a_page_in_pieces_outlives_the_deadline_and_ends_with_its_reader() -> None:
    ended = asyncio.Event()

    async def app(scope: web.Event, receive: web.Receive, send: web.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    limits = replace(TIGHT, handler_s=0.1)
    async with running(app=app, limits=limits) as live, connected(live.port) as raw:
        await raw.ask(request("GET", "/events"))
        await asyncio.sleep(0.3)
        assert not ended.is_set()

        raw.hang_up()
        await asyncio.wait_for(ended.wait(), 5)


@pytest.mark.parametrize("starts", [True, False])
async def test_a_page_that_fails_is_a_500(starts: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: web.Event, receive: web.Receive, send: web.Send) -> None:
        if starts:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("broken page")

    async with running(app=app) as live, connected(live.port) as raw:
        assert (await raw.ask(request("GET", "/page"))).status == 500
        assert (await raw.ask(LIVEZ)).status == 200
    assert "broken page" in caplog.text


async def test_a_page_has_a_deadline() -> None:
    async def app(scope: web.Event, receive: web.Receive, send: web.Send) -> None:
        await asyncio.sleep(60)

    async with running(app=app, limits=replace(TIGHT, handler_s=0.1)) as live, connected(live.port) as raw:
        assert (await raw.ask(request("GET", "/page"))).status == 408


async def test_a_page_sees_the_request_as_it_came() -> None:
    seen: list[web.Event] = []

    async def app(scope: web.Event, receive: web.Receive, send: web.Send) -> None:
        seen.extend([scope, await receive()])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with running(app=app) as live, connected(live.port) as raw:
        await raw.ask(request("POST", "/a%20b?x=1", b"hello", "X-Twice: 1", "X-Twice: 2"))

    [scope, event] = seen
    assert (scope["method"], scope["path"], scope["raw_path"], scope["query_string"]) == (
        "POST",
        "/a b",
        b"/a%20b",
        b"x=1",
    )
    assert [value for name, value in scope["headers"] if name == b"x-twice"] == [b"1", b"2"]
    assert (event["body"], event["more_body"]) == (b"hello", False)


# Who asks, and for what


async def test_without_an_authorization_header_a_route_is_forbidden(raw: Raw) -> None:
    answer = await raw.ask(request("GET", "/v1/queues", auth=None))

    assert (answer.status, answer.json["code"]) == (403, "Forbidden")


async def test_every_answer_names_its_request(raw: Raw) -> None:
    for path in ("/livez", "/docs", "/v1/nothing"):
        given = await raw.ask(request("GET", path, b"", "X-Request-Id: abc.1-_"))
        made = await raw.ask(request("GET", path, b"", "X-Request-Id: not valid"))

        assert given.headers["x-request-id"] == "abc.1-_"
        assert made.headers["x-request-id"] not in ("", "not valid")
        assert made.headers["x-content-type-options"] == "nosniff"


async def test_what_nobody_foresaw_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Request) -> Response:
        raise RuntimeError("the secret of the house")

    async with running(extra=[route("/broken", broken)]) as live, connected(live.port) as raw:
        answer = await raw.ask(request("POST", "/broken", b"payload", "X-Request-Id: r1"))

    assert answer.status == 500
    assert answer.json == {"error": "Internal error", "code": "InternalError", "request_id": "r1"}
    assert "the secret of the house" in caplog.text
    assert "payload" not in caplog.text


async def test_a_door_may_put_errors_its_own_way() -> None:
    def full(request: Request) -> Response:
        raise QueueFull()

    own = Route("POST", "/own", full, fault=lambda error, _: Response(418, type(error).__name__.encode()), open=True)
    async with running(extra=[own]) as live, connected(live.port) as raw:
        answer = await raw.ask(request("POST", "/own"))

    assert (answer.status, answer.body) == (418, b"QueueFull")


async def test_the_access_log_tells_the_route_and_nothing_private(
    server: Live, raw: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "penstock.access"):
        await raw.ask(request("GET", f"{SEND}?max=7", b"", "X-Request-Id: r1"))

    [record] = [record for record in caplog.records if record.name == "penstock.access"]
    assert (record.method, record.route, record.status, record.request_id) == (  # type: ignore[attr-defined]
        "GET",
        "/v1/queues/{name}/messages",
        404,
        "r1",
    )
    assert "max=7" not in str(vars(record))


# Endings


async def test_a_client_that_leaves_ends_its_long_poll_at_once(server: Live, raw: Raw) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "q", {})
    await raw.send(request("GET", f"{SEND}?wait=20"))
    await until(lambda: server.engine.insights.requests_active.values[()] == 1)

    raw.hang_up()

    await until(lambda: server.engine.insights.requests_active.values[()] == 0)
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
        await until(lambda: live.engine.insights.requests_active.values[()] == 1)
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


# The router


def found(router: Router, method: str, path: str) -> tuple[str | None, list[str]]:
    asked = Request(method, path, b"", [], True)
    router.match(asked)
    return (asked.route.path if asked.route else None), asked.arguments


def test_the_router_prefers_the_literal_and_decodes_after_splitting() -> None:
    def nothing(request: Request) -> Response:
        return Response()

    router = Router(
        [Route("GET", path, nothing, fault=json_fault) for path in ("/v1/a/{x}", "/v1/a/b", "/v1/a/{x}/c", "/{y}/z")],
        ["v1"],
    )

    assert found(router, "GET", "/v1/a/b") == ("/v1/a/b", [])
    assert found(router, "GET", "/v1/a/b%2Fc") == ("/v1/a/{x}", ["b/c"])
    assert found(router, "GET", "/q/z") == ("/{y}/z", ["q"])
    assert found(router, "POST", "/q/z")[0] is None
    assert found(router, "GET", "/elsewhere")[0] is None


def test_a_route_cannot_be_served_twice() -> None:
    twice = Route("GET", "/v1/a", lambda _: Response(), fault=json_fault)
    with pytest.raises(ValueError, match="twice"):
        Router([twice, twice], ["v1"])
