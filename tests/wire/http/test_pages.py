"""Web pages, which the HTTP layer hands to an application."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock import web
from tests.wire.conftest import running
from tests.wire.http.parts import LIVEZ, TIGHT
from tests.wire.raw import connected, request


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
