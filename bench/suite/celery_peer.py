"""Celery on Redis and on RabbitMQ, measured as bench/jobs.py measures the others."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.jobs import LONGEST_S, WORKERS, Found, cpu
from bench.processes import Missing
from bench.suite import brokers, peers

ROOT = Path(__file__).parent.parent.parent


class CeleryPeer:
    def __init__(self, python: Path, broker: str, folder: Path) -> None:
        self._python = python
        self._done = folder / "done"
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "BENCH_BROKER": broker,
            "BENCH_DONE": str(self._done),
        }

    def measure(self, name: str, count: int) -> Found:
        if name == "cycle":
            with self._workers():
                return self._produce("single", count, finish=True)
        return self._produce(name, count, finish=False)

    def _produce(self, role: str, count: int, *, finish: bool) -> Found:
        command = [str(self._python), "-m", "bench.suite.celery_tasks", role, str(count)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=self._environment,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise Missing("Celery did not start")
        if finish:
            self._await(1.0)
        before = self._count()
        spent, began = cpu(), time.perf_counter()
        process.stdin.write("\n")
        process.stdin.flush()
        if process.stdout.readline() != "done\n":
            raise Missing("Celery could not send")
        if finish:
            self._await_count(before + count // 16 * 16)
        took = time.perf_counter() - began
        found = Found(count / took, (cpu() - spent) / count * 1e6)
        # The next round begins on an empty queue.
        process.communicate(None if finish else "purge\n", timeout=LONGEST_S)
        return found

    def _count(self) -> int:
        return self._done.stat().st_size if self._done.exists() else 0

    def _await_count(self, count: int) -> None:
        give_up = time.monotonic() + LONGEST_S
        while self._count() < count:
            if time.monotonic() > give_up:
                raise Missing("Celery has not finished its tasks")
            time.sleep(0.02)

    def _await(self, seconds: float) -> None:
        """Until no task has ended for a while."""
        give_up = time.monotonic() + LONGEST_S
        known, since = self._count(), time.monotonic()
        while time.monotonic() - since < seconds and time.monotonic() < give_up:
            time.sleep(0.1)
            if self._count() != known:
                known, since = self._count(), time.monotonic()

    @contextmanager
    def _workers(self) -> Iterator[None]:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "CRITICAL"]
        command = [
            str(self._python),
            "-m",
            "celery",
            "-A",
            "bench.suite.celery_tasks",
            "worker",
            "-c",
            str(WORKERS),
            *quiet,
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self._environment, cwd=ROOT
        )
        try:
            time.sleep(3.0)
            yield
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def running(broker: str) -> Iterator[CeleryPeer]:
    """Celery on a broker of its own; `Missing` when either cannot be had."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        server = stack.enter_context(brokers.running(broker))
        python = peers.install("celery") / "python"
        scheme = "redis" if broker == "redis" else "amqp"
        path = "/0" if broker == "redis" else "//"
        yield CeleryPeer(python, f"{scheme}://127.0.0.1:{server.port}{path}", folder)
