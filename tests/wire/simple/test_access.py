"""Who may use the simple protocol: everyone on an open server except for pages of other sites; else tokens."""

from __future__ import annotations

import httpx
import pytest

from penstock.auth import Mode
from penstock.model import DEFAULT_TENANT, Scope
from tests.wire.conftest import Live, running
from tests.wire.simple.conftest import Simple

BODY = b'{"queue_name": "q", "message_body": "x"}'


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "content-type": "text/plain"},
    ],
)
@pytest.mark.parametrize("path", ["/send", "/receive", "/delete_all", "/enqueue?queue_name=q"])
async def test_a_page_of_another_site_is_refused(alone: Simple, path: str, headers: dict[str, str]) -> None:
    answer = await alone.http.post(path, content=BODY, headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "CrossSiteRequest")
    assert "access-control-allow-origin" not in answer.headers
    assert (await alone.http.get("/queues")).json() == []


async def test_a_page_of_another_site_may_not_list_queues(alone: Simple) -> None:
    answer = await alone.http.get("/queues", headers={"sec-fetch-site": "cross-site"})

    assert answer.status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "Text/Plain; charset=utf-8", "multipart/form-data; boundary=x"])
@pytest.mark.parametrize("path", ["/send", "/send_batch", "/receive", "/delete", "/delete_all"])
async def test_json_that_a_form_could_send_is_refused(alone: Simple, path: str, kind: str) -> None:
    answer = await alone.http.post(path, content=BODY, headers={"content-type": kind})

    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "", None])
async def test_json_is_taken_from_programs_whatever_their_habits(alone: Simple, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}

    assert (await alone.http.post("/send", content=BODY, headers=headers)).status_code == 200


async def test_a_page_of_the_server_itself_passes(alone: Simple) -> None:
    own = str(alone.http.base_url).rstrip("/")

    answer = await alone.http.post(
        "/send",
        content=BODY,
        headers={"origin": own, "sec-fetch-site": "same-origin", "content-type": "application/json"},
    )

    assert answer.status_code == 200


async def token(live: Live, *scopes: Scope, queues: str = "*") -> str:
    return (await live.engine.tenants.create_token(DEFAULT_TENANT, "t", frozenset(scopes), queues=queues))[1]


async def ask(live: Live, path: str, body: object, secret: str | None, method: str = "POST") -> httpx.Response:
    headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=live.url, trust_env=False, headers=headers) as http:
        return await (http.get(path) if method == "GET" else http.post(path, json=body))


async def test_with_tokens_nobody_comes_in_without_one() -> None:
    message = {"queue_name": "q", "message_body": "x"}
    async with running(Mode.TOKEN, simple=True) as live:
        for secret in (None, "pst_00000000_wrong"):
            answer = await ask(live, "/send", message, secret)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "Unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert [
            (await ask(live, path, None, None, "GET")).status_code for path in ("/queues", "/stats", "/health")
        ] == [
            401,
            401,
            200,
        ]


async def test_a_token_does_what_its_scopes_and_its_queues_allow() -> None:
    async with running(Mode.TOKEN, simple=True) as live:
        owner = await token(live, Scope.ADMIN)
        sender = await token(live, Scope.SEND, queues="mine-*")
        receiver = await token(live, Scope.RECEIVE, Scope.READ, queues="mine-*")
        mine, theirs = ({"queue_name": name, "message_body": "x"} for name in ("mine-a", "theirs"))

        unmade = await ask(live, "/send", mine, sender)
        for message in (mine, theirs):
            assert (await ask(live, "/send", message, owner)).status_code == 200
        made = await ask(live, "/send", mine, sender)
        refused = [
            await ask(live, "/send", theirs, sender),
            await ask(live, "/receive", {"queue_name": "mine-a"}, sender),
            await ask(live, "/delete_all", {"queue_name": "*"}, receiver),
            await ask(live, "/queue_length", {"queue_name": "theirs"}, receiver),
        ]
        listed = await ask(live, "/queues", None, receiver, "GET")
        [foreign] = (await ask(live, "/receive", {"queue_name": "theirs"}, owner)).json()["messages"]
        stolen = await ask(live, "/delete", {"receipt_handles": [foreign["receipt_handle"]]}, receiver)

    assert (unmade.status_code, unmade.json()["error"]["code"]) == (404, "NotFound")
    assert made.status_code == 200
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in refused] == [(403, "Forbidden")] * 4
    assert listed.json() == [{"queue_name": "mine-a", "count": 2, "in_flight": 0}]
    assert stolen.status_code == 404


async def test_a_receipt_of_another_tenant_matches_nothing() -> None:
    async with running(Mode.TOKEN, simple=True) as live:
        other = (await live.engine.tenants.create("other")).id
        _, theirs = await live.engine.tenants.create_token(other, "t", frozenset({Scope.ADMIN}))
        ours = await token(live, Scope.ADMIN)
        for secret in (ours, theirs):
            await ask(live, "/send", {"queue_name": "q", "message_body": "x"}, secret)
        [message] = (await ask(live, "/receive", {"queue_name": "q"}, ours)).json()["messages"]

        stolen = await ask(live, "/delete", {"receipt_handles": [message["receipt_handle"]]}, theirs)

    assert stolen.status_code == 404
