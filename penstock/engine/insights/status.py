"""The state of one tenant at a glance, and what looks wrong in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.clock import Clock
from penstock.engine.insights.gauges import FAILING_ATTEMPTS
from penstock.model.gauges import ConsumerGauges, JobGauges
from penstock.model.jobs import JobStatus
from penstock.model.queues import Queue, QueueCounts
from penstock.model.schedules import Schedule, ScheduleStatus
from penstock.model.tenants import TenantId
from penstock.model.topics import Delivery, DeliveryState
from penstock.store import Store

STUCK_S = 300
"""Seconds after which a message, a job, a consumer or a schedule that waits is a problem. The alerts use it too."""
MOST = 1000
"""Schedules are looked at up to this number."""
MOST_DELIVERIES = 200
"""Deliveries of each state, newest first, are looked at up to this number: they come with their bodies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    name: str
    visible: int
    in_flight: int
    delayed: int
    sent: int
    oldest_s: float | None
    """Age of the oldest message; None when there is none."""
    holds_dead_letters: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueueStatus:
    name: str
    pending: int
    processing: int
    dead: int
    wait_s: float | None
    """How long the job that has been ready longest waits for a worker; None when none is ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    stream: str
    consumer: str
    pending: int
    lag_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStatus:
    """Of an endpoint with unfinished or failed deliveries."""

    endpoint: str
    pending: int
    failing: int
    """Unfinished deliveries that failed at least twice."""
    exhausted: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleStatusLine:
    name: str
    status: str
    due_s: float
    """Seconds since it should have fired; 0 when it is not due."""
    failures: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Problem:
    kind: str
    """`queue`, `dead letters`, `jobs`, `dead jobs`, `consumer`, `endpoint` or `schedule`."""
    name: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    at: datetime
    queues: Sequence[QueueStatus]
    jobs: Sequence[JobQueueStatus]
    consumers: Sequence[ConsumerStatus]
    endpoints: Sequence[EndpointStatus]
    schedules: Sequence[ScheduleStatusLine]


class Overview:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def status(self, tenant: TenantId) -> Status:
        now = self._clock.now()
        return Status(
            at=now,
            queues=await self.queues(tenant),
            jobs=[_jobs(found, now) for found in await self._store.gauges.jobs() if found.tenant == tenant],
            consumers=[_consumer(found) for found in await self._consumers() if found.tenant == tenant],
            endpoints=await self._endpoints(tenant),
            schedules=[_schedule(found, now) for found in await self._schedules(tenant)],
        )

    async def queues(self, tenant: TenantId) -> list[QueueStatus]:
        now = self._clock.now()
        holders = {queue.settings.dead_letter_queue for queue in await self._all_queues(tenant)}
        counts = await self._store.queue_counts(tenant, None, now)
        return sorted((_queue(found, holders, now) for _, found in counts), key=lambda found: found.name)

    async def _all_queues(self, tenant: TenantId) -> list[Queue]:
        found: list[Queue] = []
        while page := await self._store.list_queues(
            tenant, prefix="", after=found[-1].name if found else "", limit=MOST
        ):
            found += page
        return found

    async def _consumers(self) -> Sequence[ConsumerGauges]:
        return await self._store.gauges.consumers() if self._store.has_streams else ()

    async def _schedules(self, tenant: TenantId) -> Sequence[Schedule]:
        return await self._store.schedules.list(tenant, status=None, kind=None, prefix="", limit=MOST)

    async def _endpoints(self, tenant: TenantId) -> list[EndpointStatus]:
        found: dict[str, list[Delivery]] = {}
        for state in (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.EXHAUSTED):
            for delivery in await self._store.topics.list_deliveries(tenant, state=state, limit=MOST_DELIVERIES):
                found.setdefault(delivery.endpoint, []).append(delivery)
        return [_endpoint(name, deliveries) for name, deliveries in sorted(found.items())]


def problems(status: Status, stuck_s: float = STUCK_S) -> list[Problem]:
    """What an operator should look at. A message that waits longer than `stuck_s` is stuck."""
    return [
        *_queue_problems(status.queues, stuck_s),
        *_job_problems(status.jobs, stuck_s),
        *_consumer_problems(status.consumers, stuck_s),
        *_endpoint_problems(status.endpoints),
        *_schedule_problems(status.schedules, stuck_s),
    ]


def _queue_problems(queues: Sequence[QueueStatus], stuck_s: float) -> Iterator[Problem]:
    for queue in queues:
        total = queue.visible + queue.in_flight + queue.delayed
        if queue.holds_dead_letters and total:
            yield Problem("dead letters", queue.name, f"holds {_counted(total, 'dead letter')}")
        elif queue.oldest_s is not None and queue.oldest_s > stuck_s and queue.visible + queue.in_flight:
            yield Problem("queue", queue.name, f"the oldest message has waited {duration(queue.oldest_s)}")


def _job_problems(jobs: Sequence[JobQueueStatus], stuck_s: float) -> Iterator[Problem]:
    for queue in jobs:
        if queue.wait_s is not None and queue.wait_s > stuck_s:
            yield Problem("jobs", queue.name, f"a ready job has waited {duration(queue.wait_s)} for a worker")
        if queue.dead:
            yield Problem("dead jobs", queue.name, f"has {_counted(queue.dead, 'dead job')}")


def _consumer_problems(consumers: Sequence[ConsumerStatus], stuck_s: float) -> Iterator[Problem]:
    for found in consumers:
        if found.pending and found.lag_s > stuck_s:
            behind = f"is {_counted(found.pending, 'event')} and {duration(found.lag_s)} behind"
            yield Problem("consumer", f"{found.stream}/{found.consumer}", behind)


def _endpoint_problems(endpoints: Sequence[EndpointStatus]) -> Iterator[Problem]:
    for found in endpoints:
        if found.failing or found.exhausted:
            counts = {"failing": found.failing, "given up": found.exhausted}
            text = "deliveries: " + ", ".join(f"{number} {what}" for what, number in counts.items() if number)
            yield Problem("endpoint", found.endpoint, text + (f": {found.last_error}" if found.last_error else ""))


def _schedule_problems(schedules: Sequence[ScheduleStatusLine], stuck_s: float) -> Iterator[Problem]:
    for found in schedules:
        if found.status == ScheduleStatus.PAUSED and found.failures:
            failures = _counted(found.failures, "failure")
            yield Problem("schedule", found.name, f"was paused after {failures}: {found.last_error}")
        elif found.failures:
            times = _counted(found.failures, "time")
            yield Problem("schedule", found.name, f"failed {times} in a row: {found.last_error}")
        elif found.due_s > stuck_s:
            yield Problem("schedule", found.name, f"should have fired {duration(found.due_s)} ago")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """`45s`, `12m`, `3h20m`, `5d`."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if hours:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{minutes}m" if minutes else f"{int(seconds)}s"


def _age(moment: datetime | None, now: datetime) -> float | None:
    return max((now - moment).total_seconds(), 0.0) if moment is not None else None


def _queue(found: QueueCounts, holders: set[str | None], now: datetime) -> QueueStatus:
    return QueueStatus(
        name=found.queue,
        visible=found.visible,
        in_flight=found.in_flight,
        delayed=found.delayed,
        sent=found.sent,
        oldest_s=_age(found.oldest_sent_at, now),
        holds_dead_letters=found.queue in holders,
    )


def _jobs(found: JobGauges, now: datetime) -> JobQueueStatus:
    # A job that may not start yet has its moment in the future.
    ready = found.ready_since is not None and found.ready_since <= now
    return JobQueueStatus(
        name=found.queue,
        pending=found.jobs[JobStatus.PENDING],
        processing=found.jobs[JobStatus.PROCESSING],
        dead=found.jobs[JobStatus.DEAD],
        wait_s=_age(found.ready_since, now) if ready else None,
    )


def _consumer(found: ConsumerGauges) -> ConsumerStatus:
    return ConsumerStatus(stream=found.stream, consumer=found.consumer, pending=found.pending, lag_s=found.lag_s)


def _endpoint(name: str, deliveries: Sequence[Delivery]) -> EndpointStatus:
    open_ones = [found for found in deliveries if found.state is not DeliveryState.EXHAUSTED]
    latest = max(deliveries, key=lambda found: found.id)
    return EndpointStatus(
        endpoint=name,
        pending=len(open_ones),
        failing=sum(found.attempts >= FAILING_ATTEMPTS for found in open_ones),
        exhausted=len(deliveries) - len(open_ones),
        last_error=next((found.last_error for found in (latest, *deliveries) if found.last_error), None),
    )


def _schedule(found: Schedule, now: datetime) -> ScheduleStatusLine:
    active = found.status is ScheduleStatus.ACTIVE
    return ScheduleStatusLine(
        name=found.name,
        status=found.status.value,
        due_s=max((now - found.due_at).total_seconds(), 0.0) if active else 0.0,
        failures=found.consecutive_failures,
        last_error=found.last_error,
    )
