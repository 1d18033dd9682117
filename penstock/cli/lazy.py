"""A group of commands that imports a command when it is run, and lists all of them without that."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

from penstock.cli.table import COMMANDS


class Group(TyperGroup):
    """A group whose `--help` has a value when it is not given: to make one of nothing, typer imports pydantic."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None and option.default is None:
            option.default = False
        return option


class LazyGroup(Group):
    """The commands of the table."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = Commands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, text) for name, (_, text) in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class Commands(MutableMapping[str, Any]):
    """Commands by name; one that is asked for is imported and built."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = build(name, COMMANDS[name][0])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def build(name: str, place: str) -> Any:
    """The command at `module:attribute` below `penstock.cli`: a function, or a group of commands."""
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"penstock.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        info = TyperInfo(found, name=name, cls=Group)
        return get_group_from_info(info, pretty_exceptions_short=True, suggest_commands=True, rich_markup_mode=None)
    command = CommandInfo(name, callback=found)
    return get_command_from_info(command, pretty_exceptions_short=True, rich_markup_mode=None)
