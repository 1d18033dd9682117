"""`penstock sql`: what can be loaded into a database without a server."""

from __future__ import annotations

from importlib.resources import files

import typer

app = typer.Typer(help="SQL for a database of yours, without a server.", no_args_is_help=True)

HEADER = """\
-- Streams of Penstock, in one file: psql -1 -f pgque.sql
-- Loading it again changes what differs and keeps what is stored.

"""


@app.callback()
def group() -> None:
    """A group although it has one command: what else can be loaded will be another."""


@app.command()
def streams() -> None:
    """Print streams as one file, to be loaded with `psql -1 -f`."""
    folder = files("penstock") / "store/postgres/streams"
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    print(HEADER + "\n".join(entry.read_text(encoding="utf-8") for entry in found), end="")
