"""A server under test, and the CPU time of everything it started (Linux: read from /proc)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


class Missing(Exception):
    """A peer that cannot be had on this machine."""


@dataclass(frozen=True)
class Cpu:
    """Seconds of CPU, of the server's own processes and of PostgreSQL's."""

    server: float
    postgres: float

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.server - other.server, self.postgres - other.postgres)

    @property
    def all(self) -> float:
        return self.server + self.postgres


class Server:
    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.host, self.port = "127.0.0.1", port
        self.pid = process.pid

    def request(self, method: str, path: str, body: object = None) -> object:
        data = json.dumps(body).encode() if body is not None else None
        url = f"http://{self.host}:{self.port}{path}"
        request = urllib.request.Request(url, data, {"Authorization": "Bearer bench"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def cpu(self) -> Cpu:
        server = postgres = 0.0
        for _, name, seconds in family(self._process.pid):
            if name.startswith("postgres"):
                postgres += seconds
            else:
                server += seconds
        return Cpu(server, postgres)


def family(root: int) -> list[tuple[int, str, float]]:
    """A process and all it started: id, name, CPU seconds (its own and of children that have ended)."""
    children: dict[int, list[int]] = {}
    found: dict[int, tuple[str, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            found[int(entry.name)] = (name, sum(map(int, fields[11:15])) / TICK)
    members = []
    left = [root]
    while left:
        process = left.pop()
        left += children.get(process, [])
        if process in found:
            members.append((process, *found[process]))
    return members


def postmaster(data: Path) -> int:
    """The id of the process of an embedded PostgreSQL."""
    return int((data / "postgresql" / "postmaster.pid").read_text().split()[0])


@contextmanager
def serving(*flags: str) -> Iterator[Server]:
    """`penstock serve` with these flags on a free port of the loopback, stopped afterwards."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PENSTOCK_", "QUEUE_", "DATABASE_"))}
    command = [sys.executable, "-m", "penstock", "serve", "--address", "127.0.0.1:0", "--log-level", "warning"]
    process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "http://127.0.0.1:" in line:
                port = int(line.split("http://127.0.0.1:", 1)[1].split("/")[0].split()[0])
                break
        else:
            raise SystemExit("the server did not start")
        yield Server(process, port)
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def store_flags(store: str) -> Iterator[list[str]]:
    """The flags of a fresh store: `postgres` (embedded, durable), `sqlite` (a file, durable) or `memory`."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        if store == "postgres":
            yield ["--data", folder]
        elif store == "sqlite":
            yield ["--sqlite", f"{folder}/queues.db"]
        else:
            yield ["--memory"]


def conditions() -> str:
    load = os.getloadavg()[0]
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at start, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}"
    )
