"""Native REST: events, subscriptions, deliveries."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.auth import Mode
from penstock.engine.topics.notices import signed_text
from penstock.engine.topics.webhooks import WebhookSettings
from penstock.loops.deliverer import Deliverer
from penstock.model import DEFAULT_TENANT, Scope
from tests.endpoint import listening
from tests.wire.conftest import Live, running


async def make_queue(client: httpx.AsyncClient, name: str = "work") -> None:
    assert (await client.post("/v1/queues", json={"name": name})).status_code == 201


async def subscribe(client: httpx.AsyncClient, pattern: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(f"/v1/events/{pattern.replace('#', '%23')}/subscriptions", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_an_event_reaches_a_subscribed_queue(client: httpx.AsyncClient) -> None:
    await make_queue(client)
    await subscribe(client, "orders.#", queue_name="work")

    answer = await client.post("/v1/events/orders.made", json={"message": {"id": 7}, "headers": {"a": 1}})

    assert answer.status_code == 201
    published = answer.json()
    assert (published["queues_matched"], published["deliveries"]) == (1, 0)
    [message] = (await client.get("/v1/queues/work/messages")).json()
    assert (message["message"], message["headers"]) == ({"id": 7}, {"a": 1})
    assert published["messages"] == [{"queue_name": "work", "id": message["id"]}]


async def test_an_event_that_nobody_wants_is_fine(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/events/a.b", json={"message": "x"})

    assert (answer.status_code, answer.json()["queues_matched"]) == (201, 0)


async def test_subscriptions_are_listed_and_ended(client: httpx.AsyncClient) -> None:
    await make_queue(client)
    made = await subscribe(client, "orders.*", queue_name="work")
    again = await client.post("/v1/events/orders.*/subscriptions", json={"queue_name": "work"})
    assert (again.status_code, again.json()["id"]) == (200, made["id"])

    for path in ("/v1/events/orders.*/subscriptions", "/v1/queues/work/subscriptions"):
        assert [found["id"] for found in (await client.get(path)).json()] == [made["id"]]
    assert (await client.get("/v1/events/orders/subscriptions")).json() == []

    ended = f"/v1/events/orders.*/subscriptions/{made['id']}"
    assert (await client.delete("/v1/events/orders/subscriptions/1")).status_code == 404
    assert (await client.delete(ended)).status_code == 204
    assert (await client.delete(ended)).status_code == 404
    assert (await client.post("/v1/events/orders.made", json={"message": "x"})).json()["queues_matched"] == 0


async def test_a_filter_and_an_envelope(client: httpx.AsyncClient) -> None:
    for name in ("plain", "wrapped"):
        await make_queue(client, name)
    await subscribe(client, "#", queue_name="plain", filter={"kind": ["a"]})
    await subscribe(client, "#", queue_name="wrapped", envelope=True)

    for kind in ("a", "b"):
        await client.post("/v1/events/things", json={"message": {"kind": kind}})

    plain = (await client.get("/v1/queues/plain/messages?max=10")).json()
    assert [message["message"] for message in plain] == [{"kind": "a"}]
    wrapped = (await client.get("/v1/queues/wrapped/messages?max=10")).json()
    assert [message["message"]["Message"] for message in wrapped] == ['{"kind":"a"}', '{"kind":"b"}']


async def test_an_event_of_no_topic_is_signed_with_version_2(client: httpx.AsyncClient) -> None:
    await make_queue(client)
    await subscribe(client, "#", queue_name="work", envelope=True)
    await client.post("/v1/events/things", json={"message": "hello"})

    [message] = (await client.get("/v1/queues/work/messages")).json()

    envelope = message["message"]
    certificate = x509.load_pem_x509_certificate((await client.get("/v1/cert")).content)
    key = certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    assert envelope["SignatureVersion"] == "2"
    key.verify(b64decode(envelope["Signature"]), signed_text(envelope), padding.PKCS1v15(), hashes.SHA256())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "queue_name"),
        ({"queue_name": "a", "endpoint": "http://b"}, "endpoint"),
        ({"queue_name": "a b"}, "queue_name"),
        ({"endpoint": "ftp://b"}, "endpoint"),
        ({"endpoint": "http://b", "protocol": "https"}, "protocol"),
        ({"endpoint": "http://b", "secret": "short"}, "secret"),
        ({"queue_name": "a", "secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, "secret"),
        ({"queue_name": "a", "filter": {"a": 1}}, "filter"),
        ({"queue_name": "a", "colour": 1}, "colour"),
    ],
)
async def test_a_subscription_that_is_not_right(client: httpx.AsyncClient, body: dict[str, Any], field: str) -> None:
    answer = await client.post("/v1/events/a/subscriptions", json=body)

    assert (answer.status_code, answer.json()["field"]) == (400, field)


@pytest.mark.parametrize("path", ["/v1/events/a..b", "/v1/events/a.*", "/v1/events/%20"])
async def test_a_routing_key_that_is_none(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(path, json={"message": "x"})

    assert (answer.status_code, answer.json()["field"]) == (400, "routing_key")


async def test_a_token_needs_the_scopes(server: Live) -> None:
    async with running(Mode.TOKEN) as live:
        _, text = await live.engine.tenants.create_token(DEFAULT_TENANT, "reader", frozenset({Scope.READ}))
        async with live.client(text) as client:
            assert (await client.post("/v1/events/a", json={"message": "x"})).status_code == 403
            assert (await client.post("/v1/events/a/subscriptions", json={"queue_name": "a"})).status_code == 403
            assert (await client.get("/v1/events/a/subscriptions")).status_code == 200
            assert (await client.get("/v1/deliveries")).status_code == 200
            assert (await client.post("/v1/deliveries/1/replay")).status_code == 403


async def test_a_delivery_is_listed_replayed_and_forgotten() -> None:
    with listening(lambda arrival: 500) as endpoint:
        async with running() as live, live.client() as client:
            live.engine.webhooks._settings = WebhookSettings(delays_s=(), allow_private=True)
            deliverer = Deliverer(live.engine, enabled=False)
            made = await subscribe(client, "#", endpoint=f"{endpoint.url}/hook")
            assert made["secret"].startswith("whsec_")
            assert "secret" not in (await client.get("/v1/events/%23/subscriptions")).json()[0]

            assert (await client.post("/v1/events/a.b", json={"message": "x"})).json()["deliveries"] == 1
            await deliverer.once()
            await deliverer.finish()

            [listed] = (await client.get("/v1/deliveries?state=exhausted")).json()
            assert (listed["attempts"], listed["last_status"], listed["routing_key"]) == (1, 500, "a.b")
            path = f"/v1/deliveries/{listed['id']}"
            endpoint.answer = lambda arrival: 200
            assert (await client.post(f"{path}/replay")).status_code == 202
            assert (await client.post(f"{path}/replay")).status_code == 409
            await deliverer.once()
            await deliverer.finish()

            shown = (await client.get(path)).json()
            assert (shown["state"], shown["body"]) == ("delivered", "x")
            assert (await client.delete(path)).status_code == 204
            assert (await client.get(path)).status_code == 404
            text = (await client.get("/metrics")).text
            assert 'queue_delivery_attempts_total{outcome="failure"} 1.0' in text
            assert 'queue_delivery_attempts_total{outcome="success"} 1.0' in text
            assert "queue_delivery_exhausted_total 1.0" in text
            await deliverer.close()
