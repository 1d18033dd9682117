"""The numbers, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.auth import Mode
from penstock.engine.insights import Insights
from penstock.model import DEFAULT_TENANT, Scope
from penstock.wire import metrics
from tests.wire.conftest import Live, running

NAMES = {
    "http_requests": "counter",
    "http_request_duration_seconds": "histogram",
    "http_connections_active": "gauge",
    "queue_messages_sent": "counter",
    "queue_messages_received": "counter",
    "queue_messages_deleted": "counter",
    "queue_messages_redelivered": "counter",
    "queue_message_send_duration_seconds": "histogram",
    "queue_message_receive_duration_seconds": "histogram",
    "queue_message_delete_duration_seconds": "histogram",
    "queue_message_age_at_receive_seconds": "histogram",
    "queue_delivery_attempts": "counter",
    "queue_delivery_attempt_duration_seconds": "histogram",
    "queue_delivery_exhausted": "counter",
    "queue_coalescer_flush_batch_size": "histogram",
    "queue_depth": "gauge",
    "queue_in_flight": "gauge",
    "db_pool_size": "gauge",
    "db_pool_idle": "gauge",
    "db_pool_active": "gauge",
    "db_pool_acquire_timeouts": "counter",
}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: bytes) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def rendered(insights: Insights, peers: Iterable[bytes] = (), *, per_queue: bool = True) -> Samples:
    return samples(metrics.render(insights, peers, per_queue=per_queue))


async def test_every_metric_is_shown_from_the_start(server: Live, client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain")
    families = {family.name: family.type for family in text_string_to_metric_families(answer.text)}
    assert families == NAMES


async def test_requests_and_messages_are_counted(server: Live, client: httpx.AsyncClient) -> None:
    await client.post("/v1/queues", json={"name": "q"})
    await client.post("/v1/queues/q/messages", json={"message": 1})
    await client.get("/v1/queues/q/messages")
    await client.get("/v1/queues/none")
    await client.get("/nowhere")
    found = samples((await client.get("/metrics")).content)

    sent = (("method", "POST"), ("path", "/v1/queues/{name}/messages"), ("status", "201"))
    assert found["http_requests_total", sent] == 1
    missing = (("method", "GET"), ("path", "/v1/queues/{name}"), ("status", "404"))
    assert found["http_requests_total", missing] == 1
    other = (("method", "GET"), ("path", "(other)"), ("status", "404"))
    assert found["http_requests_total", other] == 1
    assert found["http_connections_active", ()] == 1
    assert found["queue_messages_sent_total", (("queue", "q"),)] == 1
    assert found["queue_messages_received_total", (("queue", "q"),)] == 1
    assert found["queue_message_send_duration_seconds_count", (("queue", "q"),)] == 1
    assert found["db_pool_size", ()] >= 1


def test_buckets_add_up() -> None:
    insights = Insights()
    for value in (0.0005, 0.3, 7.0):
        insights.send_seconds.observe(("q",), value)
    found = rendered(insights)

    def bucket(bound: str) -> float:
        return found["queue_message_send_duration_seconds_bucket", (("le", bound), ("queue", "q"))]

    assert (bucket("0.001"), bucket("0.5"), bucket("1.0"), bucket("+Inf")) == (1, 2, 2, 3)
    assert found["queue_message_send_duration_seconds_sum", (("queue", "q"),)] == pytest.approx(7.3005)


def test_the_processes_of_one_server_add_up_and_what_all_of_them_read_does_not() -> None:
    here, there = Insights(), Insights()
    here.sent.add(("q",), 2)
    there.sent.add(("q",), 3)
    there.sent.add(("r",), 1)
    here.depth.set(("q",), 5)
    there.depth.set(("q",), 6)
    there.age_seconds.observe(("q",), 2.0)
    found = rendered(here, [metrics.dump(there)])

    assert found["queue_messages_sent_total", (("queue", "q"),)] == 5
    assert found["queue_messages_sent_total", (("queue", "r"),)] == 1
    assert found["queue_depth", (("queue", "q"),)] == 6
    assert found["queue_message_age_at_receive_seconds_count", (("queue", "q"),)] == 1


def test_without_names_of_queues_the_sums_remain() -> None:
    here, there = Insights(), Insights()
    for insights in (here, there):
        insights.sent.add(("secret-one",), 2)
        insights.sent.add(("secret-two",), 3)
        insights.depth.set(("secret-one",), 4)
        insights.depth.set(("secret-two",), 4)
        insights.delete_seconds.observe(("secret-one",), 0.2)
    text = metrics.render(here, [metrics.dump(there)], per_queue=False)

    found = samples(text)
    assert b"secret" not in text
    assert found["queue_messages_sent_total", ()] == 10
    assert found["queue_depth", ()] == 8
    assert found["queue_message_delete_duration_seconds_count", ()] == 2


async def test_with_tokens_only_an_admin_sees_names_of_queues() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        admin = (await tenants.create_token(DEFAULT_TENANT, "admin", frozenset({Scope.ADMIN})))[1]
        reader = (await tenants.create_token(DEFAULT_TENANT, "reader", frozenset({Scope.READ})))[1]
        async with live.client(admin) as full, live.client(reader) as narrow:
            await full.post("/v1/queues", json={"name": "secret"})
            await full.post("/v1/queues/secret/messages", json={"message": 1})

            assert 'queue="secret"' in (await full.get("/metrics")).text
            assert "secret" not in (await narrow.get("/metrics")).text
        async with httpx.AsyncClient(base_url=live.url, trust_env=False) as nobody:
            answer = await nobody.get("/metrics")
            assert answer.status_code == 200
            assert "secret" not in answer.text
