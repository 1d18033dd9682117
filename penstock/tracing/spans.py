"""Spans of this process, exported over OTLP. Needs the extra `otel`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from penstock.tracing.context import TraceContext

log = logging.getLogger(__name__)

SYSTEM = "penstock"
MOST_LINKS = 100
"""A batch may hold thousands of messages; so many of their spans are linked."""
CLOSE_MS = 3000

Attributes = Mapping[str, str | int | float | bool]

__all__ = ["Attributes", "Span", "SpanKind", "Tracer", "open_tracer"]


class Tracer:
    """Makes the spans of one process. Its provider is its own: the program around it may have another."""

    def __init__(self, provider: TracerProvider, version: str) -> None:
        self.provider = provider
        self._tracer = provider.get_tracer(SYSTEM, version)

    def start(
        self,
        name: str,
        kind: SpanKind,
        parent: TraceContext | None = None,
        *,
        links: Iterable[TraceContext] = (),
        attributes: Attributes | None = None,
        start_ns: int | None = None,
    ) -> Span:
        """A span that its caller ends: a child of `parent`, or else of the active span."""
        return self._tracer.start_span(
            name,
            context=None if parent is None else _remote(parent),
            kind=kind,
            attributes=attributes,
            links=[Link(_span_context(each)) for each in links],
            start_time=start_ns,
        )

    @contextmanager
    def span(
        self,
        name: str,
        kind: SpanKind,
        parent: TraceContext | None = None,
        *,
        links: Iterable[TraceContext] = (),
        attributes: Attributes | None = None,
    ) -> Iterator[Span]:
        """The active span of the block. An exception that leaves the block is the span's error."""
        span = self.start(name, kind, parent, links=links, attributes=attributes)
        with trace.use_span(span, end_on_exit=True):
            yield span

    def close(self) -> None:
        """Export what is left, for some seconds at most."""
        self.provider.force_flush(CLOSE_MS)
        self.provider.shutdown()


def open_tracer(endpoint: str, sample_rate: float, *, service: str, version: str) -> Tracer:
    """Spans go to the OTLP/HTTP receiver at `endpoint`; a parent that was sampled decides for its children."""
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(sample_rate)),
        resource=Resource.create({"service.name": service, "service.version": version}),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=traces_url(endpoint), timeout=CLOSE_MS / 1000)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracer(provider, version)


def traces_url(endpoint: str) -> str:
    """The address of the receiver, with the path of traces unless it has a path of its own."""
    return endpoint if urlsplit(endpoint).path.strip("/") else f"{endpoint.rstrip('/')}/v1/traces"


def context_of_span(span: Span) -> TraceContext:
    found = span.get_span_context()
    return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", f"{found.trace_flags:02x}")


def active() -> TraceContext | None:
    span = trace.get_current_span()
    return context_of_span(span) if span.get_span_context().is_valid else None


def messaging(operation: str, destination: str, kind: str | None = None) -> dict[str, str | int]:
    """The attributes that OpenTelemetry's conventions for messaging ask for."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind or operation,
        "messaging.destination.name": destination,
    }


def failed(span: Span, error: str) -> None:
    span.set_status(Status(StatusCode.ERROR, error))


@contextmanager
def activate(span: Span) -> Iterator[None]:
    """The active span of the block, which does not end it."""
    with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        yield


def _span_context(context: TraceContext) -> SpanContext:
    flags = TraceFlags(int(context.flags, 16))
    return SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=True, trace_flags=flags)


def _remote(context: TraceContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(_span_context(context)), Context())
