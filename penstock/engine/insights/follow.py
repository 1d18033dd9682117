"""Follow one thing: from an id or a trace to one timeline across queues, jobs, streams and webhooks.

Nothing is recorded for this. A timeline is what the rows of the database still tell: a message that was deleted
without an archive is gone.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from penstock.clock import Clock
from penstock.engine.checks import check_text
from penstock.engine.jobs.jobs import Jobs
from penstock.errors import DeliveryNotFound, Invalid, JobNotFound
from penstock.model.audit import Act
from penstock.model.follow import FifoGroup, FollowedEvent, FollowedMessage, MessageState, Step, Trail, TrailKind
from penstock.model.jobs import Attempt, AttemptOutcome, Job, JobStatus
from penstock.model.tenants import TenantId
from penstock.model.topics import Delivery, DeliveryState
from penstock.model.traces import beginnings, trace_id_of, trace_id_of_publish
from penstock.model.uuids import number_of, uuid_of
from penstock.store import Store

LONGEST = 200
MOST = 200
"""Messages, events and deliveries of one trail, each."""
RECENT_EVENTS = 20_000
"""Events of each stream that are searched for a trace: the column has no index."""
RECENT_JOBS = 20_000
"""Jobs with a trace that are searched for one."""
GROUPS = 20
HIDDEN = 20
"""Messages in flight and delayed ones that a page shows."""
AMONG = 10_000
"""Messages of a FIFO queue that are counted for its groups."""
ACTS = 500
"""Entries of the audit log that are searched."""

_NUMBER = re.compile(r"(?:(message|delivery|event):)?(?:([A-Za-z0-9_.-]{1,40})/)?([0-9]{1,18})", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NEVER = datetime.max.replace(tzinfo=UTC)

Reaches = Callable[[str], bool]


class Follow:
    def __init__(self, store: Store, clock: Clock, jobs: Jobs) -> None:
        self._store = store
        self._clock = clock
        self._jobs = jobs

    async def trail(self, tenant: TenantId, asked: str, reaches: Reaches) -> Trail:
        """What is known of a message, job, event or delivery, of a publish, or of everything with one trace.

        `reaches` tells which queues, topics and streams the caller may see.
        """
        asked = asked.strip()
        check_text("id", asked)
        if not 0 < len(asked) <= LONGEST:
            raise Invalid(f"an id has 1 to {LONGEST} characters", field="id")
        search = _Search(self._store, self._jobs, self._clock.now(), tenant, reaches)
        await search.find(asked)
        return search.trail(asked)

    async def hidden(self, tenant: TenantId, queue: str) -> Sequence[FollowedMessage]:
        """The messages in flight and delayed that become visible first."""
        check_text("queue", queue)
        return await self._store.follow.hidden(tenant, queue, HIDDEN, self._clock.now())

    async def groups(self, tenant: TenantId, queue: str) -> Sequence[FifoGroup]:
        """The largest groups of a FIFO queue, and the message that each waits for."""
        check_text("queue", queue)
        return await self._store.follow.groups(tenant, queue, AMONG, GROUPS)


class _Search:
    """One request: what was found, and which traces it was found by."""

    def __init__(self, store: Store, jobs: Jobs, now: datetime, tenant: TenantId, reaches: Reaches) -> None:
        self._store = store
        self._jobs = jobs
        self._now = now
        self._tenant = tenant
        self._reaches = reaches
        self._steps: dict[Step, None] = {}
        self._traces: dict[str, None] = {}
        self._complete = True

    async def find(self, asked: str) -> None:
        number = _NUMBER.fullmatch(asked)
        lowered = asked.lower()
        if number is not None:
            await self._numbered(number[1], number[2], int(number[3]))
        elif _UUID.fullmatch(lowered):
            await self._identified(lowered)
        else:
            self._traces[trace_id_of(asked) or asked] = None
        for trace in list(self._traces):
            await self._traced(trace)
        await self._audited()

    def trail(self, asked: str) -> Trail:
        steps = sorted(self._steps, key=lambda step: step.at or _NEVER)
        return Trail(asked=asked, steps=tuple(steps), traces=tuple(self._traces), complete=self._complete)

    async def _numbered(self, kind: str | None, stream: str | None, number: int) -> None:
        if kind in (None, "message") and stream is None:
            self._add_messages(await self._store.follow.messages(self._tenant, number))
        if kind in (None, "delivery") and stream is None:
            with contextlib.suppress(DeliveryNotFound):
                await self._add_deliveries([await self._store.topics.get_delivery(self._tenant, number)])
        if kind in (None, "event"):
            self._add_events(await self._store.follow.events(self._tenant, number, stream))

    async def _identified(self, uuid: str) -> None:
        """A UUID names a job, a message in the way of SQS, or a publish."""
        try:
            job = await self._jobs.get(self._tenant, uuid)
        except JobNotFound:
            pass
        else:
            await self._add_job(job)
            return
        number = number_of(uuid)
        if number is not None:
            self._add_messages(await self._store.follow.messages(self._tenant, number))
        self._traces[trace_id_of_publish(uuid)] = None

    async def _traced(self, trace: str) -> None:
        texts = beginnings(trace)
        self._add_messages(await self._store.follow.traced_messages(self._tenant, texts, MOST))
        self._add_events(await self._store.follow.traced_events(self._tenant, texts, RECENT_EVENTS, MOST))
        for job_id in await self._store.jobs.traced(self._tenant, texts, RECENT_JOBS, MOST):
            with contextlib.suppress(JobNotFound):
                await self._add_job(await self._jobs.get(self._tenant, job_id))
        publish = publish_of_trace(trace)
        if publish is not None:
            await self._add_deliveries(await self._store.follow.deliveries(self._tenant, publish, MOST))

    async def _audited(self) -> None:
        """What people did to the things that were found."""
        found = {(step.kind, step.id) for step in self._steps}
        for act in await self._store.audit.list_acts(self._tenant, None, ACTS):
            subject = _subject_of(act)
            if subject in found:
                step = Step(
                    at=act.at, kind=TrailKind.AUDIT, id=subject[1], where="", what=act.act, detail=f"by {act.actor}"
                )
                self._add([step])

    # Adding

    def _add(self, steps: Iterable[Step]) -> None:
        self._steps.update(dict.fromkeys(steps))

    def _add_trace(self, text: str | None) -> None:
        if text:
            self._traces[trace_id_of(text) or text] = None

    def _add_messages(self, found: Iterable[FollowedMessage]) -> None:
        for count, message in enumerate(found, 1):
            self._complete = self._complete and count < MOST
            if self._reaches(message.queue):
                self._add(_message_steps(message, self._now))
                self._add_trace(message.trace)

    async def _add_job(self, job: Job) -> None:
        if self._reaches(job.queue):
            self._add(_job_steps(job, await self._jobs.attempts(self._tenant, job.id)))
            self._add_trace((await self._store.jobs.traces([job.id])).get(job.id))

    def _add_events(self, found: Iterable[FollowedEvent]) -> None:
        for count, event in enumerate(found, 1):
            self._complete = self._complete and count < MOST
            if self._reaches(event.stream):
                self._add(_event_steps(event))
                self._add_trace(event.trace if trace_id_of(event.trace or "") else None)

    async def _add_deliveries(self, found: Iterable[Delivery]) -> None:
        for count, delivery in enumerate(found, 1):
            self._complete = self._complete and count < MOST
            if self._reaches(delivery.topic or delivery.routing_key or ""):
                self._add(_delivery_steps(delivery))
                self._traces[trace_id_of_publish(delivery.message_id)] = None


def publish_of_trace(trace: str) -> str | None:
    """The publish that began a trace, if it was one: its id is the trace id."""
    if not re.fullmatch(r"[0-9a-f]{32}", trace):
        return None
    return f"{trace[:8]}-{trace[8:12]}-{trace[12:16]}-{trace[16:20]}-{trace[20:]}"


def _subject_of(act: Act) -> tuple[TrailKind, str]:
    """What an act was about, by its words: `job cancelled`, `delivery replayed`, `message deleted`."""
    if act.act.startswith("job "):
        return TrailKind.JOB, act.subject
    if act.act.startswith("delivery "):
        return TrailKind.DELIVERY, act.subject
    try:
        detail = json.loads(act.detail)
    except ValueError:
        detail = {}
    return TrailKind.MESSAGE, str(detail.get("message", "")) if isinstance(detail, dict) else ""


def _message_steps(message: FollowedMessage, now: datetime) -> Iterator[Step]:
    def step(at: datetime | None, what: str, detail: str = "", where: str = message.queue) -> Step:
        return Step(at=at, kind=TrailKind.MESSAGE, id=str(message.id), where=where, what=what, detail=detail)

    first = message.dead_letter_source or message.queue
    by = f"by the schedule {message.schedule}" if message.schedule else f"id over SQS {uuid_of(message.id)}"
    group = f", group {message.group_id}" if message.group_id is not None else ""
    yield step(message.sent_at, "sent", by + group, first)
    if message.first_received_at is not None:
        times = max(message.receives, message.receives_before)
        yield step(message.first_received_at, "first received", f"{_times(times)} in all", first)
    if message.dead_letter_source is not None:
        # The move makes it visible; a later receive changes that.
        moved_at = message.visible_at if message.receives == message.receives_before else None
        yield step(moved_at, "dead-lettered", f"from {message.dead_letter_source}, {_times(message.receives_before)}")
    if message.archived_at is not None:
        yield step(message.archived_at, "deleted and archived", f"{_times(message.receives)}")
    elif message.state is MessageState.IN_FLIGHT and message.visible_at is not None and message.visible_at > now:
        yield step(None, "in flight", f"hidden until {message.visible_at:%Y-%m-%d %H:%M:%S} UTC")
    elif message.state is MessageState.DELAYED and message.visible_at is not None and message.visible_at > now:
        yield step(None, "delayed", f"until {message.visible_at:%Y-%m-%d %H:%M:%S} UTC")
    elif message.state is MessageState.BLOCKED:
        yield step(None, "blocked", "waits for earlier messages of its group")
    else:
        yield step(None, "waiting", f"expires {message.expires_at:%Y-%m-%d %H:%M:%S} UTC" if message.expires_at else "")


def _job_steps(job: Job, attempts: Iterable[Attempt]) -> Iterator[Step]:
    def step(at: datetime | None, what: str, detail: str = "") -> Step:
        return Step(at=at, kind=TrailKind.JOB, id=job.id, where=job.queue, what=what, detail=detail)

    yield step(job.created_at, "enqueued")
    for attempt in attempts:
        number, worker = attempt.attempt, attempt.worker or "a worker"
        yield step(attempt.started_at, "leased", f"attempt {number} by {worker}")
        if attempt.outcome is not AttemptOutcome.RUNNING:
            yield step(
                attempt.ended_at, attempt.outcome.value, f"attempt {number} by {worker}" + _reason(attempt.error)
            )
    if job.status is JobStatus.DEAD:
        yield step(job.finished_at, "dead", job.dead_reason or "")
    elif job.status is JobStatus.CANCELLED:
        yield step(job.finished_at, "cancelled")
    elif job.status is JobStatus.PENDING:
        yield step(None, "waiting", f"runs from {job.run_at:%Y-%m-%d %H:%M:%S} UTC on")


def _event_steps(event: FollowedEvent) -> Iterator[Step]:
    def step(at: datetime | None, what: str, detail: str = "") -> Step:
        return Step(at=at, kind=TrailKind.EVENT, id=str(event.id), where=event.stream, what=what, detail=detail)

    retried = f", {_times(event.retries, 'retried')}" if event.retries else ""
    yield step(event.created_at, "sent", f"type {event.type}{retried}" if event.type else "")
    for died_at, consumer, reason in event.deaths:
        yield step(died_at, "dead-lettered", f"of {consumer}{_reason(reason)}")
    for consumer in event.read_by:
        yield step(None, "read", f"by {consumer}")
    for consumer in event.unread_by:
        yield step(None, "not yet read", f"by {consumer}")


def _delivery_steps(delivery: Delivery) -> Iterator[Step]:
    source = delivery.topic or delivery.routing_key or ""

    def step(at: datetime | None, what: str, detail: str = "") -> Step:
        return Step(at=at, kind=TrailKind.DELIVERY, id=str(delivery.id), where=source, what=what, detail=detail)

    yield Step(at=delivery.created_at, kind=TrailKind.PUBLISH, id=delivery.message_id, where=source, what="published")
    answer = f", last answer {delivery.last_status}" if delivery.last_status is not None else ""
    tried = f"{delivery.attempts} attempts{answer}"
    if delivery.state is DeliveryState.DELIVERED:
        yield step(delivery.finished_at, "delivered", f"to {delivery.endpoint}, {tried}")
    elif delivery.state is DeliveryState.EXHAUSTED:
        yield step(delivery.finished_at, "exhausted", f"{delivery.endpoint}, {tried}{_reason(delivery.last_error)}")
    else:
        due = f"{delivery.due_at:%Y-%m-%d %H:%M:%S} UTC"
        yield step(
            None, delivery.state.value, f"{delivery.endpoint}, {tried}, next {due}{_reason(delivery.last_error)}"
        )


def _times(count: int, verb: str = "received") -> str:
    return f"{verb} once" if count == 1 else f"{verb} {count} times"


def _reason(text: str | None) -> str:
    return f": {text[:LONGEST]}" if text else ""
