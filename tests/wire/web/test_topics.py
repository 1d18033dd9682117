"""The pages of topics, deliveries and streams, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest

from penstock.auth import Mode
from penstock.clock import FakeClock
from penstock.model import DEFAULT_TENANT, Scope, TenantId
from penstock.model.streams import NewEvent
from penstock.model.topics import Attempted, DeliveryState, NewSubscription, Publish
from penstock.web.pages.topics import read_attributes
from tests.wire.conftest import Live, build_store, running
from tests.wire.web.markup import INERT, dangers


async def subscribe(live: Live, queue: str, policy: str | None = None) -> None:
    await live.engine.queues.create(DEFAULT_TENANT, queue, {})
    await live.engine.topics.subscribe(
        NewSubscription(
            tenant=DEFAULT_TENANT,
            topic="orders",
            protocol="sqs",
            endpoint=f"arn:aws:sqs:us-east-1:000000000000:{queue}",
            target=queue,
            attributes={"FilterPolicy": policy} if policy else {},
        )
    )


async def exhaust(live: Live, body: str = "{}") -> int:
    """A delivery that no retry is left for."""
    await live.engine.topics.create(DEFAULT_TENANT, "orders")
    endpoint = f"http://192.0.2.1/{uuid4().hex}"
    new = NewSubscription(tenant=DEFAULT_TENANT, topic="orders", protocol="http", endpoint=endpoint)
    await live.engine.topics.subscribe(new)
    await live.engine.topics.publish(Publish(tenant=DEFAULT_TENANT, topic="orders", body=body))
    [delivery] = await live.engine.webhooks.claim()
    attempt = Attempted(
        id=delivery.id, lease=delivery.lease, delivered=False, retry_at=None, status=500, error="<b>it broke</b>"
    )
    assert await live.engine.store.topics.finish_deliveries([attempt], live.engine.clock.now()) == [True]
    return delivery.id


async def test_the_tester_says_who_would_get_a_message(server: Live, client: httpx.AsyncClient) -> None:
    await server.engine.topics.create(DEFAULT_TENANT, "orders")
    await subscribe(server, "all")
    await subscribe(server, "books", '{"kind":["book"]}')
    await subscribe(server, "dear", '{"price":[{"numeric":[">",100]}]}')

    async def verdict(attributes: str) -> str:
        text = (await client.get("/ui/topics/orders", params={"body": "x", "attributes": attributes})).text
        return text.partition('class="problems verdicts"')[2]

    books = await verdict('{"kind":"book","price":3}')
    dear = await verdict('{"price":101.5,"kind":["toy","x"]}')
    assert "<strong>all</strong> has no filter" in books
    assert "<strong>books</strong> matches" in books
    assert "<strong>dear</strong> is filtered out" in books
    assert "<strong>books</strong> is filtered out" in dear
    assert "<strong>dear</strong> matches" in dear
    assert "not valid JSON" in (await client.get("/ui/topics/orders?attributes=half{")).text
    assert "a JSON object" in (await client.get("/ui/topics/orders?attributes=[1]")).text
    assert (await server.engine.queues.counts(DEFAULT_TENANT, "all")).sent == 0


def test_attributes_get_the_types_of_their_values() -> None:
    found = read_attributes('{"a":"x","b":2.5,"c":["y",1],"d":true}')

    assert {name: (one.type, one.value) for name, one in found.items()} == {
        "a": ("String", "x"),
        "b": ("Number", "2.5"),
        "c": ("String.Array", '["y", 1]'),
        "d": ("String.Array", "[true]"),
    }


async def test_an_exhausted_delivery_needs_attention_and_is_replayed(server: Live, client: httpx.AsyncClient) -> None:
    number = await exhaust(server)

    assert "/ui/deliveries?state=exhausted" in (await client.get("/")).text
    listed = (await client.get("/ui/deliveries?state=exhausted")).text
    page = (await client.get(f"/ui/deliveries/{number}")).text
    replayed = await client.post(f"/ui/deliveries/{number}/replay", follow_redirects=True)
    again = await client.post(f"/ui/deliveries/{number}/replay")

    assert f'href="/ui/deliveries/{number}"' in listed
    assert "it broke" in page
    assert dangers(page) == []
    assert "tried again" in replayed.text
    assert again.status_code == 409
    assert (await server.engine.webhooks.get(DEFAULT_TENANT, number)).state is DeliveryState.PENDING
    assert (await client.get("/ui/deliveries/nothing")).status_code == 404
    assert (await client.get("/ui/deliveries?state=odd")).status_code == 400


async def test_topics_and_deliveries_are_shown_as_text(server: Live, client: httpx.AsyncClient) -> None:
    number = await exhaust(server, "".join(INERT))
    pages = [
        await client.get("/ui/topics"),
        await client.get("/ui/deliveries"),
        await client.get(f"/ui/deliveries/{number}"),
        *[await client.get("/ui/topics/orders", params={"body": text, "attributes": text}) for text in INERT],
    ]

    assert [danger for page in pages for danger in dangers(page.text)] == []


async def test_topics_and_deliveries_of_others_are_out_of_reach() -> None:
    async with running(Mode.TOKEN) as live:
        number = await exhaust(live, '"secret"')
        everything = frozenset({Scope.READ, Scope.SEND, Scope.MANAGE})
        another = (await live.engine.tenants.create("another")).id
        tokens = [
            (await live.engine.tenants.create_token(another, "a", everything))[1],
            (await live.engine.tenants.create_token(DEFAULT_TENANT, "b", everything, queues="mine-*"))[1],
        ]
        for token in tokens:
            async with live.client(token) as client:
                lists = [await client.get(path) for path in ("/", "/ui/topics", "/ui/deliveries")]
                pages = [
                    await client.get("/ui/topics/orders?body=x"),
                    await client.get(f"/ui/deliveries/{number}"),
                    await client.post(f"/ui/deliveries/{number}/replay"),
                ]
            assert not any("192.0.2.1" in page.text or "/ui/topics/orders" in page.text for page in lists)
            assert {page.status_code for page in pages} <= {403, 404}
            assert not any("secret" in page.text for page in pages)
        assert (await live.engine.webhooks.get(DEFAULT_TENANT, number)).state is DeliveryState.EXHAUSTED


async def test_without_postgresql_the_page_of_streams_says_so(client: httpx.AsyncClient) -> None:
    assert "Streams require PostgreSQL" in (await client.get("/ui/streams")).text
    assert (await client.get("/ui/streams/orders")).status_code == 501


@pytest.fixture
async def streaming(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[tuple[Live, str]]:
    """A server on PostgreSQL, and a token of a tenant of its own that has a stream with a dead letter."""
    async with running(Mode.TOKEN, store=build_store("postgres", request), clock=clock) as live:
        tenant = (await live.engine.tenants.create(f"web-{uuid4().hex}")).id
        await make_stream(live, tenant)
        scopes = frozenset({Scope.READ, Scope.MANAGE})
        yield live, (await live.engine.tenants.create_token(tenant, "ada", scopes))[1]


async def make_stream(live: Live, tenant: TenantId) -> None:
    streams = live.engine.streams
    await streams.create(tenant, "orders", {"max_retries": 0})
    await streams.subscribe(tenant, "orders", "billing")
    await streams.send(tenant, "orders", [NewEvent(type="made", payload='{"n":12345678901234567890}')])


async def test_a_stream_shows_its_consumers_and_its_health(streaming: tuple[Live, str]) -> None:
    live, token = streaming
    async with live.client(token) as client:
        listed, page = (await client.get("/ui/streams")).text, (await client.get("/ui/streams/orders")).text
        missing = await client.get("/ui/streams/nothing")
        replayed = await client.post("/ui/streams/orders/dead/replay", follow_redirects=True)
        one = await client.post("/ui/streams/orders/dead/replay", data={"id": "1"})
    other = (await live.engine.tenants.create(f"web-{uuid4().hex}")).id
    foreign = (await live.engine.tenants.create_token(other, "eve", frozenset({Scope.READ, Scope.MANAGE})))[1]
    async with live.client(foreign) as client:
        refused = [
            await client.get("/ui/streams/orders"),
            await client.post("/ui/streams/orders/dead/replay"),
        ]
        assert "/ui/streams/orders" not in (await client.get("/ui/streams")).text

    assert 'href="/ui/streams/orders"' in listed
    assert "billing" in page
    assert "The slowest consumer" in page
    assert "What holds the horizon" in page
    assert "written to" in page
    assert missing.status_code == 404
    assert "0 dead letters were sent again" in replayed.text
    assert one.status_code == 404
    assert [answer.status_code for answer in refused] == [404, 404]
