"""Trace ids in the headers that carry them: `traceparent` of W3C, and the one of AWS X-Ray."""

from __future__ import annotations

import re

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_W3C = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_XRAY = re.compile(r"(?:Root=)?1-([0-9a-f]{8})-([0-9a-f]{24})(?:;.*)?")


def trace_id_of(text: str) -> str | None:
    """The 32 digits of a trace id, however it is written; None for other texts."""
    text = text.strip()
    for form in (_TRACE_ID, _W3C, _XRAY):
        found = form.fullmatch(text)
        if found is not None:
            return "".join(found.groups()) or found[0]
    return None


def beginnings(trace: str) -> list[str]:
    """What a stored header that carries this trace begins with."""
    if _TRACE_ID.fullmatch(trace):
        return [f"00-{trace}", f"Root=1-{trace[:8]}-{trace[8:]}", trace]
    return [trace]


def trace_id_of_publish(publish_id: str) -> str:
    """A publish without a trace begins one, with its own id as the trace id."""
    return publish_id.replace("-", "").lower()


def trace_of_publish(publish_id: str) -> str:
    """As a `traceparent` that is not sampled. The first half of the id stands for the span."""
    trace = trace_id_of_publish(publish_id)
    return f"00-{trace}-{trace[:16]}-00"


def begun_by_publish(trace: str | None) -> bool:
    """Whether `trace_of_publish` made it, so that no sender gave it."""
    found = _W3C.fullmatch(trace) if trace is not None else None
    return found is not None and found[0] == f"00-{found[1]}-{found[1][:16]}-00"
