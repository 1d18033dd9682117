"""The command line. Commands import the server and the client when they run, so that `--help` answers fast."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, NoReturn

import typer

from penstock.cli import backups, lake, pgque, pipelines, running, sql
from penstock.cli.commands import (
    audit,
    bench,
    completion,
    contexts,
    demo,
    jobs,
    mcp,
    queues,
    schedules,
    status,
    streams,
    tenants,
    tokens,
    topics,
    worker,
)
from penstock.config import SettingsError, redact
from penstock.errors import Forbidden, Invalid, NotFound, PenstockError

app = typer.Typer(
    help="Run and administer a Penstock server: queues, jobs, topics, streams and schedules on one database.",
    no_args_is_help=True,
    # Importing rich takes longer than the rest of `--help`, and shows flags as <bool>.
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(running.serve)
app.command()(running.migrate)
app.command()(backups.backup)
app.command()(backups.restore)
app.command()(backups.upgrade)
app.command("config")(running.show_config)
app.command()(running.version)
app.command()(status.status)
app.command()(status.top)
app.command()(status.check)
app.command()(demo.demo)
app.command()(bench.bench)
app.command("audit")(audit.list_acts)
app.command()(completion.completion)
app.command()(mcp.mcp)
app.command()(worker.worker)
app.add_typer(contexts.app, name="context")
app.add_typer(queues.app, name="queue")
app.add_typer(jobs.app, name="job")
app.add_typer(schedules.app, name="schedule")
app.add_typer(topics.topics, name="topic")
app.add_typer(topics.subscriptions, name="subscription")
app.add_typer(topics.deliveries, name="delivery")
app.add_typer(streams.app, name="stream")
app.add_typer(tokens.app, name="token")
app.add_typer(tenants.app, name="tenant")
app.add_typer(pipelines.app, name="pipeline")
app.add_typer(lake.app, name="lake")
app.add_typer(sql.app, name="sql")
app.add_typer(pgque.app, name="pgque")

USAGE, NOT_FOUND, NOT_ALLOWED = 2, 4, 5
"""Exit codes beside 0 for success, 1 for failure and 3 for work that was done in part."""


def _print_version(requested: bool) -> None:
    if requested:
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
    try:
        command(arguments, prog_name=program)
    except SettingsError as error:
        _exit(program, error.problems, USAGE)
    except (PenstockError, OSError) as error:
        _exit(program, [str(error) or type(error).__name__], exit_code(error))


@cache
def command_line() -> Any:
    """The whole command line. To build it takes longer than most commands run."""
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
