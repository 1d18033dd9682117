"""A PostgreSQL and a Spark driver that are killed, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg

from penstock.store.postgres.embedded.server import EmbeddedPostgres
from tests.cluster import FAST
from tests.system.serving import ROOT, environment

PATIENCE_S = 300.0


def wait_until(true: Callable[[], bool], what: Callable[[], str]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up, what()
        time.sleep(0.002)


class MortalPostgres:
    """What is killed is not the machine: without fsync the log of the dead is whole in the kernel's memory."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self._directory = directory
        self._server = EmbeddedPostgres(directory, settings={**FAST, **settings})
        self._server.start()
        self.dsn = self._server.dsn
        self._suspended: list[int] = []

    def kill(self) -> None:
        """The whole server, at once; and up again."""
        os.kill(self._postmaster(), signal.SIGKILL)
        while self._suspended:
            os.kill(self._suspended.pop(), signal.SIGKILL)
        wait_until(lambda: not self._server.alive(), lambda: "PostgreSQL does not die")
        self._server.start()

    def kill_backend(self) -> None:
        """One process: the postmaster then ends all others and recovers. A COPY for Spark when there is one."""
        query = "select pid from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'"
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute(f"{query} order by query ilike 'copy%' desc, state, pid limit 1").fetchone()
        assert row is not None
        os.kill(row[0], signal.SIGKILL)
        wait_until(self._answers, lambda: "PostgreSQL does not recover")

    def suspend_log_writer(self) -> None:
        """From now on until it is killed, the log is written to disk only when someone waits for it."""
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("select pid from pg_stat_activity where backend_type = 'walwriter'").fetchone()
        assert row is not None
        os.kill(row[0], signal.SIGSTOP)
        self._suspended.append(row[0])

    def stop(self) -> None:
        for pid in self._suspended:
            os.kill(pid, signal.SIGCONT)
        self._server.stop()

    def _postmaster(self) -> int:
        return int((self._directory / "postgresql" / "postmaster.pid").read_text().splitlines()[0])

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self.dsn):
            return True
        return False


class MortalDriver:
    """The driver, its Java and its Python workers: they share a session, though not a process group."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self._command = [sys.executable, "-m", "tests.spark.processes.archiver", dsn, str(folder)]
        self._output = folder / "driver.log"
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._output.open("ab") as output:
            return subprocess.Popen(
                self._command, cwd=ROOT, env=environment(), stdout=output, stderr=output, start_new_session=True
            )

    def kill(self) -> None:
        if self._process.poll() is not None:
            return
        # To find them takes a moment, so that comes first. Then all at once, and those that were born meanwhile.
        for _ in range(2):
            for pid in self._all():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(30)

    def start(self) -> None:
        self._process = self._started()

    def said(self) -> str:
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-40:])

    def check(self) -> None:
        assert self._process.poll() is None, self.said()

    def _all(self) -> list[int]:
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdigit() and os.getsid(int(path.name)) == self._process.pid:
                    found.append(int(path.name))
        return found
