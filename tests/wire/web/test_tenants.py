"""Tenants on the dashboard: no page, fragment or stream shows or changes anything of another tenant."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.routing import Route

from penstock.auth import Mode
from penstock.model import Scope, Send, TenantId
from penstock.model.jobs import NewJob
from penstock.model.schedules import TargetKind
from penstock.model.streams import NewEvent
from penstock.model.topics import NewSubscription, Publish
from penstock.web import WebSettings
from penstock.web.application import build
from tests.shared_store import shared_postgres
from tests.wire.conftest import Live, running

FORM = {"sec-fetch-site": "same-origin"}
SECRET = "topsecret"
TRACE = "5ec2e7f3577b34da6a3ce929d0e0e473"
EVERY = frozenset(Scope) - {Scope.OPERATOR}


@pytest.fixture
async def live(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    async with running(Mode.TOKEN, store=shared_postgres(request)) as live:
        yield live


async def fill(live: Live, tenant: TenantId) -> dict[str, str]:
    """One of everything, each with the word that no other tenant may see; names and ids for addresses."""
    engine = live.engine
    name = f"{SECRET}-queue"
    await engine.queues.create(tenant, name, {})
    entry = Send(tenant=tenant, queue=name, body=SECRET, trace=f"00-{TRACE}-00f067aa0ba902b7-01")
    message = await engine.messages.send(entry)
    job = await engine.jobs.enqueue(
        NewJob(tenant=tenant, queue=f"{SECRET}-jobs", payload=f'{{"v": "{SECRET}"}}', tags=[SECRET])
    )
    await engine.store.topics.create_topic(tenant, f"{SECRET}-topic", {}, {}, engine.clock.now())
    hook = NewSubscription(
        tenant=tenant, pattern=f"{SECRET}.#", protocol="https", endpoint=f"https://{SECRET}.example.com/"
    )
    await engine.store.topics.subscribe(hook, engine.clock.now())
    await engine.topics.publish(Publish(tenant=tenant, routing_key=f"{SECRET}.key", body=SECRET))
    [delivery] = await engine.webhooks.list(tenant)
    await engine.streams.create(tenant, f"{SECRET}-stream", {})
    [event] = await engine.streams.send(tenant, f"{SECRET}-stream", [NewEvent(type=SECRET, payload="{}")])
    given = {"every": "1h", "target": name, "target_kind": TargetKind.QUEUE}
    await engine.schedules.create(tenant, f"{SECRET}-schedule", given)
    await engine.audit.note(tenant, "someone", "did", SECRET)
    return {
        "name": name,
        "id": job.id,
        "message": str(message.id),
        "delivery": str(delivery.id),
        "event": str(event),
        "kind": "queue",
    }


def paths(live: Live) -> list[tuple[str, bool]]:
    """Every route of the dashboard, and whether it takes forms."""
    built = build(live.engine, live.authenticator, dict, WebSettings())
    found = []
    for route in built.routes:
        assert isinstance(route, Route)
        if route.path.startswith(("/ui", "/dashboard")) or route.path == "/":
            found.append((route.path, "POST" in (route.methods or ())))
    return found


def addresses(path: str, known: dict[str, str]) -> list[str]:
    """The addresses of a route for everything of the other tenant that it could show."""
    names = [f"{SECRET}-{kind}" for kind in ("queue", "jobs", "topic", "stream", "schedule")]
    filled = path.replace("{kind}", known["kind"]).replace("{name:path}", "{name}")
    numbers = [known["id"], known["message"], known["delivery"]]
    found = [filled.replace("{name}", name).replace("{id}", number) for name in names for number in numbers]
    queries = (
        "", "?search=topsecret", f"?queue={SECRET}-jobs", f"?name={SECRET}-queue", f"?id={known['id']}",
        f"?id={known['message']}", f"?id={TRACE}", f"?id=event%3A{SECRET}-stream%2F{known['event']}",
        f"?id=delivery%3A{known['delivery']}", f"?value={SECRET}", f"?tag={SECRET}", f"?text={SECRET}",
        "?span=day", "?step=day&kind=job",
    )  # fmt: skip
    return sorted({address + query for address in found for query in queries if query == "" or "{" not in path})


async def stream_of(client: httpx.AsyncClient, address: str) -> str:
    """The first part of the live stream of a page; empty when it has none."""
    sign = "&" if "?" in address else "?"
    accept = {"accept": "text/event-stream"}
    try:
        async with asyncio.timeout(5), client.stream("GET", f"{address}{sign}live=1", headers=accept) as answer:
            if "event-stream" not in answer.headers.get("content-type", ""):
                return (await answer.aread()).decode()
            text = ""
            async for part in answer.aiter_text():
                text += part
                if "data:" in text:
                    break
            return text
    except TimeoutError:
        return ""


def without_question(text: str, address: str) -> str:
    """A page without what it repeats of its address: search fields, links, and names of what was not found."""
    text = re.sub(r'<div id="preview".*?</div>', "", text, flags=re.DOTALL)
    text = re.sub(r'(?:value|href|action|data-source|hx-sse:connect|hx-get)="[^"]*"', "", text)
    for kind in ("queue", "jobs", "topic", "stream", "schedule"):
        name = f"{SECRET}-{kind}"
        text = text.replace(name, "") if name in address else text
    return text.replace(f"“{SECRET}”", "") if f"={SECRET}" in address else text


async def test_no_page_fragment_or_stream_shows_another_tenant(live: Live) -> None:
    owner = (await live.engine.tenants.create(f"owner-{id(live)}")).id
    stranger = (await live.engine.tenants.create(f"stranger-{id(live)}")).id
    known = await fill(live, owner)
    _, own = await live.engine.tenants.create_token(owner, "own", EVERY)
    _, other = await live.engine.tenants.create_token(stranger, "other", EVERY)
    seen, leaks = 0, []
    async with live.client(own) as owning, live.client(other) as looking:
        for path, takes_forms in paths(live):
            if takes_forms or path.startswith("/ui/login"):
                continue
            for address in addresses(path, known):
                page = (await looking.get(address)).text
                if SECRET in without_question(page, address):
                    leaks.append(address)
            first = addresses(path, known)[0]
            if SECRET in without_question(await stream_of(looking, first), first):
                leaks.append(f"stream of {first}")
            shown = [(await owning.get(address)).text for address in addresses(path, known)[:30]]
            seen += any(SECRET in without_question(text, "") for text in shown)

    assert leaks == [], leaks
    # The same addresses show it to its owner, so the test looks in the right places.
    assert seen >= 12


async def test_no_form_changes_anything_of_another_tenant(live: Live) -> None:
    owner = (await live.engine.tenants.create(f"owner-{id(live)}-f")).id
    stranger = (await live.engine.tenants.create(f"stranger-{id(live)}-f")).id
    known = await fill(live, owner)
    token, _ = await live.engine.tenants.create_token(owner, "own", EVERY)
    _, other = await live.engine.tenants.create_token(stranger, "other", EVERY)
    engine = live.engine

    async def state() -> object:
        return (
            await engine.queues.counts(owner, known["name"]),
            (await engine.queues.get(owner, known["name"])).settings,
            await engine.jobs.get(owner, known["id"]),
            [one.state for one in await engine.webhooks.list(owner)],
            [(one.name, one.status, one.fires) for one in await engine.schedules.list(owner)],
            [(one.id, one.revoked_at) for one in await engine.tenants.list_tokens(owner)],
        )

    before = await state()
    names = {f"{SECRET}-{kind}" for kind in ("queue", "jobs", "stream", "schedule")}
    async with live.client(other) as client:
        for path, takes_forms in paths(live):
            if not takes_forms or path.startswith(("/ui/session", "/ui/queues/new", "/ui/schedules/new")):
                continue
            for address in sorted({one.split("?")[0] for one in addresses(path, known)}):
                for name in sorted(names):
                    ids = known["message"] if "message" in path or "messages" in path else str(token.id)
                    form = {
                        "confirm": name, "queue": name, "status": "pending", "value": SECRET, "id": ids,
                        "body": "x", "task": "1", "retention_s": "60", "tenant": f"owner-{id(live)}-f",
                        "scopes": "read", "ids": ids,
                    }  # fmt: skip
                    answer = await client.post(address, data=form, headers=FORM)
                    assert answer.status_code in (303, 400, 403, 404, 409), (address, answer.status_code)

    assert await state() == before
