"""Outcomes for charts: counted by nodes, added up by minute and hour, removed when old."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.insights.history import Span
from penstock.model import TenantId
from penstock.model.jobs import Completion, Failure, LeaseRequest, NewJob
from penstock.model.samples import Outcome, OutcomeKind, SampleStep
from penstock.store import Store

START = datetime(2026, 11, 17, 10, 0, tzinfo=UTC)


def outcome(tenant: TenantId, good: int, bad: int) -> Outcome:
    return Outcome(tenant=tenant, kind=OutcomeKind.JOB, good=good, bad=bad)


async def test_nodes_add_to_the_same_minute(store: Store, tenant: TenantId) -> None:
    for good, bad in ((3, 1), (2, 2)):
        await store.samples.add_outcomes(SampleStep.MINUTE, START, [outcome(tenant, good, bad)])

    [found] = await store.samples.outcomes(tenant, SampleStep.MINUTE, START)
    assert (found.kind, found.starts_at, found.good, found.bad) == (OutcomeKind.JOB, START, 5, 3)
    assert await store.samples.outcomes(tenant, SampleStep.HOUR, START) == []
    assert await store.samples.outcomes(tenant, SampleStep.MINUTE, START + timedelta(minutes=1)) == []
    assert await store.samples.outcomes(TenantId(tenant + 1_000_000), SampleStep.MINUTE, START) == []


async def test_old_outcomes_are_removed(store: Store, tenant: TenantId) -> None:
    long_ago = datetime(1981, 1, 1, tzinfo=UTC)
    await store.samples.add_outcomes(SampleStep.HOUR, long_ago, [outcome(tenant, 1, 1)])

    assert await store.samples.sweep(SampleStep.HOUR, long_ago + timedelta(days=1), 100) >= 1
    assert await store.samples.outcomes(tenant, SampleStep.HOUR, long_ago) == []


async def test_reports_of_workers_become_a_series(store: Store, tenant: TenantId, clock: FakeClock) -> None:
    engine = Engine(store, clock)
    for number in range(3):
        await engine.jobs.enqueue(NewJob(tenant=tenant, queue="mail", payload=str(number)))
    request = LeaseRequest(tenant=tenant, queue="mail", lease_s=60, workers=["w"] * 3)
    first, second, third = await engine.jobs.lease(request)
    await engine.jobs.complete(Completion(tenant=tenant, id=first.id, token=first.token))
    await engine.jobs.complete(Completion(tenant=tenant, id=second.id, token=second.token))
    await engine.jobs.fail(Failure(tenant=tenant, id=third.id, token=third.token, error="no"))
    clock.advance(seconds=60)
    assert await engine.outcomes.write() == 1
    assert await engine.outcomes.write() == 0

    for span in (Span.HOUR, Span.WEEK):
        found = await engine.outcomes.series(tenant, span)
        assert (sum(found.jobs_done), sum(found.jobs_failed), sum(found.missed)) == (2, 1, 0), span
        assert set(found.webhook_success) == {None}
