"""The dashboard in a real Chromium: login, forms, live updates, keyboard, narrow screens, under its own policy."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope, Send
from penstock.model.jobs import NewJob
from penstock.model.schedules import TargetKind
from tests.browser.chromium import Tab, chromium
from tests.wire.conftest import Live, running
from tests.wire.web.markup import INERT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed: make tools"),
]


@pytest.fixture
async def tab() -> AsyncIterator[Tab]:
    async with chromium() as browser:
        tab = await browser.tab()
        await tab.screen(1280, 800)
        yield tab


def submit(field: str, value: str, button: str) -> str:
    """A script that fills in a field and presses a button."""
    return (
        f"document.querySelector('{field}').value = {value!r};"
        f"[...document.querySelectorAll('button')].find(one => one.textContent.startsWith({button!r})).click()"
    )


async def test_a_person_logs_in_sends_purges_and_logs_out(tab: Tab) -> None:
    async with running(Mode.TOKEN) as live:
        scopes = frozenset({Scope.READ, Scope.SEND, Scope.RECEIVE, Scope.MANAGE})
        text = (await live.engine.tenants.create_token(DEFAULT_TENANT, "ada", scopes))[1]
        await live.engine.queues.create(DEFAULT_TENANT, "orders", {})

        await tab.go(f"{live.url}/ui/queues/orders")
        assert "A token is needed" in await tab.text()
        await tab.after(submit("[name=token]", text, "Log in"))
        assert await tab.run("document.cookie") == ""
        assert "orders" in await tab.run("document.querySelector('h1').textContent")
        await tab.after(submit("[name=body]", "hello", "Send"))
        assert "The message was sent" in await tab.text()
        await tab.after(submit("[name=confirm]", "orders", "Delete all messages"))
        assert "1 messages were deleted" in await tab.text()
        await tab.after("[...document.querySelectorAll('button')].find(b => b.textContent.includes('Log out')).click()")
        assert "A token is needed" in await tab.text()
    # The pages that ask for a token answer 403, which the browser notes.
    assert [text for text in tab.complaints if "403" not in text] == []


async def test_an_open_page_shows_a_send_and_keeps_what_is_open(tab: Tab) -> None:
    async with running() as live:
        await live.engine.queues.create(DEFAULT_TENANT, "orders", {})
        await live.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="first"))
        await tab.go(f"{live.url}/ui/queues/orders")
        await tab.run("document.querySelector('details.message').open = true")
        for text in ("second", "third"):
            await live.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body=text))
            await tab.until(f"document.body.textContent.includes('{text}')")

        assert await tab.run("document.querySelector('details.message').open")
        assert tab.complaints == []


async def test_keys_search_go_and_explain(tab: Tab) -> None:
    async with running() as live:
        await tab.go(f"{live.url}/ui/queues")
        await tab.key("/")
        assert await tab.run("document.activeElement.name") == "search"
        await tab.run("document.activeElement.blur()")
        await tab.key("?")
        assert await tab.run("document.getElementById('keys').open")
        await tab.run("document.getElementById('keys').close()")
        await tab.key("g")
        await tab.key("o")
        await tab.until("location.pathname === '/'")


async def test_an_expression_is_explained_while_it_is_typed(tab: Tab) -> None:
    async with running() as live:
        await tab.go(f"{live.url}/ui/schedules")
        await tab.run(
            "document.querySelector('details.act').open = true; document.querySelector('[name=text]').focus()"
        )
        await tab.send("Input.insertText", text="every friday at noon")
        await tab.until("document.querySelectorAll('#preview li').length === 5")
        assert await tab.run("document.activeElement.name") == "text"
        assert tab.complaints == []


async def fill(live: Live) -> list[str]:
    """Something to see on every page; the pages."""
    engine = live.engine
    for name in ("dead", "a-queue-with-a-very-long-name-that-someone-thought-would-be-helpful", "orders.fifo"):
        await engine.queues.create(DEFAULT_TENANT, name, {})
    await engine.queues.create(DEFAULT_TENANT, "orders", {"dead_letter_queue": "dead", "max_receives": 2})
    for text in INERT:
        for name in ("orders", "dead"):
            await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue=name, body=text * 20))
    job = await engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue="mail", payload='{"to":"ada"}'))
    given = {"every": "1h", "target": "orders", "target_kind": TargetKind.QUEUE}
    await engine.schedules.create(DEFAULT_TENANT, "hourly", given)
    more = ["/ui/jobs", f"/ui/jobs/{job.id}", "/ui/schedules?text=every+friday+at+noon", "/ui/schedules/hourly"]
    return [
        *more,
        "/",
        "/ui/queues",
        "/ui/queues/orders",
        "/ui/queues/dead",
        "/ui/queues/dead/redrive",
        "/docs",
        "/nowhere",
    ]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_pages_fit_the_screen_and_run_nothing_foreign(tab: Tab, width: int, dark: bool) -> None:
    async with running() as live:
        paths = await fill(live)
        await tab.screen(width, 800, dark=dark)
        for path in paths:
            await tab.go(live.url + path)
            await tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert await tab.run("document.documentElement.scrollWidth") <= width, path
            assert await tab.run("typeof window.alerted") == "undefined"
    assert [text for text in tab.complaints if "404" not in text] == []
