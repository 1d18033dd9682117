"""The command line. What a command needs is imported when it runs: `--help` must not wait for a server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from penstock.cli import audit, lake, pipelines, queues, running, sql, tenants, tokens
from penstock.config import SettingsError, redact
from penstock.errors import PenstockError

app = typer.Typer(
    help="Queues, jobs, topics, streams and schedules on one database: the server, and what looks after it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(running.serve)
app.command()(running.migrate)
app.command("config")(running.show_config)
app.command()(running.version)
app.command("audit")(audit.list_acts)
app.add_typer(tokens.app, name="token")
app.add_typer(tenants.app, name="tenant")
app.add_typer(queues.app, name="queue")
app.add_typer(pipelines.app, name="pipeline")
app.add_typer(lake.app, name="lake")
app.add_typer(sql.app, name="sql")


def _print_version(asked: bool) -> None:
    if asked:
        running.version()
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command; whatever goes wrong ends in a clear line and a non-zero exit."""
    try:
        app()
    except SettingsError as error:
        _give_up(error.problems, 2)
    except (PenstockError, OSError) as error:
        _give_up([str(error) or type(error).__name__], 1)


def _give_up(problems: Sequence[str], code: int) -> NoReturn:
    for problem in problems:
        print(f"penstock: {redact(problem)}", file=sys.stderr)
    sys.exit(code)
