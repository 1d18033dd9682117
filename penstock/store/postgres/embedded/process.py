"""The programs of PostgreSQL as processes of ours: run to the end, or kept running with their log."""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO

from penstock.errors import Unavailable
from penstock.store.postgres.embedded import launch
from penstock.store.postgres.embedded.binaries import Account


class LogFile(logging.handlers.RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """The usual handler prints a stack for each line that a full disk does not take."""
        raise


class Process:
    """A running server: its log goes through a thread of ours into files of bounded size.

    The thread also starts the process: the kernel ends a child when the *thread* that made it ends, so that
    thread must live as long as the child, whatever thread called us.
    """

    LOG_BYTES = 5_000_000
    LOG_FILES = 3

    def __init__(self, command: list[str], log: Path) -> None:
        log.mkdir(mode=0o700, exist_ok=True)
        self._file = log / "postgres.log"
        self._lines: deque[str] = deque(maxlen=20)
        self._creator = os.getpid()
        started: queue.SimpleQueue[subprocess.Popen[bytes] | OSError] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, args=(command, started), name="postgres", daemon=True)
        self._thread.start()
        outcome = started.get()
        if isinstance(outcome, OSError):
            raise Unavailable(f"The embedded PostgreSQL could not be started: {outcome}")
        self._popen = outcome

    @property
    def pid(self) -> int:
        return self._popen.pid

    def running(self) -> bool:
        return self._popen.poll() is None

    def tail(self) -> str:
        return "\n".join(self._lines)

    def end(self) -> None:
        if os.getpid() != self._creator:
            return  # a fork of the owner inherits the object, not the duty
        # Fast, then immediate: the latter costs a recovery at the next start, not data.
        for number, patience in ((signal.SIGINT, 60), (signal.SIGQUIT, 30), (signal.SIGKILL, 30)):
            self._popen.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(patience)
                break
        self._thread.join(timeout=5)

    def _live(self, command: list[str], started: queue.SimpleQueue[subprocess.Popen[bytes] | OSError]) -> None:
        try:
            # A session of its own: an interrupt typed at our terminal is for us; we stop PostgreSQL when we are done.
            popen = subprocess.Popen(
                command,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            started.put(error)
            return
        started.put(popen)
        assert popen.stdout is not None
        with popen.stdout as output:
            self._log(output)
        popen.wait()

    def _log(self, output: IO[bytes]) -> None:
        handler = LogFile(self._file, maxBytes=self.LOG_BYTES, backupCount=self.LOG_FILES - 1, encoding="utf-8")
        try:
            for line in output:
                text = line.decode(errors="replace").rstrip("\n")
                self._lines.append(text)
                with suppress(OSError):  # a full disk must not stop us from draining the pipe
                    handler.emit(logging.makeLogRecord({"msg": text}))
        finally:
            with suppress(OSError):  # it may still have bytes to write
                handler.close()


def launched(command: list[str], account: Account, directory: Path) -> list[str]:
    who = [str(os.getpid()), str(account.uid), str(account.gid), str(directory)]
    return [sys.executable, "-I", "-S", str(launch.__file__), *who, *command]


def complete(
    command: list[str], account: Account, directory: Path, text: str = "", *, password: str | None = None
) -> str:
    """Run to the end and return what it said."""
    done = subprocess.run(
        launched(command, account, directory),
        env=_environment() | ({"PGPASSWORD": password} if password is not None else {}),
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise Unavailable(f"The embedded PostgreSQL could not be prepared: {done.stdout.strip()}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Ours, without what would steer PostgreSQL elsewhere (PGDATA, PGPORT) or translate what it says."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return {**kept, "LC_ALL": "C"}
