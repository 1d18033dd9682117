"""Login with a token: the session, what it reaches, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from penstock.auth import REMEMBER_S, Mode
from penstock.clock import FakeClock
from penstock.model import DEFAULT_TENANT, Scope, Send
from penstock.web.security import local_path
from tests.plain import PLAIN
from tests.wire.conftest import Live, running

EVERYTHING = frozenset({Scope.READ, Scope.SEND, Scope.RECEIVE, Scope.MANAGE})


@pytest.fixture
async def locked(clock: FakeClock) -> AsyncIterator[Live]:
    async with running(Mode.TOKEN, clock=clock) as live:
        yield live


def browser(live: Live) -> httpx.AsyncClient:
    """Keeps cookies, and says of its requests what a browser says of those of our own pages."""
    headers = {"sec-fetch-site": "same-origin", "origin": live.url}
    return httpx.AsyncClient(base_url=live.url, headers=headers, trust_env=False, verify=PLAIN)


async def token(live: Live, scopes: frozenset[Scope] = EVERYTHING, queues: str = "*", tenant: str = "") -> str:
    owner = (await live.engine.tenants.create(tenant)).id if tenant else DEFAULT_TENANT
    return (await live.engine.tenants.create_token(owner, "ada", scopes, queues=queues))[1]


async def log_in(client: httpx.AsyncClient, text: str, target: str = "/") -> httpx.Response:
    return await client.post("/ui/session/login", data={"token": text, "next": target})


async def test_a_token_opens_a_session_that_ends_with_logout(locked: Live) -> None:
    async with browser(locked) as client:
        before = await client.get("/ui/queues?search=x")
        answer = await log_in(client, await token(locked), "/ui/queues?search=x")
        inside = await client.get("/ui/queues")
        out = await client.post("/ui/session/logout")
        after = await client.get("/ui/queues")

    assert (before.status_code, 'value="/ui/queues?search=x"' in before.text) == (403, True)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/queues?search=x")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    assert (inside.status_code, "Log out ada" in inside.text) == (200, True)
    assert out.status_code == 303
    assert after.status_code == 403


async def test_a_server_behind_https_marks_its_cookie_secure() -> None:
    async with running(Mode.TOKEN, base_url="https://queues.example.com") as live, browser(live) as client:
        text = await token(live)
        client.headers["origin"] = "https://queues.example.com"
        answer = await log_in(client, text)

    assert answer.status_code == 303
    assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("text", ["", "pst_00000000_wrong", "pst_\N{SNOWMAN}", "a\r\nb", "x" * 5000])
async def test_a_wrong_token_opens_nothing(locked: Live, text: str) -> None:
    async with browser(locked) as client:
        answer = await log_in(client, text)

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text


async def test_a_token_that_may_not_read_opens_nothing(locked: Live) -> None:
    async with browser(locked) as client:
        answer = await log_in(client, await token(locked, frozenset({Scope.SEND})))

    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


async def test_revoking_a_token_ends_its_session(locked: Live, clock: FakeClock) -> None:
    async with browser(locked) as client:
        await log_in(client, await token(locked))
        assert (await client.get("/")).status_code == 200
        [found] = await locked.engine.tenants.list_tokens()
        await locked.engine.tenants.revoke_token(found.id)
        clock.advance(seconds=REMEMBER_S + 1)

        assert (await client.get("/")).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "same-site"},
        {},
    ],
)
async def test_a_form_of_another_site_changes_nothing(locked: Live, headers: dict[str, str]) -> None:
    await locked.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await locked.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="kept"))
    async with browser(locked) as client:
        await log_in(client, await token(locked))
        del client.headers["origin"], client.headers["sec-fetch-site"]
        answers = [
            await client.post("/ui/queues/orders/purge", data={"confirm": "orders"}, headers=headers),
            await client.post("/ui/session/logout", headers=headers),
        ]

    assert [answer.status_code for answer in answers] == [400, 400]
    assert (await locked.engine.queues.counts(DEFAULT_TENANT, "orders")).visible == 1


@pytest.mark.parametrize("text", ["//evil.example", "/\\evil.example", "https://evil.example", "x", "/a\nb", ""])
def test_login_leads_nowhere_else(text: str) -> None:
    assert local_path(text) == "/"


PAGES = ["/ui/queues/theirs", "/ui/queues/theirs/redrive"]
FORMS = {
    "send": {"body": "x"},
    "settings": {"retention_s": "60"},
    "purge": {"confirm": "theirs"},
    "drop": {"confirm": "theirs"},
    "message/delete": {"id": "1"},
    "redrive/start": {},
    "redrive/cancel": {"task": "1"},
}


@pytest.mark.parametrize("tenant", ["another", ""], ids=["another tenant", "a queue out of reach"])
async def test_a_session_sees_and_changes_nothing_of_others(locked: Live, tenant: str) -> None:
    await locked.engine.queues.create(DEFAULT_TENANT, "theirs", {})
    await locked.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="theirs", body="secret"))
    async with browser(locked) as client:
        await log_in(client, await token(locked, queues="*" if tenant else "mine-*", tenant=tenant))
        lists = [await client.get(path) for path in ("/", "/ui/queues", "/ui/queues?search=their&sort=visible")]
        pages = [await client.get(path) for path in PAGES]
        forms = [await client.post(f"/ui/queues/theirs/{path}", data=data) for path, data in FORMS.items()]
        made = await client.post("/ui/queues/new/create", data={"name": "theirs-too"})

    assert all(answer.status_code == 200 and "/ui/queues/theirs" not in answer.text for answer in lists)
    refused = 404 if tenant else 403
    assert {answer.status_code for answer in [*pages, *forms]} == {refused}
    assert all("secret" not in answer.text for answer in [*pages, *forms])
    assert made.status_code == (303 if tenant else 403)
    counts = await locked.engine.queues.counts(DEFAULT_TENANT, "theirs")
    assert (counts.visible, counts.sent) == (1, 1)


async def test_scopes_decide_what_a_session_may_do(locked: Live) -> None:
    await locked.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await locked.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="secret"))
    async with browser(locked) as client:
        await log_in(client, await token(locked, frozenset({Scope.READ})))
        page = await client.get("/ui/queues/orders")
        data = {"confirm": "orders", "body": "x", "id": "1", "task": "1"}
        forms = [await client.post(f"/ui/queues/orders/{path}", data=data) for path in FORMS]

    assert "secret" not in page.text
    assert "lacks the scope" in page.text
    assert "Delete all messages" not in page.text
    assert {answer.status_code for answer in forms} == {403}
    assert (await locked.engine.queues.counts(DEFAULT_TENANT, "orders")).sent == 1
