"""Outcomes of jobs, webhook deliveries and schedules, counted here and written once a minute: charts read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from penstock.clock import Clock
from penstock.engine.insights.history import DAY_STEP, SPANS, Span, floor
from penstock.errors import Unsupported
from penstock.model.pipelines import RunState
from penstock.model.samples import Outcome, OutcomeKind, OutcomePoint, SampleStep
from penstock.model.tenants import TenantId
from penstock.store import Store

RUNS = 500
"""Runs of pipelines that a chart looks at."""
BEHIND = timedelta(seconds=30)
"""What was counted is written shortly after its minute ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSeries:
    """One value per minute or hour. None where nothing happened that a rate could be told of."""

    starts_at: Sequence[int]
    jobs_done: Sequence[int]
    jobs_failed: Sequence[int]
    webhooks_failed: Sequence[int]
    webhook_success: Sequence[float | None]
    """Per cent of the attempts."""
    fired: Sequence[int]
    missed: Sequence[int]
    runs_done: Sequence[int]
    runs_failed: Sequence[int]


class Outcomes:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counts: dict[tuple[TenantId, OutcomeKind], tuple[int, int]] = {}

    def count(self, tenant: TenantId, kind: OutcomeKind, *, good: int = 0, bad: int = 0) -> None:
        before = self._counts.get((tenant, kind), (0, 0))
        self._counts[tenant, kind] = (before[0] + good, before[1] + bad)

    async def write(self) -> int:
        """Add what this node counted to its minute and its hour. A node that crashes loses less than a minute."""
        counted, self._counts = self._counts, {}
        found = [
            Outcome(tenant=tenant, kind=kind, good=good, bad=bad) for (tenant, kind), (good, bad) in counted.items()
        ]
        if found:
            moment = self._clock.now() - BEHIND
            for step in SampleStep:
                await self._store.samples.add_outcomes(step, floor(moment, step), found)
        return len(found)

    async def series(self, tenant: TenantId, span: Span) -> OutcomeSeries:
        step, count = SPANS[span]
        first = floor(self._clock.now(), step) - (count - 1) * step.length
        points = await self._store.samples.outcomes(tenant, step, first)
        size = DAY_STEP if span is Span.DAY else 1
        moments = [first + number * step.length for number in range(0, count, size)]
        return make_outcomes(points, await self._runs(tenant, step, first), moments, size * step.length)

    async def _runs(self, tenant: TenantId, step: SampleStep, first: datetime) -> Mapping[datetime, tuple[int, int]]:
        """Runs of pipelines that ended, and that failed. They write their own rows, and are few."""
        try:
            runs = await self._store.pipelines.list_runs(tenant, None, RUNS, self._clock.now())
        except Unsupported:
            return {}
        found: dict[datetime, tuple[int, int]] = {}
        for run in runs:
            if run.finished_at is None or run.finished_at < first:
                continue
            moment, failed = floor(run.finished_at, step), run.state is not RunState.DONE
            done, bad = found.get(moment, (0, 0))
            found[moment] = (done + (not failed), bad + failed)
        return found


def make_outcomes(
    points: Sequence[OutcomePoint],
    runs: Mapping[datetime, tuple[int, int]],
    moments: Sequence[datetime],
    length: timedelta,
) -> OutcomeSeries:
    """`length` is the time between two moments: what happened in it is added up."""
    by_kind: dict[OutcomeKind, dict[datetime, tuple[int, int]]] = {kind: {} for kind in OutcomeKind}
    for point in points:
        _add(by_kind[point.kind], _start(point.starts_at, moments[0], length), point.good, point.bad)
    ended: dict[datetime, tuple[int, int]] = {}
    for at, (good, bad) in runs.items():
        _add(ended, _start(at, moments[0], length), good, bad)

    def column(found: Mapping[datetime, tuple[int, int]], place: int) -> list[int]:
        return [found.get(moment, (0, 0))[place] for moment in moments]

    jobs, deliveries, fires = (by_kind[kind] for kind in OutcomeKind)
    return OutcomeSeries(
        starts_at=[int(moment.timestamp()) for moment in moments],
        jobs_done=column(jobs, 0),
        jobs_failed=column(jobs, 1),
        webhooks_failed=column(deliveries, 1),
        webhook_success=[_percent(*deliveries.get(moment, (0, 0))) for moment in moments],
        fired=column(fires, 0),
        missed=column(fires, 1),
        runs_done=column(ended, 0),
        runs_failed=column(ended, 1),
    )


def _start(at: datetime, first: datetime, length: timedelta) -> datetime:
    return first + (at - first) // length * length


def _add(found: dict[datetime, tuple[int, int]], at: datetime, good: int, bad: int) -> None:
    before = found.get(at, (0, 0))
    found[at] = (before[0] + good, before[1] + bad)


def _percent(good: int, bad: int) -> float | None:
    return round(100 * good / (good + bad), 1) if good + bad else None
