"""Everything a run starts: a PostgreSQL, servers, clients, and an endpoint for webhooks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import httpx

from penstock.engine import Engine
from penstock.model import DEFAULT_TENANT, Scope
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.store import PostgresStore
from tests.fire import processes
from tests.fire.load import client
from tests.plain import PLAIN
from tests.system.serving import ROOT, environment

READY_S = 60.0

SERVER = {
    "LOG_LEVEL": "warning",
    "PENSTOCK_AUTH": "sigv4",
    "PENSTOCK_DRAIN_S": "3",
    "PENSTOCK_HTTP_DELIVERY_PRIVATE": "true",
    "PENSTOCK_HTTP_DELIVERY_DELAYS": "0,1,1,2,2,4",
    "PENSTOCK_HTTP_DELIVERY_PAUSE_S": "1",
    "QUEUE_HTTP_DELIVERY_TIMEOUT_SECS": "3",
}


@dataclass(frozen=True)
class Access:
    """Credentials of two tenants: tokens of both, and an access key of the first."""

    token: str
    key: str
    secret: str
    other_token: str


async def give_access(dsn: str) -> Access:
    """Prepare an empty database: schema, a second tenant, credentials."""
    store = PostgresStore(dsn)
    await store.open()
    try:
        tenants = Engine(store).tenants
        everything = frozenset(Scope)
        other = await tenants.create("two")
        _, token = await tenants.create_token(DEFAULT_TENANT, "fire", everything)
        key, secret = await tenants.create_token(DEFAULT_TENANT, "fire", everything, aws=True)
        _, other_token = await tenants.create_token(other.id, "fire", frozenset({Scope.ADMIN}))
    finally:
        await store.close()
    return Access(token, key.prefix, secret, other_token)


class Postgres:
    """A PostgreSQL of the run's own, as durable as any, that can be killed and comes back.

    With `disk_mb` it has a disk of its own, of this size, that can be filled.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, disk_mb: int | None = None) -> None:
        self._folder = folder
        self._disk = disk_mb is not None
        small = {"max_wal_size": "128MB", "min_wal_size": "80MB"} if self._disk else {}
        more = {"max_connections": "200", **small, **(settings or {})}
        self._embedded = EmbeddedPostgres(folder, settings=more)
        if self._disk:
            folder.mkdir()
            processes.mount(folder, f"{disk_mb}m")

    @property
    def dsn(self) -> str:
        return self._embedded.dsn

    def start(self) -> None:
        self._embedded.start()

    def stop(self) -> None:
        self._embedded.stop()
        if self._disk:
            processes.unmount(self._folder)

    @property
    def cluster(self) -> Path:
        return self._embedded.cluster

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """No byte can be written. PostgreSQL may crash of it, and not come back before there is room again."""
        filler = self._folder / "filler"
        with filler.open("wb") as file:
            piece = bytes(1 << 20)
            with suppress(OSError):
                while True:
                    file.write(piece)
            with suppress(OSError):
                file.flush()
        try:
            yield
        finally:
            filler.unlink()

    def start_if_dead(self) -> None:
        if not self._embedded.alive():
            self._embedded.start()

    def kill(self) -> None:
        """All of its processes at once, as when the machine fails: what was only in its memory is gone."""
        pid = int((self._embedded.cluster / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGSTOP)  # so that it starts no more children
        for each in (*processes.children(pid), pid):
            processes.kill(each)

    def revive(self) -> None:
        """Start it again once it is dead, as a service manager would."""
        give_up = time.monotonic() + READY_S
        while not self._embedded.revive():
            if time.monotonic() > give_up:
                raise RuntimeError("PostgreSQL did not die")
            time.sleep(0.01)


@dataclass
class Node:
    """A server process on a port that stays its own."""

    number: int
    dsn: str
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=processes.free_port)
    """Its clients may know another, of a proxy in front of it."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        if not self._clock.exists():
            self._clock.write_text("0")
        more = {**SERVER, "DATABASE_URL": self.dsn, "FIRE_CLOCK": str(self._clock), **self.environment}
        command = [sys.executable, "-m", "tests.fire.launcher", "serve", "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment(more), stdout=log, stderr=log)

    @property
    def _clock(self) -> Path:
        return self.log.with_suffix(".clock")

    def set_clock(self, seconds: float) -> None:
        """Move the clock of the process, ahead or back, while it runs."""
        self._clock.write_text(str(seconds))
        os.kill(self.pid, signal.SIGUSR1)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        if self.process is not None:
            processes.end(self.process)

    def ready(self) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/readyz", timeout=2, verify=PLAIN, trust_env=False).status_code == 200
        return False

    def await_ready(self, timeout: float = READY_S) -> None:
        give_up = time.monotonic() + timeout
        while not self.ready():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"node {self.number} did not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)


class Clients:
    """Client processes of a run. Those that a fault kills are started again.

    They are forked from a process that has imported everything, which takes milliseconds instead of seconds.
    """

    def __init__(self, folder: Path, told: dict[str, Any]) -> None:
        self._folder = folder
        self._told = {**told, "folder": str(folder)}
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.fire.load.client"])
        self.running: dict[str, ForkServerProcess] = {}

    def start(self, role: str) -> None:
        process = self._context.Process(target=client.main, args=(role, self._told), name=role)
        process.start()
        self.running[role] = process

    def pid(self, role: str) -> int:
        pid = self.running[role].pid
        assert pid is not None
        return pid

    def restart(self, role: str) -> None:
        self.running[role].kill()
        self.running[role].join(10)
        self.start(role)

    def await_ready(self, timeout: float = READY_S) -> None:
        give_up = time.monotonic() + timeout
        while missing := [role for role in self.running if not (self._folder / f"{role}.ready").exists()]:
            if time.monotonic() > give_up:
                raise RuntimeError(f"clients did not start: {', '.join(missing)}")
            time.sleep(0.02)

    def finish(self, timeout: float = 30) -> None:
        """Let those that write histories end; the others go on until `stop`."""
        (self._folder / "stop").touch()
        give_up = time.monotonic() + timeout
        for role, process in self.running.items():
            if role not in client.FOREVER:
                process.join(max(0.1, give_up - time.monotonic()))

    def failed(self) -> list[str]:
        """Those that ended with an error, which no fault asked of them."""
        return [role for role, process in self.running.items() if process.exitcode not in (None, 0)]

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.join(10)
