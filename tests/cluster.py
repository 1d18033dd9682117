"""A PostgreSQL for the tests: the one named by PENSTOCK_TEST_DSN, or one for each test process.

The latter runs the programs in the directory PENSTOCK_TEST_PROGRAMS, or else the embedded ones. Processes that share a
server may see each other: a transaction that is open in one holds up the turning of tables in all.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.migrate import migrate

FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB", "max_wal_size": "256MB"}
"""The data of a test need not outlive the machine. Tests about durability use a server of their own."""

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Free bytes of memory from which on files lie there: a database is then copied in a third of the time."""


@contextmanager
def private_server() -> Iterator[str]:
    """The DSN of a database in which tests may do as they like."""
    if given := os.environ.get("PENSTOCK_TEST_DSN"):
        with empty_database(given) as dsn:
            yield dsn
        return
    with _directory() as directory:
        if programs := os.environ.get("PENSTOCK_TEST_PROGRAMS"):
            with _running(Path(programs), directory) as dsn:
                yield dsn
            return
        server = EmbeddedPostgres(directory, settings=FAST)
        server.start()
        try:
            yield server.dsn
        finally:
            server.stop()


@contextmanager
def _directory() -> Iterator[Path]:
    """A directory for a cluster: in memory where there is room."""
    for left in MEMORY.glob("penstock-test-*"):
        # A run that is killed leaves its directory.
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"penstock-test-{os.getpid()}-", dir=in_memory()) as name:
        yield Path(name)


def in_memory() -> Path | None:
    """A folder in memory for files and programs; None when there is too little room."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM:
        return None
    return None if os.statvfs(MEMORY).f_flag & os.ST_NOEXEC else MEMORY


@contextmanager
def empty_database(dsn: str) -> Iterator[str]:
    """A new database beside the given one, dropped afterwards even if clients are connected."""
    with _database(dsn, "template0") as found:
        yield found


@contextmanager
def migrated_database(dsn: str) -> Iterator[str]:
    """The same with our schemas in it: a copy, made in a tenth of the time that applying all SQL takes."""
    with _database(dsn, _migrated(dsn)) as found:
        yield found


@contextmanager
def _database(dsn: str, template: str) -> Iterator[str]:
    name = _create(dsn, template)
    try:
        yield with_database(dsn, name)
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@cache
def _migrated(dsn: str) -> str:
    """The database that copies are made of. It goes with its server."""
    name = _create(dsn, "template0")
    # A fixture may ask for it while an event loop runs in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, migrate(with_database(dsn, name))).result()
    return name


def _create(dsn: str, template: str) -> str:
    name = f"penstock_test_{secrets.token_hex(6)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        statement = sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
        if connection.info.server_version >= 150000:
            # Costs two checkpoints, which are cheap without fsync; the other strategy logs every page.
            statement += sql.SQL(" strategy = file_copy")
        connection.execute(statement)
    return name


def with_database(dsn: str, name: str) -> str:
    """The same server, another database; as a URL when it was one, since asyncpg reads nothing else."""
    if "://" not in dsn:
        return psycopg.conninfo.make_conninfo(dsn, dbname=name)
    head, _, query = dsn.partition("?")
    scheme, _, rest = head.partition("://")
    authority = rest.partition("/")[0]
    if "dbname" in conninfo_to_dict(f"postgresql:///?{query}"):
        query = "&".join(pair for pair in query.split("&") if not pair.startswith("dbname="))
    return f"{scheme}://{authority}/{name}" + (f"?{query}" if query else "")


@contextmanager
def _running(programs: Path, folder: Path) -> Iterator[str]:
    """The DSN of a fresh server that listens on a socket only and asks for a password."""
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to be root.
    password = secrets.token_hex(16)
    (folder / "password").write_text(password)
    if user is not None:
        subprocess.run(["chown", "-R", user, folder], check=True)

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), *arguments]
        subprocess.run(command, user=user, cwd=folder, stdout=subprocess.DEVNULL, check=True)

    options = [f"-k {folder}", "-c listen_addresses=", *(f"-c {key}={value}" for key, value in FAST.items())]
    data = str(folder / "data")
    run("initdb", "-D", data, "-U", "penstock", "-A", "scram-sha-256", "--pwfile", str(folder / "password"), "-N")
    run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", " ".join(options), "start")
    try:
        yield f"postgresql://penstock:{password}@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
