"""Options shared by several commands: the server or the database they work on, and how they print."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.output import Output
from penstock.config import Settings, describe, join_address, read_file, split_address, variable_value
from penstock.errors import Invalid

Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Settings file, TOML or .ini. Default: ./penstock.toml if it exists."),
]
DatabaseUrl = Annotated[str | None, typer.Option(metavar="URL", help=describe("database_url"))]
Data = Annotated[Path | None, typer.Option(metavar="DIRECTORY", help=describe("data"))]
Sqlite = Annotated[Path | None, typer.Option(metavar="FILE", help="SQLite file to use instead of PostgreSQL.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Columns = Annotated[str | None, typer.Option(metavar="A,B", help="Print these fields, in this order.")]
Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="Server to ask. Default: PENSTOCK_URL.")]
Token = Annotated[str | None, typer.Option("--token", metavar="TEXT", help="API token. Default: PENSTOCK_TOKEN.")]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Named server to ask.")]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Tenant to act for, on a database. Default: default."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]

SHARED = {
    *("url", "token", "context", "tenant", "database_url", "data", "sqlite", "config", "as_json", "columns"),
    *("dsn", "database_name"),
}
"""Parameters that `on_server` and the commands of `pgque` add; the documentation describes them once."""

Command = Callable[..., None]


def on_store(command: Command) -> Command:
    """Add the options that select a store to a command, which receives them as `settings`."""

    def run(
        *,
        database_url: DatabaseUrl = None,
        data: Data = None,
        sqlite: Sqlite = None,
        config: Config = None,
        **others: Any,
    ) -> None:
        command(load(config, {"database_url": database_url, "data": data, "sqlite": sqlite}), **others)

    return _joined(run, command, {"settings"})


def on_server(*, creates: bool = False) -> Callable[[Command], Command]:
    """Add the options that select a server or a database, and those of the output.

    The command receives them as `server` and `out`. On a database that does not exist, or is not up to date, it fails
    unless it `creates`. A command with an option `tenant` of its own acts for the default tenant.
    """

    def decorate(command: Command) -> Command:
        own_tenant = "tenant" in inspect.signature(command).parameters

        def run(
            *,
            url: Url = None,
            token: Token = None,
            context: Context = None,
            tenant: Tenant = None,
            database_url: DatabaseUrl = None,
            data: Data = None,
            sqlite: Sqlite = None,
            config: Config = None,
            columns: Columns = None,
            as_json: Json = False,
            **others: Any,
        ) -> None:
            from penstock.cli.remote import Chosen, connect

            flags = {"database_url": database_url, "data": data, "sqlite": sqlite}
            if own_tenant:
                others["tenant"], tenant = tenant, None
            chosen = Chosen(url, token, context, tenant, any(flags.values()), lambda: load(config, flags))
            with connect(chosen, creates=creates) as server:
                command(server, Output(as_json, columns), **others)

        return _joined(run, command, {"server", "out"})

    return decorate


def _joined(run: Command, command: Command, given: set[str]) -> Command:
    """`run` with the options of `command` too, apart from those that `run` gives it itself."""

    def named(function: Command) -> dict[str, inspect.Parameter]:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
        return {
            found.name: found.replace(kind=found.KEYWORD_ONLY)
            for found in parameters
            if found.name not in given and found.kind != found.VAR_KEYWORD
        }

    own = named(command)
    parameters = [*own.values(), *(found for name, found in named(run).items() if name not in own)]
    functools.update_wrapper(run, command)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {found.name: found.annotation for found in parameters}
    return run


def load(config: Path | None, flags: dict[str, Any], host: str | None = None, port: int | None = None) -> Settings:
    toml = read_file(config)
    if host is not None or port is not None:
        base = flags.get("address") or variable_value("address") or toml.get("address") or Settings.address
        flags["address"] = _with_host_and_port(str(base), host, port)
    return Settings.load(toml, os.environ, flags)


def _with_host_and_port(address: str, host: str | None, port: int | None) -> str:
    try:
        base = split_address(address)
    except ValueError:
        return address  # Settings.load reports it.
    return join_address(base[0] if host is None else host, base[1] if port is None else port)


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `12h`, `30d`, `1h30m`."""
    parts = re.fullmatch(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", text.strip())
    if not text.strip() or parts is None:
        raise Invalid(f"'{text}' is not a duration; examples: 30d, 12h, 1h30m")
    days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def seconds(text: str) -> int:
    """A number of seconds, or a duration."""
    return int(text) if text.strip().isdigit() else int(parse_duration(text).total_seconds())


def read_text(given: str) -> str:
    """The argument itself, or standard input for `-`."""
    return "".join(read_lines()) if given == "-" else given


def read_lines() -> Iterator[str]:
    """The lines of standard input."""
    try:
        yield from sys.stdin
    except UnicodeDecodeError:
        raise Invalid("standard input is not UTF-8 text") from None


def as_json(given: str) -> Any:
    """JSON where it is JSON, else the text itself."""
    import json

    try:
        return json.loads(given)
    except ValueError:
        return given


def only_json(given: str, what: str) -> Any:
    import json

    try:
        return json.loads(given)
    except ValueError as error:
        raise Invalid(f"{what} is not valid JSON: {error}") from None
