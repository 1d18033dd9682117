"""The pages for people."""

from __future__ import annotations

import re
import subprocess
import sys

import httpx
import pytest

from penstock.auth import Mode
from penstock.engine.queues.queues import Queues
from penstock.errors import Unavailable
from penstock.model import DEFAULT_TENANT, Scope, Send
from tests.plain import PLAIN
from tests.wire.conftest import Live, running


@pytest.mark.parametrize("path", ["/", "/dashboard"])
async def test_the_dashboard_shows_the_queues(server: Live, client: httpx.AsyncClient, path: str) -> None:
    await server.engine.queues.create(DEFAULT_TENANT, "orders", {})
    await server.engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="hi"))
    answer = await client.get(path)

    assert answer.status_code == 200
    assert re.search(r'<th scope="row"><a href="/ui/queues/orders">orders</a>', answer.text)
    assert "There is no queue yet" not in answer.text


async def test_an_empty_dashboard_says_how_to_begin(client: httpx.AsyncClient) -> None:
    assert "POST /v1/queues" in (await client.get("/")).text


async def test_the_api_page_names_every_operation(server: Live, client: httpx.AsyncClient) -> None:
    text = (await client.get("/docs")).text

    for operation in server.rest.operations:
        assert f"<code>{operation.path}</code>" in text
        assert operation.summary in text
    assert "visibility_timeout" in text


@pytest.mark.parametrize("path", ["/", "/docs", "/ui/queues", "/nowhere"])
async def test_pages_run_under_a_strict_policy(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)

    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    # Commands to copy name the address of the server; nothing else leads out of the page.
    markup = re.sub(r'<div class="command">.*?</div>', "", answer.text, flags=re.DOTALL)
    assert not re.search(r"style=|<style|https?://| on[a-z]+=", markup)
    assert all(script.startswith(' src="/static/') for script in re.findall(r"<script([^>]*)>", answer.text))


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_only_browsers_get_a_page_for_an_unknown_path(client: httpx.AsyncClient, method: str) -> None:
    program = await client.request(method, "/nowhere", json={})
    person = await client.request(method, "/nowhere", json={}, headers={"Accept": "text/html,*/*;q=0.8"})

    assert (program.status_code, program.json()["code"]) == (404, "NotFound")
    assert (person.status_code, "There is nothing at this address" in person.text) == (404, True)


async def test_every_file_a_page_asks_for_is_there(client: httpx.AsyncClient) -> None:
    text = (await client.get("/docs")).text
    wanted = set(re.findall(r'(?:href|src)="(/static/[^"]+)"', text))

    assert wanted
    for path in wanted:
        answer = await client.get(path)
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)
    for path in ("/static/nothing", "/static/..%2Fpages.py", "/static/%2e%2e/pages.py"):
        assert (await client.get(path)).status_code == 404


async def test_with_tokens_the_dashboard_needs_one_that_reads() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        reader = (await tenants.create_token(DEFAULT_TENANT, "r", frozenset({Scope.READ}), queues="mine-*"))[1]
        sender = (await tenants.create_token(DEFAULT_TENANT, "s", frozenset({Scope.SEND})))[1]
        for name in ("mine-1", "theirs"):
            await live.engine.queues.create(DEFAULT_TENANT, name, {})
        async with live.client(reader) as reads, live.client(sender) as sends:
            refused, shown = await sends.get("/"), await reads.get("/")
        async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as nobody:
            assert (await nobody.get("/")).status_code == 403
            assert (await nobody.get("/docs")).status_code == 200

    assert (refused.status_code, "token is needed" in refused.text) == (403, True)
    assert "mine-1" in shown.text
    assert "theirs" not in shown.text


async def test_without_its_database_the_dashboard_says_so(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(queues: Queues, tenant: object) -> None:
        raise Unavailable()

    monkeypatch.setattr(Queues, "all_counts", away)

    answer = await client.get("/")
    assert (answer.status_code, "cannot be reached" in answer.text) == (503, True)


def test_the_pages_cost_nothing_until_someone_looks() -> None:
    code = (
        "import sys; import penstock.web, penstock.wire.rest.door, penstock.wire.http.protocol; "
        "print({'starlette', 'jinja2', 'prometheus_client'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
