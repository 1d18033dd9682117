"""Options that commands share, and what they lead to."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from penstock.config import Settings, join_address, read_file, split_address
from penstock.errors import Invalid, NotFound
from penstock.model import Tenant

if TYPE_CHECKING:
    from penstock.server import Engine

Result = TypeVar("Result")

Config = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings in TOML; default: ./penstock.toml.")]
DatabaseUrl = Annotated[str | None, typer.Option(metavar="URL", help="Use this PostgreSQL; default: $DATABASE_URL.")]
Data = Annotated[Path | None, typer.Option(metavar="DIRECTORY", help="Where the embedded PostgreSQL keeps its data.")]
Sqlite = Annotated[Path | None, typer.Option(metavar="FILE", help="Use this SQLite file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def on_store(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose a store; the command itself takes `settings` in their place."""

    def run(
        *,
        database_url: DatabaseUrl = None,
        data: Data = None,
        sqlite: Sqlite = None,
        config: Config = None,
        **others: Any,
    ) -> None:
        command(load(config, {"database_url": database_url, "data": data, "sqlite": sqlite}), **others)

    def named(function: Callable[..., None]) -> list[inspect.Parameter]:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
        return [
            found.replace(kind=found.KEYWORD_ONLY)
            for found in parameters
            if found.name != "settings" and found.kind != found.VAR_KEYWORD
        ]

    parameters = named(command) + named(run)
    functools.update_wrapper(run, command)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {found.name: found.annotation for found in parameters}
    return run


def load(config: Path | None, flags: dict[str, Any], host: str | None = None, port: int | None = None) -> Settings:
    toml = read_file(config)
    if host is not None or port is not None:
        below = flags.get("address") or os.environ.get("QUEUE_ADDRESS") or toml.get("address") or Settings.address
        flags["address"] = _adjusted(str(below), host, port)
    return Settings.load(toml, os.environ, flags)


def _adjusted(address: str, host: str | None, port: int | None) -> str:
    try:
        below = split_address(address)
    except ValueError:
        return address  # reported with everything else
    return join_address(below[0] if host is None else host, below[1] if port is None else port)


def with_engine(work: Callable[[Engine], Awaitable[Result]], settings: Settings) -> Result:
    """Do something with the store, whether its server runs or not."""
    if settings.store == "memory":
        raise Invalid("a store in memory exists only inside its server")
    from penstock.server import open_engine

    async def run() -> Result:
        async with open_engine(settings) as engine:
            return await work(engine)

    return asyncio.run(run())


async def find_tenant(engine: Engine, name: str) -> Tenant:
    for found in await engine.tenants.list():
        if found.name == name:
            return found
    raise NotFound(f"there is no tenant '{name}'; make it with: penstock tenant create {name}")
