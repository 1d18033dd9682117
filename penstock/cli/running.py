"""`penstock serve`, `migrate`, `config`, `version`."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.options import Config, Data, DatabaseUrl, Json, Sqlite, load, on_store
from penstock.cli.output import print_rows
from penstock.config import Settings, markdown, shown


class Auth(StrEnum):
    open = "open"
    token = "token"  # noqa: S105
    sigv4 = "sigv4"


class LogFormat(StrEnum):
    auto = "auto"
    json = "json"
    console = "console"


def serve(
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen; default: 127.0.0.1:9324.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Only the host of the address.")] = None,
    port: Annotated[int | None, typer.Option(help="Only its port; 0 picks a free one.")] = None,
    database_url: DatabaseUrl = None,
    data: Data = None,
    sqlite: Sqlite = None,
    memory: Annotated[bool | None, typer.Option("--memory", help="Keep everything in memory.")] = None,
    auth: Annotated[Auth | None, typer.Option(help="Default: open on a loopback address, else token.")] = None,
    workers: Annotated[int | None, typer.Option(help="Server processes; default: 1.")] = None,
    batching: Annotated[
        bool | None, typer.Option("--batching/--no-batching", help="Let requests share statements; default: yes.")
    ] = None,
    linger_ms: Annotated[int | None, typer.Option(help="How long a send waits for others; default: 0.")] = None,
    base_url: Annotated[str | None, typer.Option(metavar="URL", help="The URL clients reach us at.")] = None,
    strict: Annotated[
        bool | None, typer.Option("--strict/--relaxed", help="Keep to AWS's pauses and quotas; default: no.")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="Default: info.")] = None,
    log_format: Annotated[LogFormat | None, typer.Option(help="Default: JSON unless on a terminal.")] = None,
    config: Config = None,
) -> None:
    """Serve until told to stop. Without any option: on an embedded PostgreSQL."""
    flags = {
        "address": address,
        "database_url": database_url,
        "data": data,
        "sqlite": sqlite,
        "memory": memory,
        "auth": auth,
        "workers": workers,
        "batching": batching,
        "linger_ms": linger_ms,
        "base_url": base_url,
        "strict": strict,
        "log_level": log_level,
        "log_format": log_format,
    }
    settings = load(config, flags, host, port)
    from penstock import server

    server.run(settings)


@on_store
def migrate(
    settings: Settings,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """Bring the database's schema up to date. `serve` does it too."""
    from penstock import server

    applied = asyncio.run(server.migrate(settings, dry_run=dry_run))
    for name in applied:
        print(f"{'would apply' if dry_run else 'applied'} {name}")
    if not applied:
        print("the schema is up to date")


def show_config(
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="The reference of all settings.", hidden=True)
    ] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Print every setting, its value here, and where that comes from."""
    if as_markdown:
        print(markdown(), end="")
        return
    rows = [{"setting": name, "value": value, "from": origin} for name, value, origin in shown(load(config, {}))]
    print_rows(rows, as_json, "")


def version() -> None:
    """Print the version."""
    from penstock import server

    print(f"penstock {server.version()}")
