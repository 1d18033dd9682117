"""A process that has imported the command line and forks for every command.

A command then starts in milliseconds instead of most of a second, with arguments, environment, folder and output of
its own, as a program that was just started.
"""

from __future__ import annotations

import atexit
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STORES = ("penstock.store.postgres.store", "penstock.store.sqlite.store")


def run(
    arguments: Sequence[str], environment: Mapping[str, str], cwd: Path | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a command of `penstock` to its end."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, open(os.devnull) as nothing:
        call = {"arguments": list(arguments), "environment": dict(environment), "cwd": str(cwd or Path.cwd())}
        parent = _parent()
        files = [nothing.fileno(), output.fileno(), errors.fileno()]
        socket.send_fds(parent, [len(text := json.dumps(call).encode()).to_bytes(4, "big")], files)
        parent.sendall(text)
        child = _number(parent)
        parent.settimeout(timeout)
        try:
            code = _number(parent)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            parent.settimeout(None)
            _number(parent)
            raise subprocess.TimeoutExpired(["penstock", *arguments], timeout) from None
        finally:
            parent.settimeout(None)
        return subprocess.CompletedProcess(["penstock", *arguments], code, _text(output), _text(errors))


def _text(file: Any) -> str:
    file.seek(0)
    found: bytes = file.read()
    return found.decode()


def _number(parent: socket.socket) -> int:
    return int.from_bytes(_exactly(parent, 4), "big", signed=True)


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
        child = os.fork()
        if child == 0:
            connection.close()
            become(call, files)
        for file in files:
            os.close(file)
        connection.sendall(child.to_bytes(4, "big", signed=True))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(code.to_bytes(4, "big", signed=True))


def import_all() -> None:
    """What commands import before they do anything, and what the first command makes its parser import."""
    import penstock.cli

    for name in (*STORES, *(found.name for found in pkgutil.walk_packages(penstock.cli.__path__, "penstock.cli."))):
        importlib.import_module(name)
    with redirect_stdout(io.StringIO()), suppress(SystemExit):
        penstock.cli.main(["version"])


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
