"""The environment of the Spark benchmark: a PostgreSQL on the loopback interface, the JDBC driver, and a meter.

The embedded PostgreSQL listens on a Unix socket, which the JDBC driver cannot use. So this one listens on the loopback
interface as well, and both sides use that.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from bench.processes import family
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.migrate import migrate

Connection = psycopg.Connection[Any]
T = TypeVar("T")

JAR = Path("/usr/share/java/postgresql.jar")
PACKAGE = "libpostgresql-jdbc-java"
WARM_UP = 2


@dataclass(frozen=True)
class Server:
    host: str
    port: int
    password: str

    @property
    def url(self) -> str:
        return f"postgresql://penstock:{self.password}@{self.host}:{self.port}/penstock"

    @property
    def jdbc(self) -> dict[str, str]:
        """JDBC's options, with the setting that makes its inserts as fast as they get."""
        return {
            "url": f"jdbc:postgresql://{self.host}:{self.port}/penstock?reWriteBatchedInserts=true",
            "user": "penstock",
            "password": self.password,
            "driver": "org.postgresql.Driver",
        }


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    port = _free_port()
    embedded = EmbeddedPostgres(folder, settings={"listen_addresses": "127.0.0.1", "port": str(port)})
    embedded.start()
    try:
        with (folder / "postgresql" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 127.0.0.1/32 scram-sha-256\n")
        local = embedded.dsn.replace("port=5432", f"port={port}")
        with psycopg.connect(local, autocommit=True) as connection:
            connection.execute("select pg_reload_conf()")
        server = Server("127.0.0.1", port, (folder / "password").read_text())
        _await(server)
        asyncio.run(migrate(server.url))
        yield server
    finally:
        embedded.stop()


def jdbc_driver(given: Path | None, install_missing: bool) -> Path | None:
    """The given JDBC driver, or that of Debian's package; None when there is none. Installs it only when asked to."""
    if given is not None:
        return given
    if install_missing and not JAR.exists() and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", PACKAGE]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update", "-qq"], install):
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=300, check=False)
    if JAR.exists():
        return JAR
    print(
        f"The JDBC driver (Debian package {PACKAGE}) is not installed, so there is no comparison with it;"
        " --install-driver installs it as root, --driver names another file.",
        file=sys.stderr,
    )
    return None


@dataclass(frozen=True)
class Found:
    rows: int
    seconds: float
    client_s: float
    """CPU of Spark: Java and Python."""
    postgres_s: float

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    def __str__(self) -> str:
        client, postgres = (spent / self.rows * 1e6 for spent in (self.client_s, self.postgres_s))
        return f"{self.rate:>9,.0f}/s ({client:.2f} + {postgres:.2f} µs)"


def measured(rows: int, work: Callable[[], object]) -> Found:
    before, began = _spent(), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - began, _spent()
    # A Python worker that Spark ends takes its time with it, so each process counts for itself.
    client = sum(spent - before.get(key, 0.0) for key, spent in after.items() if not key[1])
    postgres = sum(spent - before.get(key, 0.0) for key, spent in after.items() if key[1])
    return Found(rows, seconds, client, postgres)


@dataclass(frozen=True)
class Way:
    """Something to measure, with what has to be done before and after it unmeasured."""

    work: Callable[[], object]
    before: Callable[[], object] = lambda: None
    after: Callable[[], object] = lambda: None

    def measured(self, rows: int) -> Found:
        self.before()
        found = measured(rows, self.work)
        self.after()
        return found


def in_turns(rounds: int, rows: int, ways: Mapping[str, Way]) -> dict[str, Found]:
    """The median round of each. The first ones warm Java up."""
    found: dict[str, list[Found]] = {name: [] for name in ways}
    for _ in range(WARM_UP + rounds):
        for name, way in ways.items():
            found[name].append(way.measured(rows))
    return {name: middle(each[WARM_UP:], lambda one: one.rate) for name, each in found.items()}


def middle(found: Sequence[T], key: Callable[[T], float]) -> T:
    """The median; of an even number, the lower of the two in the middle."""
    return sorted(found, key=key)[(len(found) - 1) // 2]


def _spent() -> dict[tuple[int, bool], float]:
    """CPU seconds of each process that we started, and whether it is PostgreSQL's."""
    return {(process, name.startswith("postgres")): seconds for process, name, seconds in family(os.getpid())}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(server: Server) -> None:
    """Until the new rules of access are read."""
    give_up = time.monotonic() + 10
    while True:
        try:
            psycopg.connect(server.url).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)
