"""The ground a server stands on: which store, and whether it keeps what it promises."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.auth import Mode
from penstock.config import Settings, is_loopback, redact
from penstock.engine import Engine
from penstock.engine.topics.webhooks import WebhookSettings
from penstock.errors import NotFound, PenstockError, Unavailable, Unsupported
from penstock.model import DEFAULT_TENANT, Scope
from penstock.store import Store

if TYPE_CHECKING:
    from penstock.store.postgres.embedded.server import EmbeddedPostgres
    from penstock.store.postgres.streams.administration import Administration
    from penstock.tracing.spans import Tracer

log = logging.getLogger(__name__)

PATIENCE_S = 2.0
"""How long PostgreSQL may take to accept a connection of a command whose user waits for an answer."""

CLOSE_S = 5.0
"""A database that hangs must not keep a server from stopping."""


@dataclass(frozen=True)
class Database:
    """Where the data is. `dsn` is PostgreSQL's, and a secret; `embedded` is ours to look after."""

    dsn: str | None = None
    embedded: EmbeddedPostgres | None = None


@contextmanager
def database(settings: Settings) -> Iterator[Database]:
    """Starts the embedded PostgreSQL when that is the store, and stops it again if it was not running."""
    if settings.store != "embedded":
        yield Database(settings.database_url if settings.store == "postgres" else None)
        return
    from penstock.store.postgres.embedded.server import EmbeddedPostgres

    room = max(200, settings.workers * settings.max_connections + 50)
    embedded = EmbeddedPostgres(embedded_directory(settings), settings={"max_connections": str(room)})
    embedded.start()
    try:
        yield Database(embedded.dsn, embedded)
    finally:
        embedded.stop()


def embedded_directory(settings: Settings) -> Path:
    from penstock.store.postgres.embedded.server import default_directory

    return settings.data or default_directory()


def _has_embedded(settings: Settings) -> bool:
    return (embedded_directory(settings) / "postgresql").exists()


def require_files(settings: Settings) -> None:
    """Fail when there is no database yet, rather than create one."""
    if settings.store == "sqlite" and not os.path.exists(settings.sqlite or ""):
        raise NotFound(f"SQLite file {settings.sqlite} does not exist")
    if settings.store == "embedded" and not _has_embedded(settings):
        raise NotFound(
            f"there is no embedded PostgreSQL in {embedded_directory(settings)}; start one with penstock serve, or name"
            " a server with --url or a database with --database-url or --sqlite"
        )


def make_engine(settings: Settings, dsn: str | None, tracer: Tracer | None = None) -> Engine:
    return Engine(
        _make_store(settings, dsn),
        batching=settings.batching,
        linger_s=settings.linger_ms / 1000,
        job_retention=timedelta(seconds=settings.job_retention_s),
        rate_per_token=settings.rate_per_token,
        rate_per_tenant=settings.rate_per_tenant,
        schedule_preview_count=settings.schedule_preview_count,
        schedule_list_max=settings.schedule_list_max,
        schedule_batch_size=settings.schedule_batch_size,
        base_url=settings.base_url or f"http://{settings.address}",
        webhooks=_webhooks(settings),
        tracer=tracer,
    )


def _webhooks(settings: Settings) -> WebhookSettings:
    return WebhookSettings(
        timeout_s=settings.http_delivery_timeout_s,
        parallel=settings.http_delivery_batch_size,
        each=settings.http_delivery_per_endpoint,
        delays_s=tuple(map(float, settings.http_delivery_delays.split(","))),
        rest_s=settings.http_delivery_pause_s,
        allow_private=settings.http_delivery_private,
        # A base URL elsewhere means that others reach this server through a proxy.
        allow_loopback=is_loopback(settings.host)
        and is_loopback(urlsplit(settings.base_url or "").hostname or "localhost"),
        retention_s=settings.http_delivery_retention_s,
    )


def _is_local(settings: Settings) -> bool:
    """Whether only this machine reaches the server. A base URL elsewhere means that a proxy leads to it."""
    outside = urlsplit(settings.base_url or "").hostname
    return is_loopback(settings.host) and (outside is None or is_loopback(outside))


def _make_store(settings: Settings, dsn: str | None) -> Store:
    default = settings.default_visibility_timeout_s
    # Only the store in use is imported: the other's driver costs a start in memory a tenth of a second.
    if dsn is not None:
        from penstock.store.postgres.store import PostgresStore

        return PostgresStore(dsn, max_connections=settings.max_connections, visibility_timeout_s=default)
    from penstock.store.sqlite.store import SqliteStore

    return SqliteStore(settings.sqlite, readers=settings.sqlite_readers, visibility_timeout_s=default)


@contextmanager
def _clearly(settings: Settings) -> Iterator[None]:
    """Say in one line which database did not open, and why."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PenstockError) and not isinstance(error, Unavailable):
            raise
        raise Unavailable(f"cannot open {describe(settings)}: {_why(error)}") from error


def _why(error: BaseException) -> str:
    """What it says and what it came from, each once: that a database cannot be reached, its cause tells better."""
    if isinstance(error, TimeoutError):
        return "it does not answer"
    said, cause = str(error) or type(error).__name__, error.__cause__
    if cause is not None:
        told = str(cause) or type(cause).__name__
        if said == Unavailable.__doc__:
            said = told
        elif told not in said:
            said = f"{said}: {told}"
    return " ".join(said.split())


@asynccontextmanager
async def opened(settings: Settings, dsn: str | None, tracer: Tracer | None = None) -> AsyncIterator[Engine]:
    """An engine on its store, schema up to date. A database that cannot be reached is a clear error."""
    engine = make_engine(settings, dsn, tracer)
    with _clearly(settings):
        await engine.open()
    try:
        yield engine
    finally:
        # Not wait_for: it would wait for the cancelled statement too, however long that takes.
        closing = asyncio.create_task(engine.close())
        done, _ = await asyncio.wait([closing], timeout=CLOSE_S)
        if not done:
            log.error("the store did not close in time")
        elif error := closing.exception():
            log.error("the store did not close cleanly", extra={"error": str(error)})


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[Engine]:
    """For a command that wants the store for a moment, beside a running server or without one."""
    with database(settings) as found:
        async with opened(settings, found.dsn) as engine:
            yield engine


async def migrate(settings: Settings, *, dry_run: bool = False) -> list[str]:
    """Bring the schema up to date; the names of the migrations applied, or to apply."""
    if dry_run and settings.store == "embedded" and not _has_embedded(settings):
        from penstock.store.postgres import migrate as migrations

        return migrations.names()
    with database(settings) as found:
        missing = await pending_migrations(settings, found.dsn)
        if not dry_run and missing:
            if found.dsn is None:
                async with opened(settings, None):
                    return missing
            from penstock.store.postgres import migrate as migrations

            with _clearly(settings):
                return await migrations.migrate(found.dsn)
        return missing


async def pending_migrations(settings: Settings, dsn: str | None) -> list[str]:
    """The names of the migrations that the store lacks. Changes nothing."""
    with _clearly(settings):
        if dsn is None:
            from penstock.store.sqlite.migrate import missing

            return missing(settings.sqlite) if settings.sqlite is not None else []
        from penstock.store.postgres import migrate as migrations

        return await migrations.migrate(dsn, dry_run=True)


def stream_sql() -> str:
    """The SQL of streams as one text, for a database without a server."""
    from penstock.store.postgres import sql

    return sql.whole("pgque")


async def administration(dsn: str | None, database: str | None = None) -> Administration:
    """The streams of a database, for the program `pgque`."""
    from penstock.store.postgres.streams.administration import Administration

    return await Administration.open(dsn, database)


def url(settings: Settings) -> str:
    """The address of PostgreSQL, password and all, for other programs. Starts nothing."""
    if settings.store in ("sqlite", "memory"):
        raise Unsupported("only PostgreSQL has a database URL; this store is SQLite")
    if settings.database_url is not None:
        return settings.database_url
    from penstock.store.postgres.embedded.server import EmbeddedPostgres

    return EmbeddedPostgres(embedded_directory(settings)).dsn


@contextmanager
def postgres(settings: Settings) -> Iterator[str]:
    """The address of PostgreSQL, for programs that connect by themselves. Changes nothing in the database.

    Raises when the schema is missing or of another release: the database may be the wrong one.
    """
    if settings.store in ("sqlite", "memory"):
        raise Unsupported(f"pipelines require PostgreSQL; this store is {describe(settings)}")
    require_files(settings)
    with database(settings) as found:
        from penstock.store.postgres import migrate as migrations

        assert found.dsn is not None
        with _clearly(settings):
            missing = asyncio.run(migrations.migrate(found.dsn, dry_run=True, patience_s=PATIENCE_S))
        if missing:
            raise Unsupported(
                f"{describe(settings)} is not up to date, missing: {_shortened(missing)}. If it is the right database,"
                " run `penstock migrate` first"
            )
        yield found.dsn


def _shortened(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} to {names[-1]} ({len(names)} in all)"


def describe(settings: Settings) -> str:
    """The store in use, without secrets."""
    match settings.store:
        case "memory":
            return "memory (gone when the server stops)"
        case "sqlite":
            return f"SQLite file {settings.sqlite}"
        case "postgres":
            return f"PostgreSQL at {redact(settings.database_url or '')}"
        case _:
            return f"embedded PostgreSQL in {embedded_directory(settings)}"


async def first_secrets(engine: Engine, mode: Mode) -> dict[str, str]:
    """An administrator's first token, and in sigv4 mode an access key, as variables; nothing where a token exists.

    Without them nobody could get in, and into a server in memory not even later.
    """
    if mode is Mode.OPEN or await engine.tenants.list_tokens(None):
        return {}
    admin = frozenset({Scope.ADMIN})
    _, text = await engine.tenants.create_token(DEFAULT_TENANT, "first", admin)
    made = {"PENSTOCK_TOKEN": text}
    if mode is Mode.SIGV4:
        key, secret = await engine.tenants.create_token(DEFAULT_TENANT, "first", admin, aws=True)
        made |= {"AWS_ACCESS_KEY_ID": key.prefix, "AWS_SECRET_ACCESS_KEY": secret}
    return made


async def warn_if_careless(dsn: str | None) -> None:
    """Say so when PostgreSQL is set up to lose what it has acknowledged, or to put tables of users beside ours."""
    if dsn is None:
        return
    try:
        careless, collides = await _careless_settings(dsn)
    except Exception as error:
        log.warning("the durability of PostgreSQL could not be checked", extra={"error": str(error)})
        return
    if collides:
        log.warning(
            "tables that this role creates without a schema collide with Penstock's",
            extra={"fix": "alter role current_user set search_path = public"},
        )
    for name in careless:
        log.warning("PostgreSQL may lose acknowledged messages in a crash", extra={"setting": name, "value": "off"})


async def _careless_settings(dsn: str) -> tuple[list[str], bool]:
    """Settings that risk data, and whether new tables go to our schema."""
    import asyncpg

    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        rows = await connection.fetch(
            "select name from pg_catalog.pg_settings"
            " where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off'"
        )
        schema = await connection.fetchval("select pg_catalog.current_schema()")
    finally:
        await connection.close()
    return [row["name"] for row in rows], schema == "penstock"
