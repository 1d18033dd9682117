"""The gauges that are asked for: what they show of jobs, schedules and streams, and how many names they hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.loops.scrape import Scrape
from penstock.model import DEFAULT_TENANT
from penstock.model.gauges import ConsumerGauges, StreamGauges
from penstock.model.jobs import LeaseRequest, NewJob
from penstock.model.schedules import TargetKind
from penstock.model.tenants import TenantId
from penstock.store.sqlite.store import SqliteStore


@pytest.fixture
async def engine(clock: FakeClock) -> AsyncIterator[Engine]:
    engine = Engine(SqliteStore(None), clock)
    await engine.open()
    yield engine
    await engine.close()


async def enqueue(engine: Engine, queue: str, count: int = 1, tenant: TenantId = DEFAULT_TENANT) -> None:
    await engine.jobs.enqueue_batch([NewJob(tenant=tenant, queue=queue, payload="1") for _ in range(count)])


def jobs_of(engine: Engine, status: str = "pending") -> dict[tuple[str, ...], float]:
    return {labels[:2]: value for labels, value in engine.metrics.jobs.values.items() if labels[2] == status}


async def test_jobs_are_shown_by_tenant_queue_and_status(engine: Engine, clock: FakeClock) -> None:
    other = await engine.tenants.create("acme")
    await enqueue(engine, "mail", 3)
    await enqueue(engine, "mail", 1, other.id)
    await engine.jobs.lease(LeaseRequest(tenant=DEFAULT_TENANT, queue="mail", lease_s=60, workers=["ada"]))
    clock.advance(seconds=40)
    await Scrape(engine).once()

    assert jobs_of(engine) == {("default", "mail"): 2, ("acme", "mail"): 1}
    assert jobs_of(engine, "processing") == {("default", "mail"): 1, ("acme", "mail"): 0}
    assert engine.metrics.job_wait_seconds.values == {("default", "mail"): 40, ("acme", "mail"): 40}


async def test_a_queue_without_ready_jobs_has_no_wait(engine: Engine, clock: FakeClock) -> None:
    later = clock.now() + timedelta(hours=1)
    await engine.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue="mail", payload="1", run_at=later))
    clock.advance(seconds=40)
    await Scrape(engine).once()

    assert engine.metrics.job_wait_seconds.values == {("default", "mail"): 0}


async def test_many_queues_of_jobs_share_a_label(engine: Engine, clock: FakeClock) -> None:
    await enqueue(engine, "old")
    clock.advance(seconds=5)
    for number in range(1, 6):
        await enqueue(engine, f"queue-{number}", number)
    await Scrape(engine, most=15).once()

    assert jobs_of(engine) == {("default", "queue-5"): 5, ("default", "queue-4"): 4, ("other", "other"): 7}
    assert len(engine.metrics.jobs.values) == 15
    await Scrape(engine, most=3).once()
    waits = engine.metrics.job_wait_seconds.values
    assert (len(waits), waits["default", "old"], waits["other", "other"]) == (3, 5, 0)


def lateness(engine: Engine) -> list[float]:
    return [engine.metrics.schedules_overdue.values[()], engine.metrics.schedule_lag_seconds.values[()]]


async def test_schedules_are_shown_by_status_and_lateness(engine: Engine, clock: FakeClock) -> None:
    given = {"every": "1m", "target_kind": TargetKind.JOB, "target": "mail", "body": "1"}
    await engine.schedules.create(DEFAULT_TENANT, "tick", given)
    await Scrape(engine).once()
    early = lateness(engine)
    clock.advance(seconds=90)
    await Scrape(engine).once()

    assert engine.metrics.schedules.values == {("active",): 1, ("paused",): 0}
    assert (early, lateness(engine)) == ([0, 0], [1, 30])


class Consumers:
    """Stands in for what SQLite does not have."""

    async def consumers(self) -> Sequence[ConsumerGauges]:
        return [
            ConsumerGauges(tenant=DEFAULT_TENANT, stream="orders", consumer=f"c{n}", pending=n, lag_s=100.0 - n)
            for n in range(5)
        ]

    async def streams(self) -> Sequence[StreamGauges]:
        return [StreamGauges(tenant=TenantId(99), stream="orders", nacked=0, dead=0, tick_age_s=7.0)]


async def test_of_many_consumers_the_latest_keep_their_names(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.gauges, "consumers", Consumers().consumers)
    monkeypatch.setattr(engine.gauges, "streams", Consumers().streams)
    await Scrape(engine, most=3).once()
    pending, lag = engine.metrics.consumer_pending.values, engine.metrics.consumer_lag_seconds.values

    assert pending == {("default", "orders", "c4"): 4, ("default", "orders", "c3"): 3, ("other",) * 3: 3}
    assert lag == {("default", "orders", "c0"): 100, ("default", "orders", "c1"): 99, ("other",) * 3: 98}
    assert engine.metrics.tick_age_seconds.values == {("99", "orders"): 7}


async def test_what_is_gone_is_shown_no_more(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(engine.gauges, "consumers", Consumers().consumers)
        await Scrape(engine).once()
    await Scrape(engine).once()

    assert engine.metrics.consumer_pending.values == {}
