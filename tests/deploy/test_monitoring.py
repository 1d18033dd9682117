"""The alert rules and the dashboard are those of the metrics, and the rules name what is stuck."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

from deploy import generate
from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.insights import status
from penstock.engine.metrics import Gauge, Metrics
from penstock.loops.scrape import Scrape
from penstock.model import DEFAULT_TENANT, Send
from penstock.model.gauges import ConsumerGauges
from penstock.model.jobs import Failure, LeaseRequest, NewJob
from penstock.model.topics import Attempted, NewSubscription, Publish
from penstock.store.sqlite.store import SqliteStore


def test_the_files_are_those_that_the_generator_writes() -> None:
    assert generate.RULES.read_text() == generate.rules()
    assert generate.DASHBOARD.read_text() == generate.dashboard()


def test_every_alert_is_about_a_metric_that_exists() -> None:
    metrics = {metric.name: metric for metric in Metrics()}
    for alert in generate.ALERTS:
        assert isinstance(metrics[alert.metric], Gauge)
        assert (*alert.labels, *(alert.only or ())[:1]) == metrics[alert.metric].labels
        assert alert.if_any is None or metrics[alert.if_any].labels == alert.labels
        assert set(re.findall(r"\$labels\.(\w+)", alert.summary)) <= set(alert.labels)


def test_the_dashboard_shows_every_metric_once() -> None:
    panels = json.loads(generate.dashboard())["panels"]
    assert [panel["description"] for panel in panels] == [metric.name for metric in Metrics()]
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


@pytest.fixture
async def engine(clock: FakeClock) -> AsyncIterator[Engine]:
    engine = Engine(SqliteStore(None), clock)
    await engine.open()
    yield engine
    await engine.close()


def firing(metrics: Metrics) -> set[tuple[str, ...]]:
    """The alerts that fire, with the values of their labels."""
    gauges = {metric.name: metric for metric in metrics}
    found = set()
    for alert in generate.ALERTS:
        gauge = gauges[alert.metric]
        assert isinstance(gauge, Gauge)
        also = gauges[alert.if_any].values if alert.if_any is not None else {}
        found |= {
            (alert.name, *labels[: len(alert.labels)])
            for labels, value in gauge.values.items()
            if value > alert.above
            and (alert.if_any is None or also[labels])
            and (alert.only is None or labels[-1] == alert.only[1])
        }
    return found


async def fail_twice(engine: Engine, clock: FakeClock) -> None:
    """Deliver to an endpoint that answers 500 each time."""
    new = NewSubscription(
        tenant=DEFAULT_TENANT, pattern="orders.paid", protocol="http", endpoint="http://127.0.0.1:9/hook", secret="s"
    )
    await engine.topics.subscribe(new)
    await engine.topics.publish(Publish(tenant=DEFAULT_TENANT, routing_key="orders.paid", body="{}"))
    for _ in range(2):
        [delivery] = await engine.webhooks.claim()
        retry_at = clock.now()
        attempt = Attempted(id=delivery.id, lease=delivery.lease, delivered=False, retry_at=retry_at, status=500)
        await engine.store.topics.finish_deliveries([attempt], clock.now())
        engine.webhooks._leave(delivery.endpoint_key)


async def bury(engine: Engine, queue: str) -> None:
    """Fail a job that has no retries."""
    await engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue=queue, payload="1", max_retries=0))
    [leased] = await engine.jobs.lease(LeaseRequest(tenant=DEFAULT_TENANT, queue=queue, lease_s=60, workers=["ada"]))
    await engine.jobs.fail(Failure(tenant=DEFAULT_TENANT, id=leased.id, token=leased.token, error="boom"))


async def test_a_stuck_queue_a_failing_endpoint_and_jobs_without_workers_are_named(
    engine: Engine, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "mail", "reminders"):
        await engine.queues.create(DEFAULT_TENANT, name, {})
    await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="orders", body="stuck"))
    # It waits because its sender wants it to.
    await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="reminders", body="later", delay_s=600))
    await engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue="emails", payload="1"))
    await bury(engine, "invoices")
    await fail_twice(engine, clock)
    behind = ConsumerGauges(tenant=DEFAULT_TENANT, stream="audit", consumer="slow", pending=7, lag_s=400.0)

    async def consumers() -> list[ConsumerGauges]:
        return [behind]

    monkeypatch.setattr(engine.store.gauges, "consumers", consumers)
    monkeypatch.setattr(engine.store, "has_streams", True)
    clock.advance(seconds=400)
    await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue="mail", body="fresh"))
    await Scrape(engine).once()
    problems = status.problems(await engine.overview.status(DEFAULT_TENANT))

    assert firing(engine.metrics) == {
        ("PenstockQueueStuck", "default", "orders"),
        ("PenstockJobsWaiting", "default", "emails"),
        ("PenstockJobsDead", "default", "invoices"),
        ("PenstockEndpointFailing", "default", "http://127.0.0.1:9/hook"),
        ("PenstockConsumerBehind", "default", "audit", "slow"),
    }
    assert {(found.kind, found.name) for found in problems} == {
        ("queue", "orders"),
        ("jobs", "emails"),
        ("dead jobs", "invoices"),
        ("endpoint", "http://127.0.0.1:9/hook"),
        ("consumer", "audit/slow"),
    }
    assert status.problems(await engine.overview.status(DEFAULT_TENANT), stuck_s=1000) == [
        found for found in problems if found.kind in ("dead jobs", "endpoint")
    ]


@pytest.mark.parametrize(
    ("failing", "exhausted", "text"),
    [(1, 0, "deliveries: 1 failing"), (0, 3, "deliveries: 3 given up"), (2, 1, "deliveries: 2 failing, 1 given up")],
)
def test_an_endpoint_is_described_by_what_happened(failing: int, exhausted: int, text: str) -> None:
    found = status.EndpointStatus(
        endpoint="http://x", pending=failing, failing=failing, exhausted=exhausted, last_error=None
    )
    assert [one.problem for one in status._endpoint_problems([found])] == [text]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (3600, "1h"), (12_060, "3h21m"), (90_000, "1d1h"), (172_800, "2d")],
)
def test_durations_are_short(seconds: int, text: str) -> None:
    assert status.duration(seconds) == text
