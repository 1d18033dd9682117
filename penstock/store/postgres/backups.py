"""Copies of a PostgreSQL database, made with the programs of the embedded extra.

The embedded PostgreSQL is copied as a whole cluster (pg_basebackup): positions of streams are transaction ids, which
continue only in a copy of the cluster. A database of another PostgreSQL is dumped (pg_dump).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg

from penstock.errors import Conflict, Unavailable
from penstock.store.postgres.embedded.binaries import find_installation

REPLICATION = "local replication all scram-sha-256"
"""The line of pg_hba.conf that allows a copy of the cluster."""
ROLES = ("penstock_reader", "penstock_writer", "penstock_admin", "pgque_reader", "pgque_writer", "pgque_admin")
"""Roles that a dump grants rights to, but does not contain."""

_FOREIGN = """
select n.nspname
from pg_catalog.pg_namespace as n
where n.nspname in ('penstock', 'pgque')
order by 1
limit 1
"""
_STREAMS_AHEAD = """
select exists (
  select
  from pgque.tick as t
  where pg_snapshot_xmax(t.tick_snapshot)::text::numeric > pg_current_xact_id()::text::numeric
)
"""


async def allow_copy(dsn: str, data: Path) -> None:
    """Let the superuser of an embedded cluster copy it: clusters of earlier releases do not."""
    file = data / "pg_hba.conf"
    if REPLICATION in file.read_text():
        return
    with file.open("a") as opened:
        opened.write(f"{REPLICATION}\n")
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("select pg_reload_conf()")
    finally:
        await connection.close()


def copy_cluster(dsn: str, target: IO[bytes]) -> None:
    """Write the cluster as a compressed tar archive, with the log that makes it consistent."""
    options = ["--pgdata=-", "--format=tar", "--wal-method=fetch", "--gzip", "--checkpoint=fast", "--no-password"]
    _run("pg_basebackup", [f"--dbname={_without_password(dsn)}", *options], dsn, output=target)


def dump(dsn: str, target: IO[bytes]) -> None:
    options = ["--format=custom", "--no-password"]
    _run("pg_dump", [f"--dbname={_without_password(dsn)}", *options], dsn, output=target)


async def restore_dump(dsn: str, source: Path) -> bool:
    """Load a dump into a database without our schemas, all or nothing.

    False: the streams wait, because the transaction ids of this server are behind those of the dumped one.
    """
    connection = await _connected(dsn)
    try:
        if taken := await connection.fetchval(_FOREIGN):
            raise Conflict(f"the database has a schema {taken} already; restore into an empty database")
        for role in ROLES:
            if not await connection.fetchval("select to_regrole($1) is not null", role):
                await connection.execute(f"create role {role} nologin")
        options = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-password"]
        _run("pg_restore", [f"--dbname={_without_password(dsn)}", *options, str(source)], dsn)
        return not await connection.fetchval(_STREAMS_AHEAD)
    finally:
        await connection.close()


async def _connected(dsn: str) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(dsn)
    except (asyncpg.PostgresError, OSError) as error:
        raise Unavailable(f"cannot connect to PostgreSQL: {error}") from error


def _run(program: str, arguments: list[str], dsn: str, output: IO[bytes] | None = None) -> None:
    done = subprocess.run(
        [find_installation().program(program), *arguments],
        env=_environment(dsn),
        stdin=subprocess.DEVNULL,
        stdout=output if output is not None else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").splitlines()
        # pg_basebackup warns of every socket, which says nothing about the failure.
        said = " ".join(line.strip() for line in lines if not line.startswith("WARNING:"))
        raise Unavailable(f"{program} failed: {said}")


def _environment(dsn: str) -> Mapping[str, str]:
    """Ours with the password, which must not be on a command line: everyone on the machine can read those."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
    password = urlsplit(dsn).password
    return {**kept, "LC_ALL": "C", **({"PGPASSWORD": unquote(password)} if password else {})}


def _without_password(dsn: str) -> str:
    parts = urlsplit(dsn)
    if parts.password is None:
        return dsn
    who, _, where = parts.netloc.rpartition("@")
    return urlunsplit((parts.scheme, f"{who.partition(':')[0]}@{where}", parts.path, parts.query, parts.fragment))
