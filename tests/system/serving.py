"""A server as a process of its own, as its users start it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

import httpx

from tests.plain import PLAIN
from tests.system import prepared

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "penstock")
OURS = ("PENSTOCK_", "QUEUE_", "DATABASE_URL", "LOG_LEVEL")
ANYONE = {"Authorization": "Bearer anyone"}


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of the tests, without settings of the user who runs them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **(more or {})}


def penstock(
    *arguments: str | Path, cwd: Path | None = None, more: Mapping[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return prepared.run([str(each) for each in arguments], environment(more), cwd, timeout)


class Running:
    """A started server. `said` is what it printed to announce itself, `log` everything on standard error."""

    def __init__(self, process: subprocess.Popen[str] | prepared.Forked) -> None:
        self.process = process
        self.said = ""
        self.log = ""
        self.url = ""
        self.ready_after_s = 0.0
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._read_output, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def client(self, token: str | None = None, timeout: float = 30) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else ANYONE
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout, verify=PLAIN)

    def status(self, path: str, token: str | None = None) -> int:
        with self.client(token) as client:
            return client.get(path).status_code

    def await_ready(self, timeout: float) -> None:
        """Until the last line of the announcement; the address is in its first."""
        give_up = time.monotonic() + timeout
        while "-X DELETE" not in self.said:
            try:
                line = self._lines.get(timeout=max(give_up - time.monotonic(), 0.001))
            except Empty:
                line = None
            if line is None:
                self.kill()
                raise AssertionError(f"the server did not start:\n{self.said}\n{self.log}")
            self.said += line
        found = re.search(r"ready at (\S+) after", self.said)
        assert found is not None
        self.url = found[1]

    def terminate(self, timeout: float = 30) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        self.process.kill()
        self.wait(30)

    def wait(self, timeout: float) -> int:
        code = self.process.wait(timeout)
        for thread in self._threads:
            thread.join(5)
        return code

    def close(self) -> None:
        """At the end of a test, whatever became of it. In good order, or an embedded PostgreSQL would be left."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line


def started(command: Sequence[str], more: Mapping[str, str] | None, cwd: Path | None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *command],
        cwd=cwd,
        env=environment(more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def serving(
    *arguments: str | Path,
    more: Mapping[str, str] | None = None,
    timeout: float = 45,
    address: Sequence[str] = ("--port", "0"),
    cwd: Path | None = None,
    fresh: bool = False,
) -> Iterator[Running]:
    """A server that is ready; stopped at the end, if it still runs. A fresh one is a program that was just started."""
    began = time.monotonic()
    command = ["serve", *address, *map(str, arguments)]
    server = Running(
        started(command, more, cwd) if fresh else prepared.Forked.with_pipes(command, environment(more), cwd)
    )
    try:
        server.await_ready(timeout)
        server.ready_after_s = time.monotonic() - began
        yield server
    finally:
        server.close()
