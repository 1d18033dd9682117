"""W3C trace context: the producer's goes along in `ev_extra1`, the handler runs inside a child of it.

A send inside a handler therefore belongs to the same trace without any argument. Nothing is exported
from here: `TraceContext.traceparent` is what a tracing library takes to start its span.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class TraceContext:
    trace_id: str
    span_id: str
    flags: str = "01"

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def child(self) -> TraceContext:
        return TraceContext(self.trace_id, secrets.token_hex(8), self.flags)

    @classmethod
    def new(cls) -> TraceContext:
        return cls(secrets.token_hex(16), secrets.token_hex(8))

    @classmethod
    def parse(cls, text: str | None) -> TraceContext | None:
        """None for anything that is no traceparent: the column is free for other uses."""
        found = _TRACEPARENT.fullmatch(text or "")
        if found is None:
            return None
        version, trace_id, span_id, flags, more = found.groups()
        # Later versions may add to the end; the first has nothing there, and ff is no version.
        if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
            return None
        return cls(trace_id, span_id, flags)


_current: ContextVar[TraceContext | None] = ContextVar("penstock_trace", default=None)


def current() -> TraceContext | None:
    """The context that sends from here carry."""
    return _current.get()


@contextmanager
def use(context: TraceContext | None) -> Iterator[TraceContext | None]:
    """Sends inside the block carry this context."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)
