"""A real Chromium shows a page of another origin, which tries everything a page can against an open server."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.system.serving import serving

PAGE = Path(__file__).with_name("attack.html")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--disable-popup-blocking",
]  # fmt: skip
ATTEMPTS = 14

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed: make tools"),
]


class Site:
    """Another site on the loopback: serves the page, and is told when it has tried everything."""

    def __init__(self, page: bytes) -> None:
        self.tried: list[str] = []
        self.done = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/done"):
                    site.tried = self.path.partition("?")[2].split(",")
                    site.done.set()
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def site(page: bytes) -> Iterator[Site]:
    made = Site(page)
    try:
        yield made
    finally:
        made.close()


def visit(url: str, done: threading.Event, profile: Path) -> None:
    browser = subprocess.Popen(
        ["chromium", *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", url],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert done.wait(60), "the page did not finish"
    finally:
        browser.terminate()
        browser.wait(10)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_changes_nothing(host: str, tmp_path: Path) -> None:
    with serving("--memory") as server, server.client() as client:
        port = server.url.rpartition(":")[2]
        client.post("/v1/queues", json={"name": "target"}).raise_for_status()
        client.post("/v1/queues/target/messages", json={"message": "kept"}).raise_for_status()
        page = PAGE.read_text().replace("SERVER", f"http://127.0.0.1:{port}").replace("QUEUE", "target")
        with site(page.encode()) as other:
            visit(f"http://{host}:{other.port}/", other.done, tmp_path)
            tried = other.tried
        [message] = client.get("/v1/queues/target/messages?peek=true&max=10").json()
        counted = client.get("/metrics").text

    assert len(tried) == ATTEMPTS
    assert (message["message"], message["read_count"]) == ("kept", 0)
    refused = [
        line for line in counted.splitlines() if line.startswith("http_requests_total") and 'status="403"' in line
    ]
    assert sum(float(line.rpartition(" ")[2]) for line in refused) >= 10, "the attempts reached the server"
