"""The protocol of a server that exports traces: each request is a span.

Imported only when traces are exported, so that they cost other servers nothing.
"""

from __future__ import annotations

from penstock.tracing.context import TraceContext
from penstock.tracing.spans import Span, SpanKind, Tracer, activate, failed
from penstock.wire.http.messages import Request
from penstock.wire.http.protocol import PenstockProtocol

QUIET = frozenset({"/health", "/ready", "/livez", "/readyz", "/metrics"})
"""Probes: they would be most of all traces."""


PRIVATE = "/v1/private"


def _shown_path(request: Request) -> str:
    """The ids of private queues are secrets, and those of one queue must not be found together."""
    if not request.path.startswith(PRIVATE):
        return request.path
    return PRIVATE if request.route is None else request.route.path


class TracedProtocol(PenstockProtocol):
    tracer: Tracer
    _span: Span | None = None

    def _start(self, request: Request) -> None:
        if request.path in QUIET:
            super()._start(request)
            return
        parent = TraceContext.parse(request.found.get(b"traceparent", b"").decode("latin-1"))
        route = "/" if request.route is None else request.route.path
        attributes = {"http.request.method": request.method, "url.path": _shown_path(request), "url.scheme": "http"}
        if request.route is not None:
            attributes["http.route"] = route
        if (agent := request.found.get(b"user-agent")) is not None:
            attributes["user_agent.original"] = agent.decode("latin-1")
        name = f"{request.method} {route}" if request.route is not None else request.method
        self._span = span = self.tracer.start(name, SpanKind.SERVER, parent, attributes=attributes)
        with activate(span):
            super()._start(request)

    def _step(self, error: BaseException | None = None) -> None:
        # The engine resumes a handler from where another request may be active.
        if self._span is None:
            super()._step(error)
        else:
            with activate(self._span):
                super()._step(error)

    def _count(self, request: Request, status: int) -> None:
        super()._count(request, status)
        span, self._span = self._span, None
        if span is not None:
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                failed(span, f"status {status}")
            span.end()
