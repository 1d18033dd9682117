"""Publishing through the engine: filters, envelopes, routing keys, webhooks; on every store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from standardwebhooks import Webhook

from penstock.clock import FakeClock, SystemClock
from penstock.engine import Engine
from penstock.engine.topics.webhooks import WebhookSettings, new_secret
from penstock.errors import Invalid, TopicNotFound
from penstock.loops.deliverer import Deliverer
from penstock.model import Receive, TenantId
from penstock.model.topics import DeliveryState, NewSubscription, Publish, Subscription
from penstock.store import Store
from tests.endpoint import Endpoint, listening
from tests.store.caller import Caller
from tests.store.conftest import MakeQueue

SETTINGS = WebhookSettings(timeout_s=0.5, delays_s=(10.0, 30.0), allow_private=True)


@pytest.fixture
def engine(store: Store, clock: FakeClock) -> Engine:
    return Engine(store, clock, webhooks=SETTINGS)


@pytest.fixture
async def deliverer(engine: Engine) -> AsyncIterator[Deliverer]:
    deliverer = Deliverer(engine, enabled=False)
    yield deliverer
    await deliverer.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with listening() as endpoint:
        yield endpoint


async def deliver(deliverer: Deliverer) -> None:
    """Everything that is due, and what came due by it."""
    while await deliverer.once():
        await deliverer.finish()


async def to_queue(engine: Engine, tenant: TenantId, queue: str, **fields: Any) -> Subscription:
    fields.setdefault("attributes", {"RawMessageDelivery": "true"})
    new = NewSubscription(tenant=tenant, protocol="sqs", endpoint=queue, target=queue, **fields)
    return (await engine.topics.subscribe(new))[0]


async def to_endpoint(engine: Engine, tenant: TenantId, url: str, **fields: Any) -> Subscription:
    fields.setdefault("attributes", {"RawMessageDelivery": "true"})
    new = NewSubscription(tenant=tenant, protocol="http", endpoint=url, **fields)
    return (await engine.topics.subscribe(new))[0]


def event(tenant: TenantId, key: str = "orders.made", body: str = "hello", **fields: Any) -> Publish:
    return Publish(tenant=tenant, routing_key=key, body=body, **fields)


async def test_mail_of_a_publish_is_stored_with_it(engine: Engine, caller: Caller) -> None:
    await engine.topics.create(caller.tenant, "news.fifo", {"ContentBasedDeduplication": "true"})
    new = NewSubscription(tenant=caller.tenant, topic="news.fifo", protocol="email", endpoint="ada@example.com")
    await engine.topics.subscribe(new)
    publish = Publish(tenant=caller.tenant, topic="news.fifo", body="hello", subject="Hi", group_id="g")

    published = await engine.topics.publish(publish)
    again = await engine.topics.publish(Publish(tenant=caller.tenant, topic="news.fifo", body="hello", group_id="g"))

    [item] = await engine.outbox.list(caller.tenant)
    assert (item.address, item.message_id, item.subject, item.body) == ("ada@example.com", published.id, "Hi", "hello")
    assert again.duplicate


async def test_a_queue_of_another_tenant_part_receives(engine: Engine, caller: Caller) -> None:
    away = await engine.tenants.in_region(caller.tenant, "eu-west-1")
    await engine.queues.create(away, "letters", {})
    await engine.topics.create(caller.tenant, "news")
    await to_queue(engine, caller.tenant, "letters", topic="news", target_tenant=away)

    published = await engine.topics.publish(Publish(tenant=caller.tenant, topic="news", body="far"))

    assert [queue for queue, _ in published.sent] == ["letters"]
    found = await engine.messages.receive(Receive(tenant=away, queue="letters", limit=10))
    assert [message.body for message in found] == ["far"]


async def test_an_event_reaches_the_queues_whose_patterns_fit(
    engine: Engine, caller: Caller, make_queue: MakeQueue
) -> None:
    exact, one, many, other = [await make_queue() for _ in range(4)]
    for queue, pattern in ((exact, "orders.made"), (one, "orders.*"), (many, "#"), (other, "bills.#")):
        await to_queue(engine, caller.tenant, queue, pattern=pattern)

    published = await engine.topics.publish(event(caller.tenant, headers='{"a":1}'))

    assert sorted(queue for queue, _ in published.sent) == sorted([exact, one, many])
    message = await caller.receive_one(one)
    assert (message.body, message.headers) == ("hello", '{"a":1}')
    assert await caller.bodies(other) == []


async def test_a_subscription_counts_from_the_next_publish_on(
    engine: Engine, store: Store, caller: Caller, make_queue: MakeQueue
) -> None:
    queue = await make_queue()
    elsewhere = Engine(store, caller.clock)
    assert (await engine.topics.publish(event(caller.tenant))).sent == ()

    subscription = await to_queue(elsewhere, caller.tenant, queue, pattern="orders.#")
    assert len((await engine.topics.publish(event(caller.tenant))).sent) == 1

    await elsewhere.topics.unsubscribe(caller.tenant, subscription.key)
    assert (await engine.topics.publish(event(caller.tenant))).sent == ()


async def test_a_topic_made_by_another_node_can_be_published_to_at_once(
    engine: Engine, store: Store, caller: Caller
) -> None:
    await engine.topics.publish(event(caller.tenant))
    with pytest.raises(TopicNotFound):
        await engine.topics.publish(Publish(tenant=caller.tenant, topic="news", body="a"))

    await Engine(store, caller.clock).topics.create(caller.tenant, "news")

    await engine.topics.publish(Publish(tenant=caller.tenant, topic="news", body="a"))


async def test_a_filter_lets_through_what_it_asks_for(engine: Engine, caller: Caller, make_queue: MakeQueue) -> None:
    by_body, by_attribute = await make_queue(), await make_queue()
    await engine.topics.create(caller.tenant, "news")
    policy = {"FilterPolicy": '{"kind": ["a"]}', "RawMessageDelivery": "true"}
    await to_queue(engine, caller.tenant, by_attribute, topic="news", attributes=policy)
    await to_queue(
        engine, caller.tenant, by_body, topic="news", attributes={**policy, "FilterPolicyScope": "MessageBody"}
    )
    attributes = json.dumps({"kind": {"type": "String", "value": "a"}})

    for body, given in (('{"kind": "a"}', None), ('{"kind": "b"}', attributes), ("{}", None)):
        await engine.topics.publish(Publish(tenant=caller.tenant, topic="news", body=body, attributes=given))

    assert await caller.bodies(by_body) == ['{"kind": "a"}']
    assert await caller.bodies(by_attribute) == ['{"kind": "b"}']


async def test_an_envelope_says_what_was_published_and_where(
    engine: Engine, caller: Caller, make_queue: MakeQueue
) -> None:
    queue = await make_queue()
    await engine.topics.create(caller.tenant, "news")
    await to_queue(engine, caller.tenant, queue, topic="news", attributes={})

    published = await engine.topics.publish(
        Publish(tenant=caller.tenant, topic="news", body="hello", subject="Greeting", region="eu-west-1")
    )

    envelope = json.loads((await caller.receive_one(queue)).body)
    assert envelope["MessageId"] == published.id
    assert (envelope["Message"], envelope["Subject"]) == ("hello", "Greeting")
    assert envelope["TopicArn"] == "arn:aws:sns:eu-west-1:000000000000:news"
    assert envelope["Signature"]


async def test_a_fifo_topic_orders_and_numbers(engine: Engine, caller: Caller, make_queue: MakeQueue) -> None:
    queue = await make_queue(fifo=True)
    await engine.topics.create(caller.tenant, "news.fifo", {"ContentBasedDeduplication": "true"})
    await to_queue(engine, caller.tenant, queue, topic="news.fifo", attributes={})

    def numbered(body: str) -> Publish:
        return Publish(tenant=caller.tenant, topic="news.fifo", body=body, group_id="g")

    first, second, again = [await engine.topics.publish(numbered(body)) for body in ("a", "b", "a")]

    assert (again.id, again.duplicate) == (first.id, True)
    envelopes = [json.loads(body) for body in await caller.bodies(queue)]
    assert [envelope["Message"] for envelope in envelopes] == ["a", "b"]
    assert [int(envelope["SequenceNumber"]) - 10**19 for envelope in envelopes] == [first.sequence, second.sequence]
    with pytest.raises(Invalid):
        await engine.topics.publish(Publish(tenant=caller.tenant, topic="news.fifo", body="a"))


async def test_an_event_reaches_a_fifo_queue_in_the_order_of_its_key(
    engine: Engine, caller: Caller, make_queue: MakeQueue
) -> None:
    queue = await make_queue(fifo=True)
    await to_queue(engine, caller.tenant, queue, pattern="#")

    for body in ("a", "a", "b"):
        await engine.topics.publish(event(caller.tenant, body=body))

    assert await caller.bodies(queue) == ["a", "a", "b"]


async def test_a_waiting_receiver_is_woken_by_a_publish(
    store: Store, caller: Caller, make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.waiting.RECHECK_S", 60.0)
    engine = Engine(store, SystemClock())
    queue = await make_queue()
    await to_queue(engine, caller.tenant, queue, pattern="#")
    waiting = asyncio.create_task(engine.messages.receive(Receive(tenant=caller.tenant, queue=queue), 20))
    while not engine.messages._waiters.waiting((caller.tenant, queue)):  # noqa: ASYNC110
        await asyncio.sleep(0.005)

    await engine.topics.publish(event(caller.tenant))

    assert [message.body for message in await asyncio.wait_for(waiting, 10)] == ["hello"]


# Webhooks


async def test_a_native_webhook_is_signed(
    engine: Engine, caller: Caller, deliverer: Deliverer, endpoint: Endpoint
) -> None:
    # The verifier compares with the time of day.
    engine.webhooks._clock = SystemClock()
    secret = new_secret()
    await to_endpoint(engine, caller.tenant, f"{endpoint.url}/hook", pattern="#", secret=secret)

    published = await engine.topics.publish(event(caller.tenant, body='{"a": 1}', json=True))
    assert published.deliveries == 1
    engine.webhooks._clock = caller.clock
    claimed = await engine.webhooks.claim()
    engine.webhooks._clock = SystemClock()
    for delivery in claimed:
        await engine.webhooks.attempt(delivery)

    arrival = next(found for found in endpoint.arrivals if found.path == "/hook")
    assert Webhook(secret).verify(arrival.body, arrival.headers) == {"a": 1}
    assert arrival.headers["webhook-id"] == published.id
    assert arrival.headers["content-type"] == "application/json"
    assert arrival.headers["penstock-routing-key"] == "orders.made"


async def test_an_sns_webhook_has_the_envelope_and_its_headers(
    engine: Engine, caller: Caller, deliverer: Deliverer, endpoint: Endpoint
) -> None:
    await engine.topics.create(caller.tenant, "news")
    subscription = await to_endpoint(engine, caller.tenant, endpoint.url, topic="news", attributes={})

    published = await engine.topics.publish(Publish(tenant=caller.tenant, topic="news", body="hello"))
    await deliver(deliverer)

    [arrival] = endpoint.arrivals
    assert json.loads(arrival.body)["MessageId"] == published.id
    assert arrival.headers["x-amz-sns-message-type"] == "Notification"
    assert arrival.headers["x-amz-sns-message-id"] == published.id
    assert arrival.headers["x-amz-sns-subscription-arn"].endswith(f":news:{subscription.key}")
    assert arrival.headers["user-agent"] == "Amazon Simple Notification Service Agent"
    assert "webhook-signature" not in arrival.headers


@pytest.mark.parametrize("answer", [500, 404, 302, "close", "hang"])
async def test_whatever_goes_wrong_is_tried_again_until_exhausted(
    engine: Engine, caller: Caller, deliverer: Deliverer, endpoint: Endpoint, make_queue: MakeQueue, answer: int | str
) -> None:
    dead = await make_queue("dead")
    endpoint.answer = lambda arrival: answer
    redrive = {"RawMessageDelivery": "true", "RedrivePolicy": json.dumps({"deadLetterTargetArn": f"arn:x:{dead}"})}
    await to_endpoint(engine, caller.tenant, endpoint.url, pattern="#", attributes=redrive)
    await engine.topics.publish(event(caller.tenant))
    attempts = []

    for seconds in (9.0, 3.0, 29.0, 7.0, 1000.0):
        await deliver(deliverer)
        attempts.append(len(endpoint.arrivals))
        caller.clock.advance(seconds=seconds)

    assert attempts == [1, 1, 2, 2, 3]
    await deliver(deliverer)
    [delivery] = await engine.webhooks.list(caller.tenant)
    assert (delivery.state, delivery.attempts) == (DeliveryState.EXHAUSTED, 3)
    assert delivery.last_status == (answer if isinstance(answer, int) else None)
    assert len(endpoint.arrivals) == 3
    assert await caller.bodies(dead) == ["hello"]


async def test_a_replayed_delivery_is_made(
    engine: Engine, caller: Caller, deliverer: Deliverer, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda arrival: 500
    policy = {"DeliveryPolicy": '{"healthyRetryPolicy": {"numRetries": 0}}', "RawMessageDelivery": "true"}
    await to_endpoint(engine, caller.tenant, endpoint.url, pattern="#", attributes=policy)
    await engine.topics.publish(event(caller.tenant))
    await deliver(deliverer)
    [given_up] = await engine.webhooks.list(caller.tenant, state=DeliveryState.EXHAUSTED)

    endpoint.answer = lambda arrival: 204
    await engine.webhooks.replay(caller.tenant, given_up.id)
    await deliver(deliverer)

    assert (await engine.webhooks.get(caller.tenant, given_up.id)).state is DeliveryState.DELIVERED


async def test_a_private_address_is_refused_and_so_is_a_name_for_one(
    store: Store, caller: Caller, endpoint: Endpoint
) -> None:
    engine = Engine(store, caller.clock, webhooks=WebhookSettings(timeout_s=0.5, delays_s=()))
    port = endpoint.url.rpartition(":")[2]
    urls = [endpoint.url, f"http://localhost:{port}", f"http://0x7f.1:{port}", f"http://[::ffff:127.0.0.1]:{port}"]
    for url in urls:
        await to_endpoint(engine, caller.tenant, url, pattern="#")
    await engine.topics.publish(event(caller.tenant))
    deliverer = Deliverer(engine, enabled=False)

    await deliver(deliverer)
    await deliverer.close()

    assert endpoint.arrivals == []
    states = [delivery.state for delivery in await engine.webhooks.list(caller.tenant)]
    assert states == [DeliveryState.EXHAUSTED] * len(urls)


async def test_an_endpoint_that_keeps_failing_is_left_alone(
    engine: Engine, caller: Caller, deliverer: Deliverer, endpoint: Endpoint
) -> None:
    endpoint.answer = lambda arrival: 500
    await to_endpoint(engine, caller.tenant, endpoint.url, pattern="#")
    for _ in range(5):
        await engine.topics.publish(event(caller.tenant))
    await deliver(deliverer)
    assert len(endpoint.arrivals) == 5

    await engine.topics.publish(event(caller.tenant))
    await deliver(deliverer)

    assert len(endpoint.arrivals) == 5
    assert (await engine.webhooks.list(caller.tenant, limit=1))[0].attempts == 0


async def test_an_endpoint_gets_no_more_requests_at_once_than_its_share(
    store: Store, caller: Caller, endpoint: Endpoint
) -> None:
    engine = Engine(
        store, caller.clock, webhooks=WebhookSettings(timeout_s=1.0, parallel=8, each=3, allow_private=True)
    )
    endpoint.answer = lambda arrival: "hang" if arrival.path == "/slow" else 200
    await to_endpoint(engine, caller.tenant, f"{endpoint.url}/slow", pattern="slow")
    await to_endpoint(engine, caller.tenant, f"{endpoint.url}/quick", pattern="quick")
    for key in ["slow"] * 10 + ["quick"] * 3:
        await engine.topics.publish(event(caller.tenant, key))
    deliverer = Deliverer(engine, enabled=False)

    await deliverer.once()
    assert await engine.webhooks.claim() == []
    await deliverer.finish()
    await deliverer.close()

    assert sorted(arrival.path for arrival in endpoint.arrivals) == ["/quick"] * 3 + ["/slow"] * 3


async def test_a_refused_address_names_its_setting(
    store: Store, caller: Caller, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(store, clock, webhooks=WebhookSettings(timeout_s=2))
    deliverer = Deliverer(engine, enabled=False)
    await to_endpoint(engine, caller.tenant, "http://127.0.0.1:9/", pattern="orders.made")
    await engine.topics.publish(event(caller.tenant))

    await deliverer.once()
    await deliverer.finish()
    await deliverer.close()

    [delivery] = await engine.webhooks.list(caller.tenant)
    assert delivery.last_error == (
        "the endpoint's address 127.0.0.1 is not public; PENSTOCK_HTTP_DELIVERY_PRIVATE=true allows such endpoints"
    )
    assert "an endpoint that cannot be reached was subscribed" in caplog.messages
