"""Live pages: what a stream of events carries, and what an open page costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from penstock.auth import REMEMBER_S, Mode
from penstock.clock import FakeClock
from penstock.engine.queues.queues import Queues
from penstock.errors import Unavailable
from penstock.model import DEFAULT_TENANT, Scope, Send
from penstock.web.live import Streams
from penstock.web.shared import Shared
from tests.wire.conftest import Live, running

STREAM = {"accept": "text/html, text/event-stream"}


@asynccontextmanager
async def events(client: httpx.AsyncClient, path: str) -> AsyncIterator[AsyncIterator[str]]:
    """The data of the events of a page."""
    async with client.stream("GET", f"{path}?live=1", headers=STREAM, timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _read(answer)


async def _read(answer: httpx.Response) -> AsyncIterator[str]:
    lines: list[str] = []
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            lines.append(line.removeprefix("data: "))
        elif not line and lines:
            yield "\n".join(lines)
            lines = []


async def test_a_send_shows_on_an_open_page(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    async with events(client, "/ui/queues/orders") as changes:
        first = await anext(changes)
        await server.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="fresh"))
        second = await anext(changes)

    assert "No message is visible" in first
    assert "fresh" in second
    assert "<html" not in second


async def test_a_revoked_token_ends_its_streams(clock: FakeClock) -> None:
    async with running(Mode.TOKEN, clock=clock) as live:
        made, text = await live.engine.tenants.create_token(DEFAULT_TENANT, "r", frozenset({Scope.READ}))
        async with live.client(text) as client, events(client, "/") as changes:
            await anext(changes)
            await live.engine.tenants.revoke_token(made.id)
            clock.advance(seconds=REMEMBER_S + 1)
            assert [change async for change in changes] == []
        async with live.client("nothing") as client:
            assert (await client.get("/?live=1", headers=STREAM)).status_code == 403


async def test_many_viewers_ask_the_database_once(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    usual = Queues.all_counts

    async def counted(queues: Queues, tenant: object) -> object:
        nonlocal asked
        asked += 1
        return await usual(queues, DEFAULT_TENANT)

    monkeypatch.setattr(Queues, "all_counts", counted)
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    async with server.client() as client:
        await asyncio.gather(*(client.get(path) for path in ["/", "/ui/queues"] * 10))

    assert asked <= 2


async def test_an_answer_that_took_long_is_kept_longer() -> None:
    now, asked = 0.0, 0

    async def ask() -> int:
        nonlocal now, asked
        now += 2
        asked += 1
        return asked

    shared = Shared(lambda: now)
    assert await shared.get("key", 1, ask) == 1
    now += 19
    assert await shared.get("key", 1, ask) == 1
    now += 2
    assert await shared.get("key", 1, ask) == 2
    shared.forget()
    assert await shared.get("key", 1, ask) == 3


async def test_a_failed_question_is_asked_again() -> None:
    shared = Shared()

    async def fail() -> int:
        raise Unavailable()

    async def answer() -> int:
        return 1

    with pytest.raises(Unavailable):
        await shared.get("key", 1, fail)
    assert await shared.get("key", 1, answer) == 1


async def test_more_streams_than_allowed_are_told_to_come_later() -> None:
    streams = Streams(every_s=0, most=1)

    async def part() -> str:
        return "text"

    first, second = streams._events(part), streams._events(part)
    assert [await anext(first), await anext(first)] == [": open\n\n", "data: text\n\n"]
    assert [event async for event in second] == ["event: busy\nretry: 30000\ndata: \n\n"]
    await first.aclose()  # type: ignore[attr-defined]
    assert streams.open == 0
