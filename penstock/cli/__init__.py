"""The command line. The commands that `table.py` lists are imported when they are run, so that `--help` is fast."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, NoReturn

import typer

from penstock.cli.lazy import LazyGroup
from penstock.config import SettingsError, redact
from penstock.errors import Forbidden, Invalid, NotFound, PenstockError

app = typer.Typer(
    cls=LazyGroup,
    help="Run and administer a Penstock server: queues, jobs, topics, streams and schedules on one database.",
    no_args_is_help=True,
    # Importing rich takes longer than the rest of `--help`, and shows flags as <bool>.
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)

USAGE, NOT_FOUND, NOT_ALLOWED = 2, 4, 5
"""Exit codes beside 0 for success, 1 for failure and 3 for work that was done in part."""


def _print_version(requested: bool) -> None:
    if requested:
        from penstock.cli import running

        running.version()
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    run(command_line(), arguments, "penstock")


def run(command: Callable[..., None], arguments: Sequence[str] | None, program: str) -> None:
    """Run a command. Expected errors are printed as one line each."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding != "utf-8":
        # A terminal that knows fewer characters shows the others as escapes.
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        # In the locale C, Python would let bytes that are no text pass.
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    if "_PENSTOCK_COMPLETE" in os.environ:
        # A shell asks what could come next: see commands/completion.py.
        from typer._completion_classes import completion_init

        completion_init()
    try:
        command(arguments, prog_name=program)
    except SettingsError as error:
        _exit(program, error.problems, USAGE)
    except (PenstockError, OSError) as error:
        _exit(program, [str(error) or type(error).__name__], exit_code(error))


@cache
def command_line() -> Any:
    """The whole command line, built once."""
    return typer.main.get_command(app)


def exit_code(error: Exception) -> int:
    match error:
        case Invalid():
            return USAGE
        case NotFound():
            return NOT_FOUND
        case Forbidden():
            return NOT_ALLOWED
        case _:
            return 1


def _exit(program: str, problems: Sequence[str], code: int) -> NoReturn:
    for problem in problems:
        print(f"{program}: {redact(problem)}", file=sys.stderr)
    sys.exit(code)
