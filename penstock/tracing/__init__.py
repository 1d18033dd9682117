"""Trace contexts that travel with messages, and the spans of OpenTelemetry.

`context` and `joining` need nothing that is not installed with Penstock. `spans` needs the extra `otel` and is
imported only by processes that export traces.
"""

from penstock.tracing.context import TraceContext, context_of
from penstock.tracing.joining import current, is_on, processed, processing, use

__all__ = ["TraceContext", "context_of", "current", "is_on", "processed", "processing", "use"]
