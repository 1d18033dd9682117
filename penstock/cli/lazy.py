"""A group of commands that imports a command when it is run, and lists all of them without that."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

from penstock.cli.table import COMMANDS


class Argument(TyperArgument):
    """An argument that help shows as it is typed: `QUEUE`, not `{QUEUE}` and `QUEUE <str>`."""

    @property
    def display_name_raw(self) -> str:
        return self.metavar or self.name.upper()

    def display_type_rich(self, ctx: Any) -> str | None:
        return super().display_type_rich(ctx) if self.type_descriptor.is_choice else None

    def get_usage_pieces(self, ctx: Any) -> list[str]:
        name = self._rich_display_name()
        return [name if self.required else f"[{name}]"]


class Command(TyperCommand):
    """A command whose help has no types of Python, such as `<list[str]>`."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        for param in self.params:
            if isinstance(param, TyperArgument):
                # typer makes the arguments and has no option for their class.
                param.__class__ = Argument
            elif isinstance(param, TyperOption) and param.metavar is None and not param.is_flag:
                kind = param.type_descriptor
                if not kind.is_choice:
                    param.metavar = "N" if kind.annotation in (int, float) else "TEXT"


class Group(TyperGroup):
    """A group whose `--help` has a value when it is not given: to make one of nothing, typer imports pydantic."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None and option.default is None:
            option.default = False
        return option

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The first sentence of each command, wrapped; typer cuts it at the end of the line."""
        rows = [(name, command.get_short_help_str(limit=200)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Typer suggests commands of a similar name; when there is none, the error lists all."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not get_close_matches(name, self.commands):
            ctx.fail(f"No such command '{name}'; commands: {', '.join(self.commands)}")
        return super().resolve_command(ctx, args)


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
        _describe_plainly(found)
        info = TyperInfo(found, name=name, cls=Group)
        return get_group_from_info(info, pretty_exceptions_short=True, suggest_commands=True, rich_markup_mode=None)
    command = CommandInfo(name, callback=found, cls=Command)
    return get_command_from_info(command, pretty_exceptions_short=True, rich_markup_mode=None)


def _describe_plainly(app: typer.Typer) -> None:
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _describe_plainly(group.typer_instance)
