"""`penstock bench`: what a server delivers to clients, measured in a bounded time."""

from __future__ import annotations

import secrets
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer

from penstock.cli.options import on_server, seconds
from penstock.cli.output import Output, say
from penstock.cli.remote import Server
from penstock.errors import Invalid, PenstockError

SHORTEST_S, LONGEST_S = 1, 600
BATCH = 100
BODY = "x" * 200
BAR = 30
COLUMNS = ("measure", "messages_per_s", "requests", "p50_ms", "p99_ms", "failed")

Step = Callable[[], int]
"""One or more requests; how many messages they were about."""


@on_server(creates=True)
def bench(
    server: Server,
    out: Output,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="Time to run, 1s to 10m.")] = "40s",
    connections: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Concurrent clients.")] = 8,
) -> None:
    """Measure sends, receives and deletes against a server, in a queue that is dropped afterwards.

    The clients run in this process and are written in Python: they limit the results before a fast server does.
    """
    lasts = seconds(duration)
    if not SHORTEST_S <= lasts <= LONGEST_S:
        raise Invalid("--for must be between 1s and 10m")
    # A database that this process opens by itself serves one caller at a time.
    clients = connections if server.where.startswith(("http://", "https://")) else 1
    name = f"penstock-bench-{secrets.token_hex(4)}"
    server.post("/v1/queues", {"name": name}, repeatable=True)
    try:
        measures = Measures(server, f"/v1/queues/{name}/messages").all()
        progress = Progress(lasts)
        rows = [measure(label, step, clients, lasts / len(measures), progress) for label, step in measures.items()]
        progress.end()
    finally:
        server.delete(f"/v1/queues/{name}")
    out.rows(rows, COLUMNS, "Nothing was measured.")


class Measures:
    def __init__(self, server: Server, path: str) -> None:
        self._server = server
        self._path = path

    def all(self) -> dict[str, Step]:
        return {
            "send": self.send,
            "send, receive, delete": self.cycle,
            f"send {BATCH} per request": self.send_batch,
            f"receive and delete {BATCH} per request": self.take_batch,
        }

    def send(self) -> int:
        self._server.post(self._path, {"message": BODY})
        return 1

    def cycle(self) -> int:
        self.send()
        return self._take(1)

    def send_batch(self) -> int:
        self._server.post(self._path, [{"message": BODY}] * BATCH)
        return BATCH

    def take_batch(self) -> int:
        return self._take(BATCH) or self.send_batch()

    def _take(self, most: int) -> int:
        found = self._server.get(self._path, max=most, vt=60)
        if len(found) == 1:
            self._server.delete(f"{self._path}/{found[0]['id']}")
        elif found:
            self._server.ask("DELETE", self._path, body={"ids": [message["id"] for message in found]})
        return len(found)


def measure(label: str, step: Step, clients: int, lasts: float, progress: Progress) -> dict[str, Any]:
    """Repeat a step from several clients at once; the last step may end a little late."""
    took: list[float] = []
    counts: list[int] = []
    failures: list[str] = []
    begin = time.monotonic()
    end = begin + lasts

    def client() -> None:
        while (start := time.monotonic()) < end and len(failures) < 100:
            try:
                counts.append(step())
            except PenstockError as error:
                failures.append(error.message)
                continue
            took.append(time.monotonic() - start)
            progress.show(label)

    with ThreadPoolExecutor(clients) as pool:
        for future in [pool.submit(client) for _ in range(clients)]:
            future.result()
    if failures:
        say(f"{label}: {failures[0]}")
    took.sort()
    return {
        "measure": label,
        "messages_per_s": round(sum(counts) / (time.monotonic() - begin)),
        "requests": len(took),
        "p50_ms": _percentile(took, 0.5),
        "p99_ms": _percentile(took, 0.99),
        "failed": len(failures),
    }


def _percentile(took: list[float], share: float) -> float | None:
    return round(took[int(len(took) * share)] * 1000, 2) if took else None


class Progress:
    """A bar on the terminal; nothing in a log."""

    def __init__(self, lasts: float) -> None:
        self._begin = time.monotonic()
        self._lasts = lasts
        self._shown = 0.0
        self._lock = threading.Lock()
        self._live = sys.stderr.isatty()

    def show(self, label: str) -> None:
        now = time.monotonic()
        if not self._live or now - self._shown < 0.2:
            return
        with self._lock:
            self._shown = now
            done = min((now - self._begin) / self._lasts, 1.0)
            bar = "#" * round(done * BAR)
            print(f"\r\x1b[K[{bar:{BAR}}] {done:4.0%}  {label}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
