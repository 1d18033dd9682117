"""A process that has imported the command line and forks for every command.

A command then starts in milliseconds instead of most of a second, with arguments, environment, folder and output of
its own, as a program that was just started.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
MODULES = ("penstock.server", "penstock.store.postgres.store", "penstock.store.sqlite.store", "uvicorn.loops.auto")
"""Imported by commands and servers when they need them."""
SPARK = ("penstock.spark.pipelines.run", "penstock.spark.running.session")
"""What commands with Spark need: imported with the first of them."""


def run(
    arguments: Sequence[str], environment: Mapping[str, str], cwd: Path | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a command of `penstock` to its end."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = Forked(arguments, environment, cwd, output.fileno(), errors.fileno())
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
            raise
        return subprocess.CompletedProcess(["penstock", *arguments], code, _text(output), _text(errors))


class Forked:
    """A command of `penstock` that runs, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path | None, output: int, errors: int
    ) -> None:
        self.arguments = ["penstock", *arguments]
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        call = {"arguments": list(arguments), "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        with open(os.devnull) as nothing:
            self.pid = _ask(call, [nothing.fileno(), output, errors])
        self._ended = os.pidfd_open(self.pid)

    @classmethod
    def with_pipes(cls, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path | None) -> Forked:
        """A command whose output and errors are read while it runs."""
        output, printed = os.pipe()
        errors, told = os.pipe()
        found = cls(arguments, environment, cwd, printed, told)
        os.close(printed)
        os.close(told)
        found.stdout, found.stderr = os.fdopen(output), os.fdopen(errors)
        return found

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            if not select.select([self._ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.arguments, timeout)
            self.returncode = _ask({"ended": self.pid}, [])
            os.close(self._ended)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


_one_at_a_time = threading.Lock()


def _ask(call: Mapping[str, Any], files: list[int]) -> int:
    """The number that the process that forks answers with."""
    with _one_at_a_time:
        parent = _parent()
        socket.send_fds(parent, [len(text := json.dumps(call).encode()).to_bytes(4, "big")], files)
        parent.sendall(text)
        return int.from_bytes(_exactly(parent, 4), "big", signed=True)


def _text(file: Any) -> str:
    file.seek(0)
    found: bytes = file.read()
    return found.decode()


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = connection.recv(count - len(found))
        if not piece:
            raise ConnectionError("the other process has ended")
        found += piece
    return found


@cache
def _parent() -> socket.socket:
    """The connection to the process that forks: one for each test process."""
    from tests.system.serving import environment

    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "tests.system.prepared", str(theirs.fileno())]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), pass_fds=[theirs.fileno()])
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait(10)

    atexit.register(end)
    return ours


# In the process that forks


def serve(connection: socket.socket) -> None:
    import_all()
    while True:
        head, files, *_ = socket.recv_fds(connection, 4, 3)
        if not head:
            return
        call = json.loads(_exactly(connection, int.from_bytes(head + _exactly(connection, 4 - len(head)), "big")))
        if ended := call.get("ended"):
            answer = os.waitstatus_to_exitcode(os.waitpid(ended, 0)[1])
        else:
            answer = fork(call, connection, files)
        connection.sendall(answer.to_bytes(4, "big", signed=True))


def fork(call: dict[str, Any], connection: socket.socket, files: list[int]) -> int:
    if call["arguments"][:1] == ["pipeline"]:
        import_modules(SPARK)
    child = os.fork()
    if child == 0:
        connection.close()
        become(call, files)
    for file in files:
        os.close(file)
    return child


def import_all() -> None:
    """What commands import before they do anything, and what the first command makes its parser import."""
    import penstock.cli

    import_modules(MODULES)
    import_modules(found.name for found in pkgutil.walk_packages(penstock.cli.__path__, "penstock.cli."))
    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        penstock.cli.main(["version"])


def import_modules(names: Iterable[str]) -> None:
    """Then children find them, and leave the memory that holds them shared."""
    for name in names:
        importlib.import_module(name)
    gc.freeze()


def become(call: dict[str, Any], files: list[int]) -> None:
    """Be the program, in the child."""
    from penstock.cli import main

    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(call["environment"])
    os.chdir(call["cwd"])
    sys.argv = ["penstock", *call["arguments"]]
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
