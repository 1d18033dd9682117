"""A PostgreSQL for the tests: the one named by PENSTOCK_TEST_DSN, or one for each test process.

The latter runs the programs in the directory PENSTOCK_TEST_PROGRAMS, or else the embedded ones. Processes that share a
server may see each other: a transaction that is open in one holds up the turning of tables in all.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from penstock.store.postgres.embedded import EmbeddedPostgres
from penstock.store.postgres.migrate import migrate

FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB"}
"""The data of a test need not outlive the machine. Tests about durability use a server of their own."""


@contextmanager
def private_server(directory: Path) -> Iterator[str]:
    """The DSN of a database in which tests may do as they like."""
    if given := os.environ.get("PENSTOCK_TEST_DSN"):
        with empty_database(given) as dsn:
            yield dsn
        return
    if programs := os.environ.get("PENSTOCK_TEST_PROGRAMS"):
        with _running(Path(programs)) as dsn:
            yield dsn
        return
    server = EmbeddedPostgres(directory, settings=FAST)
    server.start()
    try:
        yield server.dsn
    finally:
        server.stop()


@contextmanager
def empty_database(dsn: str) -> Iterator[str]:
    """A new database beside the given one, gone afterwards whoever is still connected."""
    with _database(dsn, "template0") as found:
        yield found


@contextmanager
def migrated_database(dsn: str) -> Iterator[str]:
    """The same with our schemas in it: a copy, which is there in a fraction of the time."""
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
    asyncio.run(migrate(with_database(dsn, name)))
    return name


def _create(dsn: str, template: str) -> str:
    name = f"penstock_test_{secrets.token_hex(6)}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        statement = sql.SQL("create database {} template {}")
        connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
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
def _running(programs: Path) -> Iterator[str]:
    """The DSN of a fresh server that listens on a socket only and asks for a password."""
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to be root.
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
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
