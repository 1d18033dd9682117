"""Message brokers beside us: Redis and RabbitMQ, installed from Debian, started in a folder of their own, durable."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.processes import Missing, Server

PACKAGES = {"redis": "redis-server", "rabbitmq": "rabbitmq-server"}
RABBITMQ = Path("/usr/lib/rabbitmq/bin")
"""Debian's programs without the wrapper that changes the user and wants the service's folders."""
POLICY = Path("/usr/sbin/policy-rc.d")
START_S = 90.0


def install(name: str) -> None:
    """The program of a broker, by apt where we are root; `Missing` says why not."""
    if _present(name):
        return
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise Missing(f"{PACKAGES[name]} is not installed, and only root with apt-get can install it")
    print(f"installing {PACKAGES[name]}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = [apt, "install", "-y", "-qq", "--no-install-recommends", PACKAGES[name]]
    with _no_services():
        done = subprocess.run(command, env=environment, capture_output=True, timeout=600, check=False)
    if done.returncode != 0 or not _present(name):
        raise Missing(f"apt-get could not install {PACKAGES[name]}")


def _present(name: str) -> bool:
    if name == "rabbitmq":
        return (RABBITMQ / "rabbitmq-server").exists()
    return shutil.which("redis-server") is not None


@contextmanager
def _no_services() -> Iterator[None]:
    """Debian starts what it installs, unless this file forbids it."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


@contextmanager
def running(name: str) -> Iterator[Server]:
    """A broker on a free port of the loopback, in a folder that goes away with it."""
    install(name)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        start = _redis if name == "redis" else _rabbitmq
        with start(Path(folder)) as server:
            yield server


@contextmanager
def _redis(folder: Path) -> Iterator[Server]:
    port = free_port()
    # Every write is on the disk before it is answered, as with us.
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *durable]
    with _started(command, dict(os.environ), port) as server:
        yield server


@contextmanager
def _rabbitmq(folder: Path) -> Iterator[Server]:
    port, mapper, distribution = free_port(), free_port(), free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        # A port mapper of its own: it outlives the broker, and is ended here.
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(mapper),
    }
    (folder / "plugins").write_text("[].\n")
    command = [str(RABBITMQ / "rabbitmq-server")]
    try:
        with _started(command, environment, port) as server:
            yield server
    finally:
        with suppress(OSError):
            subprocess.run(
                ["epmd", "-port", str(mapper), "-kill"],
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30, check=False,
            )  # fmt: skip


@contextmanager
def _started(command: Sequence[str], environment: dict[str, str], port: int) -> Iterator[Server]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        _await_port(process, port)
        yield Server(process, port)  # type: ignore[arg-type]
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _await_port(process: subprocess.Popen[bytes], port: int) -> None:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise Missing(f"{process.args!r} did not start")
