"""The context of a trace, in the forms in which messages carry it.

W3C's `traceparent` is in HTTP headers, in the message attributes and headers of queues, and in the first extra of an
event. Amazon's trace header is in the system attribute `AWSTraceHeader` of a message; both hold the same ids.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ROOT = re.compile(r"(?:^|;)\s*Root=1-([0-9a-f]{8})-([0-9a-f]{24})(?:;|$)")
_PARENT = re.compile(r"(?:^|;)\s*Parent=([0-9a-f]{16})(?:;|$)")
_SAMPLED = re.compile(r"(?:^|;)\s*Sampled=1(?:;|$)")


@dataclass(frozen=True, slots=True)
class TraceContext:
    trace_id: str
    span_id: str
    flags: str = "01"

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    @property
    def aws_header(self) -> str:
        """As `X-Amzn-Trace-Id` and `AWSTraceHeader` write it."""
        return f"Root=1-{self.trace_id[:8]}-{self.trace_id[8:]};Parent={self.span_id};Sampled={int(self.sampled)}"

    @property
    def sampled(self) -> bool:
        return bool(int(self.flags, 16) & 1)

    def child(self) -> TraceContext:
        return TraceContext(self.trace_id, secrets.token_hex(8), self.flags)

    @classmethod
    def new(cls) -> TraceContext:
        return cls(secrets.token_hex(16), secrets.token_hex(8))

    @classmethod
    def parse(cls, text: str | None) -> TraceContext | None:
        """None for anything that is no traceparent: where it travels, other texts may too."""
        found = _TRACEPARENT.fullmatch(text or "")
        if found is None:
            return None
        version, trace_id, span_id, flags, more = found.groups()
        # Later versions may add to the end; the first has nothing there, and ff is no version.
        if version == "ff" or (version == "00" and more):
            return None
        return _valid(trace_id, span_id, flags)

    @classmethod
    def parse_aws(cls, text: str | None) -> TraceContext | None:
        """None for a header without a parent: there is no span to be a child of."""
        if text is None or (root := _ROOT.search(text)) is None or (parent := _PARENT.search(text)) is None:
            return None
        return _valid(root[1] + root[2], parent[1], "01" if _SAMPLED.search(text) else "00")


def _valid(trace_id: str, span_id: str, flags: str) -> TraceContext | None:
    return TraceContext(trace_id, span_id, flags) if int(trace_id, 16) and int(span_id, 16) else None


def context_of(trace: str | None, attributes: str | None = None, headers: str | None = None) -> TraceContext | None:
    """The context a message carries: in its trace header, its attributes or its headers, the latter two as JSON."""
    if trace is not None and (found := TraceContext.parse_aws(trace) or TraceContext.parse(trace)) is not None:
        return found
    for text in (attributes, headers):
        if text is not None and '"traceparent"' in text and (found := _inside(text)) is not None:
            return found
    return None


def _inside(text: str) -> TraceContext | None:
    try:
        known = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(known, dict):
        return None
    given = known.get("traceparent")
    if isinstance(given, dict):
        # An attribute has a type beside its value.
        given = given.get("value")
    if given is None and isinstance(known.get("_schedule"), dict):
        given = known["_schedule"].get("traceparent")
    return TraceContext.parse(given) if isinstance(given, str) else None
