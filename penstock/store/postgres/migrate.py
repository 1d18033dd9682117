"""Bringing a database up to date: numbered migrations once, functions whenever they changed.

Twenty servers may start at once: an advisory lock lets one do the work and the others find it done. Each
migration is one transaction. A database migrated by a newer release is refused.
"""

from __future__ import annotations

import hashlib
from functools import cache

import asyncpg

from penstock.errors import Unsupported
from penstock.store.postgres import sql

_LOCK = 1885695605
_OLDEST = 140000

_BOOTSTRAP = """
create schema if not exists penstock;
create table if not exists penstock.migrations (
  name text primary key,
  sha256 text not null,
  applied_at timestamptz not null default now()
);
"""


@cache
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def migrate(dsn: str, *, dry_run: bool = False, patience_s: float = 60) -> list[str]:
    """Apply what is missing; the names of what was, or with `dry_run` would be, applied.

    Raises `TimeoutError` when the database does not accept a connection within `patience_s`.
    """
    connection = await asyncpg.connect(dsn, timeout=patience_s)
    try:
        return await migrate_connection(connection, dry_run=dry_run)
    finally:
        await connection.close()


async def migrate_connection(connection: asyncpg.Connection, *, dry_run: bool = False) -> list[str]:
    version = int(await connection.fetchval("show server_version_num"))
    if version < _OLDEST:
        raise Unsupported(f"PostgreSQL {version // 10000} is too old; Penstock needs 14 or later")
    if not await _missing(connection):
        return []
    if dry_run:
        return [name for name, _ in await _missing(connection)]
    await connection.execute("select pg_advisory_lock($1)", _LOCK)
    try:
        await connection.execute(_BOOTSTRAP)
        missing = await _missing(connection)
        for name, text in missing:
            async with connection.transaction():
                await connection.execute(text)
                await connection.execute(
                    """
                    insert into penstock.migrations (name, sha256) values ($1, $2)
                    on conflict (name) do update set sha256 = excluded.sha256, applied_at = now()
                    """,
                    name,
                    _digest(text),
                )
        return [name for name, _ in missing]
    finally:
        await connection.execute("select pg_advisory_unlock($1)", _LOCK)


def names() -> list[str]:
    """What a new database gets, in order."""
    return [*(name for name, _ in sql.sources("migrations")), "streams", "functions"]


async def _missing(connection: asyncpg.Connection) -> list[tuple[str, str]]:
    """Migrations not yet applied, in order; then all of streams and all the functions, when any of theirs changed."""
    known: dict[str, str] = {}
    if await connection.fetchval("select to_regclass('penstock.migrations')") is not None:
        rows = await connection.fetch("select name, sha256 from penstock.migrations")
        known = {row["name"]: row["sha256"] for row in rows}
    migrations = sql.sources("migrations")
    _refuse_newer(known, {name for name, _ in migrations})
    missing = []
    for name, text in migrations:
        if name not in known:
            missing.append((name, text))
        elif known[name] != _digest(text):
            raise Unsupported(f"migration {name} differs from the one this database was migrated with")
    migrated = bool(missing)
    # Streams are one unit, in a schema of their own that needs nothing of ours: loading the whole of it is its upgrade.
    streams = sql.whole("pgque")
    if known.get("streams") != _digest(streams):
        await _refuse_foreign_streams(connection)
        missing.append(("streams", streams))
    # Functions are another one: they call each other and streams, and the grants come last.
    functions = sql.whole("penstock")
    if migrated or known.get("functions") != _digest(functions):
        missing.append(("functions", functions))
    return missing


def _refuse_newer(known: dict[str, str], ours: set[str]) -> None:
    newer = sorted(name for name in known if name not in ("functions", "streams") and name not in ours)
    if newer:
        raise Unsupported(f"this database was migrated by a newer release of Penstock ({newer[-1]})")


async def _refuse_foreign_streams(connection: asyncpg.Connection) -> None:
    """A schema `pgque` that is not ours holds somebody's queues: it is left alone."""
    foreign = await connection.fetchval(
        """
        select true
        from pg_class as c
        where c.relnamespace = to_regnamespace('pgque')
          and to_regclass('pgque.subscriber') is null
        limit 1
        """
    )
    if foreign:
        raise Unsupported(
            "this database has a schema pgque that Penstock did not make; rename it "
            "(alter schema pgque rename to ...), remove it, or give Penstock another database"
        )
