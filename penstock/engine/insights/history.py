"""The recent past for charts: what the counters said at the end of each minute, and of each hour.

Rates are differences of counters, so taking a sample costs the same however many messages passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from penstock.clock import Clock
from penstock.model import QueueCounts
from penstock.model.samples import KEPT, Sample, SampledPoint, SampleKind, SampleStep
from penstock.model.tenants import TenantId
from penstock.store import Store

Number = TypeVar("Number", int, float)

MOST_SAMPLES = 2000
"""Rows of one minute. Of more names that changed, those with most waiting are sampled."""
SWEEP_LIMIT = 5000
GROWTH_S = 900
"""What waits is compared with what waited a quarter of an hour ago."""


DAY_STEP = 5
"""A chart of a day has a point for so many minutes: more would not be told apart."""


class Span(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


SPANS: Mapping[Span, tuple[SampleStep, int]] = {
    Span.HOUR: (SampleStep.MINUTE, 60),
    Span.DAY: (SampleStep.MINUTE, 1440),
    Span.WEEK: (SampleStep.HOUR, 168),
    Span.MONTH: (SampleStep.HOUR, 720),
}
"""The step of a span, and how many of them it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One value per step; None where nothing is known."""

    starts_at: Sequence[int]
    """Seconds since 1970."""
    arrived: Sequence[float | None]
    """Per second."""
    departed: Sequence[float | None]
    waiting: Sequence[int | None]
    oldest_s: Sequence[float | None]

    @property
    def known(self) -> bool:
        return any(value is not None for value in self.waiting)


class History:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._last: dict[tuple[TenantId, SampleKind, str], Sample] = {}
        self._sampled: datetime | None = None

    async def record(self) -> int:
        """Take the samples of this minute, unless another node has; the number of rows."""
        minute = floor(self._clock.now(), SampleStep.MINUTE)
        if self._sampled == minute:
            return 0
        samples = self._store.samples
        latest = await samples.latest(SampleStep.MINUTE)
        self._sampled = minute
        if latest is not None and latest >= minute:
            return 0
        found = await self._look()
        # The sums are always stored: they tell a quiet minute from one in which no server ran.
        changed = [sample for sample in found if not sample.name or self._last.get(_key(sample)) != sample]
        changed.sort(key=lambda sample: (sample.name != "", -sample.waiting))
        self._last = {_key(sample): sample for sample in found}
        await samples.add(SampleStep.MINUTE, minute, changed[:MOST_SAMPLES])
        if minute.minute == 0:
            await samples.add(SampleStep.HOUR, minute, found[:MOST_SAMPLES])
        return min(len(changed), MOST_SAMPLES)

    async def sweep(self, limit: int = SWEEP_LIMIT) -> int:
        now = self._clock.now()
        return sum([await self._store.samples.sweep(step, now - kept, limit) for step, kept in KEPT.items()])

    async def series(self, tenant: TenantId, kind: SampleKind, name: str, span: Span) -> Series:
        step, count = SPANS[span]
        last = floor(self._clock.now(), step)
        first = last - (count - 1) * step.length
        points = await self._store.samples.series(tenant, kind, name, step, first)
        until = await self._store.samples.latest(step)
        found = make_series(points, first, step, count, until or first)
        return thinned(found, DAY_STEP) if span is Span.DAY else found

    async def waited(self, tenant: TenantId, kind: SampleKind) -> Mapping[str, int]:
        """What waited a quarter of an hour ago, of the names that changed in that minute."""
        at = floor(self._clock.now() - timedelta(seconds=GROWTH_S), SampleStep.MINUTE)
        return await self._store.samples.waiting(tenant, kind, at)

    async def _look(self) -> list[Sample]:
        found = [_of_queue(tenant, counts, self._clock.now()) for tenant, counts in await self._counts()]
        for consumer in await self._store.gauges.consumers():
            found.append(
                Sample(
                    tenant=consumer.tenant,
                    kind=SampleKind.CONSUMER,
                    name=f"{consumer.stream}/{consumer.consumer}",
                    arrived=None,
                    departed=None,
                    waiting=consumer.pending,
                    oldest_s=round(consumer.lag_s, 1),
                )
            )
        for tenant, counts in await self._store.jobs.counts(None):
            found.append(
                Sample(
                    tenant=tenant, kind=SampleKind.JOB, name=counts.queue, arrived=None, departed=None,
                    waiting=counts.pending + counts.processing, oldest_s=None,
                )
            )  # fmt: skip
        return [*_sums(found), *found]

    async def _counts(self) -> Sequence[tuple[TenantId, QueueCounts]]:
        return await self._store.queue_counts(None, None, self._clock.now())


def floor(moment: datetime, step: SampleStep) -> datetime:
    start = moment.replace(second=0, microsecond=0)
    return start if step is SampleStep.MINUTE else start.replace(minute=0)


def make_series(
    points: Sequence[SampledPoint], first: datetime, step: SampleStep, count: int, until: datetime
) -> Series:
    """Put samples on a grid. Up to `until`, a step without a sample is one in which nothing changed."""
    by_moment = {point.starts_at: point for point in points}
    before = next((point for point in points if point.starts_at < first), None)
    moments = [first + number * step.length for number in range(count)]
    arrived: list[float | None] = []
    departed: list[float | None] = []
    waiting: list[int | None] = []
    oldest: list[float | None] = []
    for moment in moments:
        point = by_moment.get(moment)
        seconds = step.length.total_seconds()
        if point is None:
            known = before is not None and moment <= until
            arrived.append(0.0 if known else None)
            departed.append(0.0 if known else None)
            waiting.append(before.waiting if known and before is not None else None)
            oldest.append(None)
            continue
        arrived.append(_rate(before.arrived if before is not None else None, point.arrived, seconds))
        departed.append(_rate(before.departed if before is not None else None, point.departed, seconds))
        waiting.append(point.waiting)
        oldest.append(point.oldest_s)
        before = point
    return Series(
        starts_at=[int(moment.timestamp()) for moment in moments],
        arrived=arrived,
        departed=departed,
        waiting=waiting,
        oldest_s=oldest,
    )


def thinned(series: Series, size: int) -> Series:
    """Every `size` steps as one: the mean of the rates, the most that waited."""
    starts = range(0, len(series.starts_at), size)

    def mean(values: Sequence[float | None]) -> list[float | None]:
        parts = ([value for value in values[start : start + size] if value is not None] for start in starts)
        return [sum(part) / len(part) if part else None for part in parts]

    def most(values: Sequence[Number | None]) -> list[Number | None]:
        parts = ([value for value in values[start : start + size] if value is not None] for start in starts)
        return [max(part, default=None) for part in parts]

    return Series(
        starts_at=[series.starts_at[start] for start in starts],
        arrived=mean(series.arrived),
        departed=mean(series.departed),
        waiting=most(series.waiting),
        oldest_s=most(series.oldest_s),
    )


def _rate(before: int | None, after: int | None, seconds: float) -> float | None:
    """Per second. A counter that fell belongs to a queue that was deleted and created again."""
    if before is None or after is None:
        return None
    return max(after - before, 0) / seconds


def _key(sample: Sample) -> tuple[TenantId, SampleKind, str]:
    return sample.tenant, sample.kind, sample.name


def _of_queue(tenant: TenantId, counts: QueueCounts, now: datetime) -> Sample:
    oldest = counts.oldest_sent_at
    return Sample(
        tenant=tenant,
        kind=SampleKind.QUEUE,
        name=counts.queue,
        arrived=counts.sent,
        departed=max(counts.sent - counts.total, 0),
        waiting=counts.total,
        oldest_s=max(round((now - oldest).total_seconds(), 1), 0.0) if oldest is not None else None,
    )


def _sums(samples: Sequence[Sample]) -> list[Sample]:
    """All queues of a tenant together, all its queues of jobs, all its consumers."""
    groups: dict[tuple[TenantId, SampleKind], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.tenant, sample.kind), []).append(sample)
    return [
        Sample(
            tenant=tenant,
            kind=kind,
            name="",
            arrived=sum(one.arrived or 0 for one in group) if kind is SampleKind.QUEUE else None,
            departed=sum(one.departed or 0 for one in group) if kind is SampleKind.QUEUE else None,
            waiting=sum(one.waiting for one in group),
            oldest_s=max((one.oldest_s for one in group if one.oldest_s is not None), default=None),
        )
        for (tenant, kind), group in groups.items()
    ]
