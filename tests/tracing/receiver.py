"""An OTLP/HTTP receiver that decodes what it is sent, and the spans as tests look at them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from penstock.tracing import TraceContext

KINDS = {number: name.removeprefix("SPAN_KIND_").lower() for name, number in WireSpan.SpanKind.items()}


@dataclass(frozen=True)
class Seen:
    service: str
    name: str
    kind: str
    context: TraceContext
    parent: str | None
    """The id of the parent span."""
    links: tuple[str, ...]
    """Ids of linked spans."""
    attributes: dict[str, Any] = field(hash=False)
    error: str | None


class Receiver:
    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Seen] = []
        self.paths: set[str] = set()
        self._arrived = threading.Condition()

    def take(self, path: str, body: bytes) -> None:
        found = ExportTraceServiceRequest.FromString(body)
        with self._arrived:
            self.paths.add(path)
            for resource in found.resource_spans:
                service = _values(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    self.spans += [_seen(service, span) for span in scope.spans]
            self._arrived.notify_all()

    def one(self, name: str, service: str | None = None) -> Seen:
        """The only span of this name. Waits until it has been exported."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._named(name, service), 20)
            found = self._named(name, service)
        assert len(found) == 1, f"{len(found)} spans {name!r} among {sorted(span.name for span in self.spans)}"
        return found[0]

    def _named(self, name: str, service: str | None) -> list[Seen]:
        return [span for span in self.spans if span.name == name and service in (None, span.service)]


def _seen(service: str, span: WireSpan) -> Seen:
    return Seen(
        service,
        span.name,
        KINDS[span.kind],
        TraceContext(span.trace_id.hex(), span.span_id.hex()),
        span.parent_span_id.hex() or None,
        tuple(link.span_id.hex() for link in span.links),
        _values(span.attributes),
        span.status.message if span.status.code == 2 else None,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.take(self.path, body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
