"""Peers from PyPI, installed by the suite into a folder of its own; those over HTTP are started on the loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes import Missing, Server

FOLDER = Path(__file__).parent.parent.parent / ".venv" / "bench-peers"
PACKAGES = {"moto": "moto[server]", "ministack": "ministack", "celery": "celery[redis]", "pgmq": "pgmq"}
START_S = 60.0


def install(name: str) -> Path:
    """The programs of a peer, from PyPI, in a virtual environment for it alone."""
    folder = FOLDER / name
    done = folder / ".installed"
    if not done.exists():
        print(f"installing {PACKAGES[name]} into {folder}", file=sys.stderr, flush=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [*pip, PACKAGES[name]]):
            try:
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
            except subprocess.CalledProcessError as error:
                raise Missing(f"{PACKAGES[name]} could not be installed: {error.stderr.strip()[-300:]}") from None
        done.touch()
    return folder / "bin"


def pgmq() -> str:
    """The SQL of PGMQ, as its Python client brings it along."""
    [file] = install("pgmq").parent.glob("lib/python*/site-packages/pgmq/sql/pgmq.sql")
    return file.read_text("utf-8")


@contextmanager
def running(name: str) -> Iterator[Server]:
    programs, port = install(name), _free_port()
    if name == "moto":
        command = [str(programs / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    else:
        command = [str(programs / "ministack")]
    # ministack listens on every address unless it is told a host.
    told = {"GATEWAY_PORT": str(port), "BIND_HOST": "127.0.0.1", "MINISTACK_HOST": "127.0.0.1", "LOG_LEVEL": "ERROR"}
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **told}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        _await_port(process, port)
        yield Server(process, port)  # type: ignore[arg-type]
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _await_port(process: subprocess.Popen[bytes], port: int) -> None:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise Missing(f"{process.args!r} did not start")
