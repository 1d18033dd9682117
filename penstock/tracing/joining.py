"""Joining the trace that a program is in.

Where the program uses OpenTelemetry, that is its active span, and handlers run in spans of the program's own tracer.
Elsewhere a context travels along all the same, so that the trace of a producer reaches what its consumers send.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from penstock.tracing.context import TraceContext

NAME = "penstock"

_current: ContextVar[TraceContext | None] = ContextVar("penstock_trace", default=None)


def current() -> TraceContext | None:
    """The context that sends from here carry."""
    api = _api()
    if api is not None:
        found = api.get_current_span().get_span_context()
        if found.is_valid:
            return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", f"{found.trace_flags:02x}")
    return _current.get()


@contextmanager
def use(context: TraceContext | None) -> Iterator[TraceContext | None]:
    """Sends inside the block carry this context."""
    token = _current.set(context)
    api = _api()
    try:
        if api is None:
            yield context
        else:
            span = api.INVALID_SPAN if context is None else api.NonRecordingSpan(_remote(api, context))
            with api.use_span(span):
                yield context
    finally:
        _current.reset(token)


@contextmanager
def processing(
    destination: str, parent: TraceContext | None, attributes: Mapping[str, str | int] | None = None
) -> Iterator[None]:
    """Run the handler of a message or job. It is a span when the program traces, and else a child of the parent."""
    api = _api()
    if api is None:
        with use(_child(parent)):
            yield
        return
    outer = api.set_span_in_context(api.INVALID_SPAN if parent is None else api.NonRecordingSpan(_remote(api, parent)))
    about = {**_about(destination), **(attributes or {})}
    tracer = api.get_tracer(NAME)
    span = tracer.start_span(f"process {destination}", context=outer, kind=api.SpanKind.CONSUMER, attributes=about)
    if not span.is_recording() and (parent is None or span.get_span_context().span_id == int(parent.span_id, 16)):
        # The library is there, but nobody set up a tracer.
        with use(_child(parent)):
            yield
        return
    with api.use_span(span, end_on_exit=True, record_exception=True, set_status_on_exception=True):
        yield


def is_on() -> bool:
    """Whether this program records spans."""
    api = _api()
    return api is not None and not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


def processed(
    destination: str,
    contexts: Sequence[TraceContext],
    start_ns: int,
    end_ns: int,
    attributes: Mapping[str, str | int] | None = None,
) -> None:
    """The span of a batch that was handled in the past: a child of its only producer, or linked to several."""
    api = _api()
    if api is None:
        return
    parent = api.NonRecordingSpan(_remote(api, contexts[0])) if len(contexts) == 1 else api.INVALID_SPAN
    links = [api.Link(_remote(api, each)) for each in contexts] if len(contexts) > 1 else []
    span = api.get_tracer(NAME).start_span(
        f"process {destination}",
        context=api.set_span_in_context(parent),
        kind=api.SpanKind.CONSUMER,
        attributes={**_about(destination), **(attributes or {})},
        links=links,
        start_time=start_ns,
    )
    span.end(end_ns)


def _about(destination: str) -> dict[str, str | int]:
    return {
        "messaging.system": NAME,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": destination,
    }


def _child(parent: TraceContext | None) -> TraceContext | None:
    return parent.child() if parent is not None else None


def _api() -> Any:
    """The API of OpenTelemetry, if this process has imported it. One that has not is in no span."""
    return sys.modules.get("opentelemetry.trace")


def _remote(api: Any, context: TraceContext) -> Any:
    flags = api.TraceFlags(int(context.flags, 16))
    return api.SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=True, trace_flags=flags)
