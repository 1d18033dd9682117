"""Samples for charts: kept by minute and hour, found by name, removed when old."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from penstock.model import TenantId
from penstock.model.samples import Sample, SampleKind, SampleStep
from penstock.store import Store

START = datetime(2026, 11, 17, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def sample(tenant: TenantId, waiting: int, name: str = "orders") -> Sample:
    return Sample(
        tenant=tenant, kind=SampleKind.QUEUE, name=name, arrived=waiting * 2, departed=waiting, waiting=waiting,
        oldest_s=1.5,
    )  # fmt: skip


async def waiting(store: Store, tenant: TenantId, since: datetime, name: str = "orders") -> list[int]:
    points = await store.samples.series(tenant, SampleKind.QUEUE, name, SampleStep.MINUTE, since)
    return [point.waiting for point in points]


async def test_a_series_begins_with_the_last_sample_before_it(store: Store, tenant: TenantId) -> None:
    for number in range(5):
        await store.samples.add(SampleStep.MINUTE, START + number * MINUTE, [sample(tenant, number)])

    assert await waiting(store, tenant, START + 2 * MINUTE) == [1, 2, 3, 4]
    assert await waiting(store, tenant, START - MINUTE) == [0, 1, 2, 3, 4]
    assert await waiting(store, tenant, START, "other") == []
    assert await waiting(store, TenantId(tenant + 1_000_000), START) == []
    [point] = await store.samples.series(tenant, SampleKind.QUEUE, "orders", SampleStep.MINUTE, START + 9 * MINUTE)
    assert (point.starts_at, point.arrived, point.departed, point.oldest_s) == (START + 4 * MINUTE, 8, 4, 1.5)


async def test_the_first_sample_of_a_minute_stays(store: Store, tenant: TenantId) -> None:
    await store.samples.add(SampleStep.MINUTE, START, [sample(tenant, 1), sample(tenant, 5, "")])
    await store.samples.add(SampleStep.MINUTE, START, [sample(tenant, 2), sample(tenant, 3, "mail")])

    assert await store.samples.waiting(tenant, SampleKind.QUEUE, START) == {"orders": 1, "": 5, "mail": 3}
    assert await store.samples.waiting(tenant, SampleKind.JOB, START) == {}


async def test_old_samples_are_removed_a_few_at_a_time(store: Store, tenant: TenantId) -> None:
    long_ago = datetime(1980, 1, 1, tzinfo=UTC)
    for number in range(5):
        await store.samples.add(SampleStep.HOUR, long_ago + number * MINUTE, [sample(tenant, number)])
    await store.samples.add(SampleStep.MINUTE, long_ago, [sample(tenant, 9)])

    before = long_ago + 4 * MINUTE
    assert [await store.samples.sweep(SampleStep.HOUR, before, 3) for _ in range(3)] == [3, 1, 0]
    assert await waiting(store, tenant, long_ago) == [9]
    latest = await store.samples.latest(SampleStep.HOUR)
    assert latest is not None
    assert latest >= long_ago + 4 * MINUTE
    assert await store.samples.sweep(SampleStep.MINUTE, before, 3) == 1
