"""`penstock serve`, `migrate`, `config`, `version`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import Config, Data, DatabaseUrl, Json, Sqlite, load, on_store
from penstock.cli.output import Output, print_rows
from penstock.config import Settings, describe, generate_ini, markdown, shown


class Auth(StrEnum):
    open = "open"
    token = "token"  # noqa: S105
    sigv4 = "sigv4"


class LogFormat(StrEnum):
    auto = "auto"
    json = "json"
    console = "console"


def serve(
    address: Annotated[str | None, typer.Option(metavar="HOST:PORT", help=describe("address"))] = None,
    host: Annotated[str | None, typer.Option(metavar="HOST", help="Replaces the host of the address.")] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="Replaces the port of the address.")] = None,
    database_url: DatabaseUrl = None,
    data: Data = None,
    sqlite: Sqlite = None,
    memory: Annotated[bool | None, typer.Option("--memory", help=describe("memory"))] = None,
    auth: Annotated[Auth | None, typer.Option(help=describe("auth"))] = None,
    allow_open: Annotated[bool | None, typer.Option("--allow-open", help=describe("allow_open"))] = None,
    ready_file: Annotated[Path | None, typer.Option(metavar="FILE", help=describe("ready_file"))] = None,
    workers: Annotated[int | None, typer.Option(metavar="N", help=describe("workers"))] = None,
    batching: Annotated[bool | None, typer.Option("--batching/--no-batching", help=describe("batching"))] = None,
    linger_ms: Annotated[int | None, typer.Option(metavar="MS", help=describe("linger_ms"))] = None,
    base_url: Annotated[str | None, typer.Option(metavar="URL", help=describe("base_url"))] = None,
    strict: Annotated[bool | None, typer.Option("--strict/--relaxed", help=describe("strict"))] = None,
    simple: Annotated[bool | None, typer.Option("--simple/--no-simple", help=describe("simple"))] = None,
    max_queue_length: Annotated[int | None, typer.Option(metavar="N", help=describe("simple_max_queue_length"))] = None,
    max_message_size: Annotated[int | None, typer.Option(metavar="KB", help=describe("simple_max_message_kb"))] = None,
    log_level: Annotated[str | None, typer.Option(metavar="LEVEL", help=describe("log_level"))] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help=describe("log_format"))] = None,
    config: Config = None,
) -> None:
    """Run the server until SIGTERM or Ctrl-C. Without options it starts an embedded PostgreSQL."""
    flags = {
        "address": address,
        "database_url": database_url,
        "data": data,
        "sqlite": sqlite,
        "memory": memory,
        "auth": auth,
        "allow_open": allow_open,
        "ready_file": ready_file,
        "workers": workers,
        "batching": batching,
        "linger_ms": linger_ms,
        "base_url": base_url,
        "strict": strict,
        "simple": simple,
        "simple_max_queue_length": max_queue_length,
        "simple_max_message_kb": max_message_size,
        "log_level": log_level,
        "log_format": log_format,
    }
    settings = load(config, flags, host, port)
    from penstock import server

    server.run(settings)


@on_store
def migrate(
    settings: Settings,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print pending migrations without applying them.")] = False,
    as_json: Json = False,
) -> None:
    """Apply pending migrations to the database. `penstock serve` does the same when it starts."""
    migrate_store(settings, dry_run=dry_run, as_json=as_json)


def migrate_store(settings: Settings, *, dry_run: bool, as_json: bool) -> None:
    import asyncio

    from penstock import server

    applied = asyncio.run(server.migrate(settings, dry_run=dry_run))
    if as_json:
        Output(True).record({"dry_run": dry_run, "migrations": applied})
        return
    for name in applied:
        print(f"{'would apply' if dry_run else 'applied'} {name}")
    if not applied:
        print("the schema is up to date")


class ConfigAction(StrEnum):
    generate = "generate"


def show_config(
    action: Annotated[
        ConfigAction | None, typer.Argument(help="Print a commented .ini file for the simple protocol instead.")
    ] = None,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the table of docs/reference.md.", hidden=True)
    ] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Print all settings, their values and origins.

    The origin is default, file, environment or flag.
    """
    if action is ConfigAction.generate:
        print(generate_ini(), end="")
        return
    if as_markdown:
        print(markdown(), end="")
        return
    rows = [{"setting": name, "value": value, "from": origin} for name, value, origin in shown(load(config, {}))]
    print_rows(rows, as_json, "")


def version(as_json: Json = False) -> None:
    """Print the version."""
    from penstock import server

    if as_json:
        Output(True).record({"version": server.version()})
    else:
        print(f"penstock {server.version()}")
