"""The list of commands in docs/cli.md, made from the commands themselves: `python -m penstock.cli.manual`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from penstock.cli import command_line
from penstock.cli.options import SHARED


def commands(command: Any, path: str = "penstock") -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield path, command
        return
    for name, found in subcommands.items():
        yield from commands(found, f"{path} {name}")


def on_servers() -> dict[str, Any]:
    """The commands that work on any server or database, and those that name servers."""
    found = dict(commands(command_line()))
    return {
        name: one
        for name, one in found.items()
        if any(param.name == "url" and param.opts for param in one.params)
        or name.startswith(("penstock context", "penstock stream", "penstock pgque"))
        or name == "penstock completion"
    }  # fmt: skip


def markdown() -> str:
    return "\n".join(_section(name, command) for name, command in on_servers().items())


def _section(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    usage = " ".join([name, *(_argument(param) for param in arguments)])
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", (command.help or "").strip())
    own = [param for param in command.params if param not in arguments and param.name not in _shared(command)]
    rows = [_row(param) for param in own if param.name != "help"]
    head = ["| option | default | meaning |", "|---|---|---|"] if rows else []
    return "\n".join([f"### `{name}`", "", f"`{usage}`", "", text, "", *head, *rows, *([""] if rows else [])])


def _shared(command: Any) -> set[str]:
    """Commands with an option `--tenant` or `--token` of their own say what it means there."""
    usual = {"tenant": "on a database", "token": "PENSTOCK_TOKEN"}
    described = {param.name for param in command.params if usual.get(param.name, "") not in (param.help or "")}
    if not any(param.name in ("as_json", "database_url") for param in command.params):
        return set()
    return SHARED - described


def _argument(param: Any) -> str:
    shown = param.metavar or param.name.upper()
    return shown if param.required else f"[{shown}]"


def _row(param: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    metavar = "" if param.is_flag else f" {param.metavar or 'N'}"
    if param.is_flag and param.secondary_opts:
        default = (param.opts if param.default else param.secondary_opts)[0].removeprefix("--")
    elif param.is_flag:
        default = "off"
    else:
        default = f"`{param.default}`" if param.default not in (None, "") else ""
    return f"| {names}{metavar} | {default} | {param.help} |"


if __name__ == "__main__":
    print(markdown(), end="")
