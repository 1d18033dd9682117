"""The engine of a server that exports traces: the same verbs, each in a span, and messages that carry its context.

Imported only when traces are exported, so that they cost other servers nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from penstock.engine.jobs.jobs import Jobs
from penstock.engine.queues.messages import Messages
from penstock.engine.schedules.schedules import Schedules
from penstock.engine.streams.streams import Streams
from penstock.engine.topics.topics import Topics
from penstock.engine.topics.webhooks import Webhooks
from penstock.errors import PenstockError
from penstock.model.jobs import Enqueued, LeasedJob, LeaseRequest, NewJob
from penstock.model.queues import Message, Receive, Send, Sent
from penstock.model.schedules import Fired, Schedule
from penstock.model.streams import EventBatch, NewEvent
from penstock.model.tenants import TenantId
from penstock.model.topics import Delivery, Publish, Published
from penstock.tracing.context import TraceContext, context_of
from penstock.tracing.spans import (
    MOST_LINKS,
    Span,
    SpanKind,
    Tracer,
    active,
    context_of_span,
    failed,
    messaging,
)

Noun = TypeVar("Noun")

MOST_FIRES = 1000
"""Spans of fires that are kept. Those of fires that other nodes made are forgotten."""


class _Traced:
    tracer: Tracer

    def _producer(self, destination: str, given: TraceContext | None, operation: str = "send") -> Span:
        """The span of one message on its way in. It belongs to the trace that the message names, if it names one."""
        here = active()
        links = [here] if given is not None and here is not None and here.trace_id != given.trace_id else []
        about = messaging(operation, destination, "send")
        return self.tracer.start(f"{operation} {destination}", SpanKind.PRODUCER, given, links=links, attributes=about)

    def _received(
        self, destination: str, contexts: Sequence[TraceContext | None], start_ns: int, operation: str = "receive"
    ) -> None:
        """The span of a receive that found something; those that find nothing are not worth one."""
        links = [context for context in contexts if context is not None][:MOST_LINKS]
        about = messaging(operation, destination, "receive") | {"messaging.batch.message_count": len(contexts)}
        name = f"{operation} {destination}"
        self.tracer.start(name, SpanKind.CLIENT, links=links, attributes=about, start_ns=start_ns).end()


def _end(span: Span, answer: object, message_id: object = None) -> None:
    if isinstance(answer, PenstockError):
        span.set_attribute("error.type", type(answer).__name__)
        failed(span, str(answer))
    elif message_id is not None:
        span.set_attribute("messaging.message.id", str(message_id))
    span.end()


class TracedMessages(_Traced, Messages):
    whole = False

    def __init__(self, *given: Any, tracer: Tracer, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.tracer = tracer

    async def send(self, entry: Send) -> Sent:
        span = self._begin(entry)
        try:
            sent = await super().send(entry)
        except PenstockError as error:
            _end(span, error)
            raise
        _end(span, sent, sent.id)
        return sent

    async def send_batch(self, entries: Sequence[Send]) -> list[Sent | PenstockError]:
        spans = [self._begin(entry) for entry in entries]
        answers = await super().send_batch(entries)
        for span, answer in zip(spans, answers, strict=True):
            _end(span, answer, answer.id if isinstance(answer, Sent) else None)
        return answers

    async def receive(self, request: Receive, wait_s: float = 0.0) -> list[Message]:
        start = time.time_ns()
        messages = await super().receive(request, wait_s)
        if messages:
            contexts = [context_of(each.trace, each.attributes, each.headers) for each in messages]
            self._received(request.queue, contexts, start)
            for message, context in zip(messages, contexts, strict=True):
                if context is not None:
                    message.headers = _with_traceparent(message.headers, context)
        return messages

    def _begin(self, entry: Send) -> Span:
        span = self._producer(entry.queue, context_of(entry.trace, entry.attributes, entry.headers))
        # What the sender gave as AWSTraceHeader stays.
        entry.trace = entry.trace or context_of_span(span).aws_header
        return span


class TracedTopics(_Traced, Topics):
    def __init__(self, *given: Any, tracer: Tracer, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.tracer = tracer

    async def publish(self, publish: Publish) -> Published:
        given = context_of(publish.trace, publish.attributes, publish.headers)
        span = self._producer(publish.topic or publish.routing_key or "", given, "publish")
        publish.trace = context_of_span(span).aws_header
        try:
            published = await super().publish(publish)
        except PenstockError as error:
            _end(span, error)
            raise
        _end(span, published, published.id)
        return published


class TracedWebhooks(_Traced, Webhooks):
    def __init__(self, *given: Any, tracer: Tracer, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.tracer = tracer

    async def _request(self, delivery: Delivery) -> tuple[int | None, str | None]:
        headers = json.loads(delivery.headers)
        about = messaging("deliver", delivery.topic or delivery.routing_key or "", "send") | {
            "http.request.method": "POST",
            "url.full": delivery.endpoint,
            "http.request.resend_count": max(delivery.attempts - 1, 0),
            "messaging.message.id": delivery.message_id,
        }
        parent = TraceContext.parse(headers.get("traceparent"))
        with self.tracer.span("POST", SpanKind.CLIENT, parent, attributes=about) as span:
            headers["traceparent"] = context_of_span(span).traceparent
            status, error = await super()._request(replace(delivery, headers=json.dumps(headers)))
            if status is not None:
                span.set_attribute("http.response.status_code", status)
            if error is not None:
                failed(span, error)
        return status, error


class TracedJobs(_Traced, Jobs):
    def __init__(self, *given: Any, tracer: Tracer, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.tracer = tracer

    async def enqueue(self, entry: NewJob) -> Enqueued:
        span = self._begin(entry)
        try:
            made = await super().enqueue(entry)
        except PenstockError as error:
            _end(span, error)
            raise
        _end(span, made, made.id)
        return made

    async def enqueue_batch(self, entries: Sequence[NewJob]) -> Sequence[Enqueued]:
        spans = [self._begin(entry) for entry in entries]
        try:
            made = await super().enqueue_batch(entries)
        except PenstockError as error:
            for span in spans:
                _end(span, error)
            raise
        for span, each in zip(spans, made, strict=True):
            _end(span, each, each.id)
        return made

    async def lease(self, request: LeaseRequest, wait_s: float = 0.0) -> list[LeasedJob]:
        start = time.time_ns()
        jobs = await super().lease(request, wait_s)
        if jobs:
            traces = await self._store.jobs.traces([job.id for job in jobs])
            for job in jobs:
                found = TraceContext.parse(traces.get(job.id)) or context_of(None, None, job.payload)
                job.trace = None if found is None else found.traceparent
            self._received(request.queue, [TraceContext.parse(job.trace) for job in jobs], start, "lease")
        return jobs

    def _begin(self, entry: NewJob) -> Span:
        span = self._producer(entry.queue, TraceContext.parse(entry.trace), "enqueue")
        entry.trace = context_of_span(span).traceparent
        return span


class TracedStreams(_Traced, Streams):
    def __init__(self, *given: Any, tracer: Tracer, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.tracer = tracer

    async def send(self, tenant: TenantId, name: str, events: Sequence[NewEvent]) -> Sequence[int]:
        given = TraceContext.parse(events[0].extras[0]) if len(events) == 1 else None
        span = self._producer(name, given)
        span.set_attribute("messaging.batch.message_count", len(events))
        trace = context_of_span(span).traceparent
        try:
            ids = await super().send(tenant, name, [_traced(event, trace) for event in events])
        except PenstockError as error:
            _end(span, error)
            raise
        _end(span, ids)
        return ids

    async def receive(
        self, tenant: TenantId, name: str, consumer: str, limit: int = 100, wait_s: float = 0.0
    ) -> EventBatch | None:
        start = time.time_ns()
        batch = await super().receive(tenant, name, consumer, limit, wait_s)
        if batch is not None and batch.events:
            self._received(name, [TraceContext.parse(event.extras[0]) for event in batch.events], start)
        return batch


class TracedSchedules(_Traced, Schedules):
    """A fire begins a trace of its own. Several nodes may plan it; the one that makes it ends the span."""

    def __init__(self, *given: Any, tracer: Tracer, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.tracer = tracer
        self._spans: dict[str, Span] = {}

    def _begin(self, schedule: Schedule) -> Schedule:
        about = messaging("fire", schedule.settings.target, "send") | {"penstock.schedule.name": schedule.name}
        span = self.tracer.start(f"fire {schedule.name}", SpanKind.PRODUCER, attributes=about)
        if len(self._spans) >= MOST_FIRES:
            self._spans.clear()
        trace = context_of_span(span).traceparent
        self._spans[trace] = span
        return replace(schedule, trace=trace)

    def _wake(self, fired: Fired) -> None:
        super()._wake(fired)
        span = self._spans.pop(fired.schedule.trace or "", None)
        if span is not None:
            span.set_attribute("messaging.batch.message_count", len(fired.times))
            span.end()


_TRACED: dict[type, type] = {
    Messages: TracedMessages,
    Topics: TracedTopics,
    Webhooks: TracedWebhooks,
    Jobs: TracedJobs,
    Streams: TracedStreams,
    Schedules: TracedSchedules,
}


def with_tracer(tracer: Tracer) -> Callable[[type[Noun]], Callable[..., Noun]]:
    return lambda noun: partial(_TRACED[noun], tracer=tracer)


def _traced(event: NewEvent, trace: str) -> NewEvent:
    return event if event.extras[0] is not None else replace(event, extras=(trace, *event.extras[1:]))


def _with_traceparent(headers: str | None, context: TraceContext) -> str:
    """The headers of a message, with its trace unless they have one."""
    found = msgspec.json.decode(headers, type=dict[str, msgspec.Raw]) if headers is not None else {}
    if "traceparent" in found:
        return headers or ""
    return msgspec.json.encode({**found, "traceparent": context.traceparent}).decode()
