"""An HTTP endpoint for webhooks, in a thread of its own, that answers as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Arrival:
    path: str
    headers: dict[str, str]
    body: str


Answer = int | str
"""A status; or `hang`, which answers nothing until the endpoint closes, or `close`, which ends the connection."""


@dataclass
class Endpoint:
    answer: Callable[[Arrival], Answer] = lambda arrival: 200
    arrivals: list[Arrival] = field(default_factory=list)
    url: str = ""
    arrived: threading.Condition = field(default_factory=threading.Condition)
    closing: threading.Event = field(default_factory=threading.Event)

    def take(self, arrival: Arrival) -> Answer:
        with self.arrived:
            self.arrivals.append(arrival)
            self.arrived.notify_all()
        return self.answer(arrival)

    def wait_for(self, count: int, timeout: float = 20) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.arrivals) >= count, timeout), len(self.arrivals)


@contextmanager
def listening(answer: Callable[[Arrival], Answer] = lambda arrival: 200) -> Iterator[Endpoint]:
    endpoint = Endpoint(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            posted = self.rfile.read(length).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = endpoint.take(Arrival(self.path, headers, posted))
            if answer == "hang":
                endpoint.closing.wait(60)
            if not isinstance(answer, int):
                self.close_connection = True
                return
            self.send_response(answer)
            if answer == 302:
                self.send_header("location", "/elsewhere")
            body = b"" if answer == 204 else b"ok"
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
