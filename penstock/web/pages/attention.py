"""What needs attention: conditions that someone should look at, each with the page where it is fixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from penstock.model.gauges import ConsumerGauges, EndpointGauges, PipelineGauges, StreamGauges
from penstock.model.jobs import JobCounts
from penstock.model.schedules import Schedule, ScheduleStatus
from penstock.model.streams import Stream
from penstock.model.topics import Delivery
from penstock.web.formats import age, duration, thousands
from penstock.web.pages.queue_rows import QueueRow
from penstock.web.site import path_of

UNRECEIVED_S = 600
"""Messages that wait so long while none is in flight: probably nobody receives."""
LATE_S = 60
LEVELS = ("critical", "warning", "note")
NEARLY_EXPIRED = 0.75
NEARLY_FULL = 0.9
MOST_DEAD = 1000
RECENT = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    level: str
    """`critical`: messages are or will be lost. `warning`: something waits or has failed. `note`: someone paused it."""
    subject: str
    text: str
    link: str


def ordered(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: (LEVELS.index(problem.level), problem.subject))


def queue_problems(rows: Iterable[QueueRow]) -> Iterator[Problem]:
    """One problem per queue, the worst."""
    for row in rows:
        problem = _expiring(row) or _full(row) or _dead_letters(row) or _unreceived(row)
        if problem is not None:
            yield problem


def growth_problems(rows: Iterable[QueueRow], waited: Mapping[str, int]) -> Iterator[Problem]:
    """Queues that hold half as much again as a quarter of an hour ago, and a hundred messages more."""
    for row in rows:
        before = waited.get(row.name)
        if before is None or row.total < max(before * 1.5, before + 100):
            continue
        text = f"Growing: {thousands(row.total)} messages, {thousands(before)} a quarter of an hour ago."
        yield Problem(level="warning", subject=row.name, text=text, link=path_of("queues", row.name))


def job_problems(counts: Iterable[JobCounts], now: datetime) -> Iterator[Problem]:
    for one in counts:
        if one.dead:
            text = f"{thousands(one.dead)} dead {'job' if one.dead == 1 else 'jobs'}."
            link = f"/ui/jobs?{urlencode({'queue': one.queue, 'status': 'dead'})}"
            yield Problem(level="warning", subject=one.queue, text=text, link=link)
        since = one.oldest_pending_created_at
        if one.pending and not one.processing and since is not None and (now - since).total_seconds() > UNRECEIVED_S:
            text = f"{thousands(one.pending)} pending jobs and none in processing for {age(since, now)}: no worker?"
            link = f"/ui/jobs?{urlencode({'queue': one.queue})}"
            yield Problem(level="warning", subject=one.queue, text=text, link=link)


def delivery_problems(exhausted: Sequence[Delivery], most: int) -> Iterator[Problem]:
    if exhausted:
        count = f"{most} or more" if len(exhausted) >= most else str(len(exhausted))
        text = f"{count} exhausted: their last retry failed. The latest goes to {exhausted[0].endpoint}."
        yield Problem(level="warning", subject="Webhook deliveries", text=text, link="/ui/deliveries?state=exhausted")


def schedule_problems(schedules: Iterable[Schedule], now: datetime) -> Iterator[Problem]:
    for one in schedules:
        link = path_of("schedules", one.name)
        if one.consecutive_failures:
            paused = " and is paused" if one.status is ScheduleStatus.PAUSED else ""
            text = f"The schedule failed {one.consecutive_failures} times in a row{paused}: {one.last_error}"
            yield Problem(level="warning", subject=one.name, text=text, link=link)
        elif one.status is ScheduleStatus.ACTIVE and (now - one.due_at).total_seconds() > LATE_S:
            text = f"The schedule is {age(one.due_at, now)} late: does a server fire schedules?"
            yield Problem(level="warning", subject=one.name, text=text, link=link)
        elif one.status is ScheduleStatus.PAUSED:
            yield Problem(level="note", subject=one.name, text="The schedule is paused.", link=link)


def stream_problems(streams: Iterable[Stream]) -> Iterator[Problem]:
    for one in streams:
        if one.settings.paused:
            text = "The ticker of the stream is paused: consumers get nothing new."
            yield Problem(level="note", subject=one.name, text=text, link=path_of("streams", one.name))


def consumer_problems(consumers: Iterable[ConsumerGauges]) -> Iterator[Problem]:
    for one in consumers:
        if one.pending and one.lag_s > UNRECEIVED_S:
            text = f"{one.consumer} is {duration(one.lag_s)} behind, with {thousands(one.pending)} events: is it stuck?"
            yield Problem(level="warning", subject=one.stream, text=text, link=path_of("streams", one.stream))


def dead_event_problems(streams: Iterable[StreamGauges]) -> Iterator[Problem]:
    for one in streams:
        if one.dead:
            more = " or more" if one.dead >= MOST_DEAD else ""
            text = f"{thousands(one.dead)}{more} dead {'letter' if one.dead == 1 else 'letters'}."
            yield Problem(level="warning", subject=one.stream, text=text, link=path_of("streams", one.stream))


def pipeline_problems(pipelines: Iterable[PipelineGauges], now: datetime) -> Iterator[Problem]:
    for one in pipelines:
        if one.failed and now - one.seen_at < RECENT:
            text = f"The last run of the pipeline failed or was lost, {age(one.seen_at, now)} ago."
            yield Problem(level="warning", subject=one.pipeline, text=text, link=path_of("pipelines"))


def endpoint_problems(endpoints: Iterable[EndpointGauges]) -> Iterator[Problem]:
    for one in endpoints:
        deliveries, keep = ("delivery", "keeps") if one.failing == 1 else ("deliveries", "keep")
        count = f"{thousands(one.failing)} {deliveries}"
        text = f"{count} to {one.endpoint} {keep} failing; between attempts it is left alone."
        yield Problem(level="warning", subject="Webhook endpoint", text=text, link="/ui/deliveries?state=pending")


def _expiring(row: QueueRow) -> Problem | None:
    if row.queue is None or row.oldest_s is None:
        return None
    retention_s = row.queue.settings.retention_s
    if row.oldest_s < NEARLY_EXPIRED * retention_s:
        return None
    text = f"The oldest message is {duration(row.oldest_s)} old and is deleted after {duration(retention_s)}."
    return Problem(level="critical", subject=row.name, text=text, link=path_of("queues", row.name))


def _full(row: QueueRow) -> Problem | None:
    most = row.queue.settings.max_length if row.queue is not None else None
    if most is None or row.total < NEARLY_FULL * most:
        return None
    text = f"{thousands(row.total)} of at most {thousands(most)} messages: sends to a full queue are refused."
    return Problem(level="critical", subject=row.name, text=text, link=path_of("queues", row.name))


def _dead_letters(row: QueueRow) -> Problem | None:
    if not row.sources or not row.total:
        return None
    of = row.sources[0] if len(row.sources) == 1 else f"{len(row.sources)} queues"
    text = f"{thousands(row.total)} dead {'letter' if row.total == 1 else 'letters'} of {of}."
    return Problem(level="warning", subject=row.name, text=text, link=path_of("queues", row.name))


def _unreceived(row: QueueRow) -> Problem | None:
    if row.sources or not row.visible or row.in_flight or row.oldest_s is None or row.oldest_s < UNRECEIVED_S:
        return None
    text = f"{thousands(row.visible)} waiting, none in flight, the oldest for {duration(row.oldest_s)}: no receiver?"
    return Problem(level="warning", subject=row.name, text=text, link=path_of("queues", row.name))
