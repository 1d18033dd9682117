"""The numbers, as Prometheus reads them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.auth import Mode
from penstock.clock import FakeClock
from penstock.engine.metrics import Metrics
from penstock.errors import Invalid
from penstock.loops.scrape import Scrape
from penstock.loops.ticker import Ticker
from penstock.model import DEFAULT_TENANT, Scope, TenantId
from penstock.store import Store
from penstock.store.postgres.store import PostgresStore
from penstock.store.sqlite.store import SqliteStore
from penstock.wire import prometheus
from tests.plain import PLAIN
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
    "queue_delayed": "gauge",
    "queue_oldest_message_seconds": "gauge",
    "queue_sent_messages": "gauge",
    "queue_delivery_failing": "gauge",
    "job_depth": "gauge",
    "job_oldest_ready_seconds": "gauge",
    "schedule_count": "gauge",
    "schedule_overdue": "gauge",
    "schedule_lag_seconds": "gauge",
    "stream_consumer_pending_events": "gauge",
    "stream_consumer_lag_seconds": "gauge",
    "stream_last_tick_age_seconds": "gauge",
    "stream_events_nacked": "counter",
    "stream_ticker_duration_seconds": "histogram",
    "stream_batch_events": "histogram",
    "stream_event_age_at_receive_seconds": "histogram",
    "pipeline_running": "gauge",
    "pipeline_failed": "gauge",
    "pipeline_rows": "gauge",
    "pipeline_lag_events": "gauge",
    "pipeline_lag_seconds": "gauge",
    "pipeline_report_age_seconds": "gauge",
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


def rendered(metrics: Metrics, peers: Iterable[bytes] = (), *, names: bool = True) -> Samples:
    return samples(prometheus.render(metrics, peers, names=names))


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
    owner = (("queue", "q"), ("tenant", "default"))
    assert found["queue_messages_sent_total", owner] == 1
    assert found["queue_messages_received_total", owner] == 1
    assert found["queue_message_send_duration_seconds_count", owner] == 1
    assert found["db_pool_size", ()] >= 1


def test_buckets_add_up() -> None:
    metrics = Metrics()
    for value in (0.0005, 0.3, 7.0):
        metrics.send_seconds.observe(("1", "q"), value)
    found = rendered(metrics)

    def bucket(bound: str) -> float:
        return found["queue_message_send_duration_seconds_bucket", (("le", bound), ("queue", "q"), ("tenant", "1"))]

    assert (bucket("0.001"), bucket("0.5"), bucket("1.0"), bucket("+Inf")) == (1, 2, 2, 3)
    assert found["queue_message_send_duration_seconds_sum", (("queue", "q"), ("tenant", "1"))] == pytest.approx(7.3005)


def test_the_processes_of_one_server_add_up_and_what_all_of_them_read_does_not() -> None:
    here, there = Metrics(), Metrics()
    here.sent.add(("1", "q"), 2)
    there.sent.add(("1", "q"), 3)
    there.sent.add(("2", "r"), 1)
    here.nacked.values = there.nacked.values = {("acme", "audit"): 9}
    here.depth.set(("acme", "q"), 5)
    there.depth.set(("acme", "q"), 6)
    there.age_seconds.observe(("1", "q"), 2.0)
    found = samples(prometheus.render(here, [prometheus.dump(there)], tenants={"1": "acme"}))

    assert found["queue_messages_sent_total", (("queue", "q"), ("tenant", "acme"))] == 5
    assert found["queue_messages_sent_total", (("queue", "r"), ("tenant", "2"))] == 1
    assert found["stream_events_nacked_total", (("stream", "audit"), ("tenant", "acme"))] == 9
    assert found["queue_depth", (("queue", "q"), ("tenant", "acme"))] == 6
    assert found["queue_message_age_at_receive_seconds_count", (("queue", "q"), ("tenant", "acme"))] == 1


def test_without_names_of_queues_the_sums_remain() -> None:
    here, there = Metrics(), Metrics()
    for metrics in (here, there):
        metrics.sent.add(("1", "secret-one"), 2)
        metrics.sent.add(("1", "secret-two"), 3)
        metrics.depth.set(("acme", "secret-one"), 4)
        metrics.depth.set(("acme", "secret-two"), 4)
        metrics.delete_seconds.observe(("1", "secret-one"), 0.2)
    text = prometheus.render(here, [prometheus.dump(there)], names=False)

    found = samples(text)
    assert b"secret" not in text
    assert found["queue_messages_sent_total", ()] == 10
    assert found["queue_depth", ()] == 8
    assert found["queue_message_delete_duration_seconds_count", ()] == 2


def test_without_names_ages_are_the_highest_and_other_labels_stay() -> None:
    here, there = Metrics(), Metrics()
    for metrics in (here, there):
        metrics.jobs.set(("acme", "secret", "dead"), 4)
        metrics.jobs.set(("acme", "secret", "pending"), 1)
        metrics.jobs.set(("default", "mail", "dead"), 2)
        metrics.job_wait_seconds.set(("acme", "secret"), 30)
        metrics.job_wait_seconds.set(("default", "mail"), 20)
        metrics.consumer_lag_seconds.set(("acme", "secret", "shop"), 7)
        metrics.schedules.set(("active",), 3)
    there.job_wait_seconds.set(("acme", "secret"), 31)
    full = rendered(here, [prometheus.dump(there)])
    text = prometheus.render(here, [prometheus.dump(there)], names=False)
    narrow = samples(text)

    assert full["job_depth", (("queue", "secret"), ("status", "dead"), ("tenant", "acme"))] == 4
    assert full["job_oldest_ready_seconds", (("queue", "secret"), ("tenant", "acme"))] == 31
    assert not re.search(rb"acme|secret|shop|mail", text)
    assert narrow["job_depth", (("status", "dead"),)] == 6
    assert narrow["job_depth", (("status", "pending"),)] == 1
    assert narrow["job_oldest_ready_seconds", ()] == 31
    assert narrow["stream_consumer_lag_seconds", ()] == 7
    assert narrow["schedule_count", (("status", "active"),)] == full["schedule_count", (("status", "active"),)] == 3


@pytest.fixture(params=["sqlite", "postgres"])
async def alone(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Live]:
    """A server with a database of its own, whose time stands still: some numbers are of everyone together."""
    store: Store = SqliteStore(None)
    if request.param == "postgres":
        store = PostgresStore(request.getfixturevalue("migrated_database"))
    async with running(store=store, clock=clock) as live:
        yield live


async def scraped(live: Live) -> Samples:
    await Scrape(live.engine).once()
    async with live.client() as client:
        return samples((await client.get("/metrics")).content)


async def test_jobs_show_after_they_were_worked_on(alone: Live, clock: FakeClock) -> None:
    async with alone.client() as client:
        for priority in (5, 5, 5, 0):
            await client.post("/jobs", json={"queue_name": "mail", "payload": 1, "priority": priority})
        for verb, more in (("ack", {}), ("nack", {"error": "no", "retry": False})):
            leased = (await client.post("/queues/mail/lease", json={"worker_id": "ada", "lease_seconds": 3600})).json()
            told = {"lease_token": leased["lease_token"], **more}
            assert (await client.post(f"/jobs/{leased['job']['id']}/{verb}", json=told)).status_code == 200
    clock.advance(seconds=25)
    found = await scraped(alone)

    def depth(status: str) -> float:
        return found["job_depth", (("queue", "mail"), ("status", status), ("tenant", "default"))]

    assert [depth(status) for status in ("pending", "processing", "completed", "dead", "cancelled")] == [2, 0, 1, 1, 0]
    assert found["job_oldest_ready_seconds", (("queue", "mail"), ("tenant", "default"))] == 25


async def test_schedules_show_when_they_are_late(alone: Live, clock: FakeClock) -> None:
    async with alone.client() as client:
        for name, status in (("a", "active"), ("b", "active"), ("c", "paused")):
            given = {"name": name, "every": "1m", "target_kind": "job", "target": "mail", "status": status}
            assert (await client.post("/v1/schedules", json=given)).status_code == 201
    clock.advance(seconds=75)
    late = await scraped(alone)
    await alone.engine.schedules.fire_due()
    fired = await scraped(alone)

    assert (late["schedule_count", (("status", "active"),)], late["schedule_count", (("status", "paused"),)]) == (2, 1)
    assert (late["schedule_overdue", ()], late["schedule_lag_seconds", ()]) == (2, 15)
    assert (fired["schedule_overdue", ()], fired["schedule_lag_seconds", ()]) == (0, 0)


@pytest.mark.parametrize("alone", ["postgres"], indirect=True)
async def test_consumers_of_streams_show_how_far_behind_they_are(alone: Live) -> None:
    async with alone.client() as client:
        await client.post("/v1/streams", json={"name": "orders"})
        for consumer in ("quick", "slow"):
            await client.post("/v1/streams/orders/consumers", json={"name": consumer})
        await client.post("/v1/streams/orders/events", json=[{"payload": n} for n in range(3)])
        batch = (await client.get("/v1/streams/orders/consumers/quick/batch?wait=5")).json()
        path = f"/v1/streams/orders/consumers/quick/batches/{batch['batch_id']}/ack"
        assert (await client.post(path)).status_code == 204
    found = await scraped(alone)

    def of(metric: str, consumer: str) -> float:
        return found[metric, (("consumer", consumer), ("stream", "orders"), ("tenant", "default"))]

    assert of("stream_consumer_pending_events", "quick") == 0
    assert of("stream_consumer_pending_events", "slow") == 3
    assert 0 <= of("stream_consumer_lag_seconds", "quick") <= of("stream_consumer_lag_seconds", "slow") < 60
    assert 0 <= found["stream_last_tick_age_seconds", (("stream", "orders"), ("tenant", "default"))] < 60


async def test_with_tokens_names_are_shown_to_those_who_may_read() -> None:
    async with running(Mode.TOKEN) as live:
        tenants = live.engine.tenants
        admin = (await tenants.create_token(DEFAULT_TENANT, "admin", frozenset({Scope.ADMIN})))[1]
        sender = (await tenants.create_token(DEFAULT_TENANT, "sender", frozenset({Scope.SEND})))[1]
        async with live.client(admin) as full, live.client(sender) as narrow:
            await full.post("/v1/queues", json={"name": "secret"})
            await full.post("/v1/queues/secret/messages", json={"message": 1})

            assert 'queue="secret"' in (await full.get("/metrics")).text
            assert "secret" not in (await narrow.get("/metrics")).text
        async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as nobody:
            answer = await nobody.get("/metrics")
            assert answer.status_code == 200
            assert "secret" not in answer.text


async def test_a_token_sees_its_own_tenant_and_the_queues_within_reach(clock: FakeClock) -> None:
    async with running(Mode.TOKEN, clock=clock) as live:
        tenants = live.engine.tenants
        other = await tenants.create("other")

        async def token(tenant: TenantId, *scopes: Scope, queues: str = "*") -> str:
            return (await tenants.create_token(tenant, "t", frozenset(scopes), queues=queues))[1]

        async def seen(text: str) -> set[str]:
            async with live.client(text) as client:
                return set(re.findall(r'queue="([^"]+)"', (await client.get("/metrics")).text))

        for tenant, prefix in ((DEFAULT_TENANT, "ours"), (other.id, "theirs")):
            async with live.client(await token(tenant, Scope.ADMIN)) as client:
                for name in (f"{prefix}-a", f"{prefix}-b"):
                    await client.post("/v1/queues", json={"name": name})
                    await client.post(f"/v1/queues/{name}/messages", json={"message": 1})
                await client.post("/jobs", json={"payload": 1, "queue_name": f"{prefix}-jobs"})
        await Scrape(live.engine).once()

        theirs = {"theirs-a", "theirs-b", "theirs-jobs"}
        assert await seen(await token(other.id, Scope.ADMIN)) == theirs
        assert await seen(await token(other.id, Scope.READ)) == theirs
        assert await seen(await token(other.id, Scope.READ, queues="*-a")) == {"theirs-a"}
        assert await seen(await token(other.id, Scope.ADMIN, queues="*-a")) == {"theirs-a"}
        assert await seen(await token(other.id, Scope.SEND)) == set()
        assert await seen(await token(DEFAULT_TENANT, Scope.READ)) == {"ours-a", "ours-b", "ours-jobs"}
        everything = theirs | {"ours-a", "ours-b", "ours-jobs"}
        assert await seen(await token(DEFAULT_TENANT, Scope.ADMIN)) == everything
        operator = await token(DEFAULT_TENANT, Scope.OPERATOR)
        assert await seen(operator) == everything
        async with live.client(operator) as client:
            assert (await client.get("/v1/queues")).status_code == 403
            counted = samples((await client.get("/metrics")).content)
        assert counted["queue_messages_sent_total", (("queue", "theirs-a"), ("tenant", "other"))] == 1
        with pytest.raises(Invalid, match="default tenant"):
            await token(other.id, Scope.OPERATOR)


@pytest.mark.parametrize("alone", ["postgres"], indirect=True)
async def test_failures_batches_and_ticks_of_streams_are_counted(alone: Live) -> None:
    async with alone.client() as client:
        await client.post("/v1/streams", json={"name": "orders"})
        await client.post("/v1/streams/orders/consumers", json={"name": "shop"})
        await client.post("/v1/streams/orders/events", json=[{"payload": n} for n in range(3)])
        batch = (await client.get("/v1/streams/orders/consumers/shop/batch?wait=5")).json()
        path = f"/v1/streams/orders/consumers/shop/batches/{batch['batch_id']}/nack"
        for event in batch["events"][:2]:
            assert (await client.post(path, json={"id": event["id"]})).status_code == 204
    await Ticker(alone.engine).once()
    found = await scraped(alone)

    owner = (("stream", "orders"), ("tenant", "default"))
    assert found["stream_events_nacked_total", owner] == 2
    assert (found["stream_batch_events_count", owner], found["stream_batch_events_sum", owner]) == (1, 3)
    assert found["stream_event_age_at_receive_seconds_count", owner] == 3
    assert found["stream_ticker_duration_seconds_count", ()] == 1


@pytest.mark.parametrize("alone", ["postgres"], indirect=True)
async def test_the_last_run_of_each_pipeline_shows(alone: Live, migrated_database: str, clock: FakeClock) -> None:
    runs = [("archive", "failed", 0), ("archive", "running", 5), ("cdc", "failed", 5), ("tables", "running", 300)]
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        for pipeline, state, age_s in runs:
            connection.execute(
                """
                insert into penstock.pipeline_runs
                  (tenant_id, pipeline, settings, state, started_at, seen_at, rows, lag_events, lag_s)
                values (%s, %s, '{}', %s, %s, %s, 10, 7, 2.5)
                """,
                [DEFAULT_TENANT, pipeline, state, clock.now(), clock.now() - timedelta(seconds=age_s)],
            )
    found = await scraped(alone)

    def of(metric: str, pipeline: str) -> float | None:
        return found.get((metric, (("pipeline", pipeline), ("tenant", "default"))))

    assert [of("pipeline_running", name) for name in ("archive", "cdc", "tables")] == [1, 0, 0]
    assert [of("pipeline_failed", name) for name in ("archive", "cdc", "tables")] == [0, 1, 1]
    assert (of("pipeline_lag_events", "archive"), of("pipeline_lag_seconds", "archive")) == (7, 2.5)
    assert (of("pipeline_report_age_seconds", "archive"), of("pipeline_rows", "cdc")) == (5, 10)
    assert of("pipeline_lag_events", "cdc") is None
