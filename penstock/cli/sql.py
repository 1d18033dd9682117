"""`penstock sql`: the way past the server, to the database itself."""

from __future__ import annotations

from importlib.resources import files

import typer

from penstock.cli.options import on_store
from penstock.config import Settings

app = typer.Typer(help="The database itself: its URL, and SQL for one without a server.", no_args_is_help=True)

HEADER = """\
-- Streams of Penstock, in one file: psql -1 -f pgque.sql
-- Loading it again changes what differs and keeps what is stored.

"""


@app.command()
def streams() -> None:
    """Print streams as one file, to be loaded with `psql -1 -f`."""
    folder = files("penstock") / "store/postgres/streams"
    found = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    print(HEADER + "\n".join(entry.read_text(encoding="utf-8") for entry in found), end="")


@app.command()
@on_store
def url(settings: Settings) -> None:
    """Print the URL of the server's PostgreSQL, for psql, Spark and other programs. It holds the password."""
    from penstock.server import stores

    print(stores.url(settings))
