"""`penstock sql`: the database URL, and SQL to install streams without a server."""

from __future__ import annotations

import typer

from penstock.cli.options import on_store
from penstock.config import Settings

app = typer.Typer(help="Print the database URL or the SQL of streams.", no_args_is_help=True)

HEADER = """\
-- Streams of Penstock in one file. Install or upgrade with: psql -1 -f pgque.sql
-- An upgrade keeps all data.

"""


@app.command()
def streams() -> None:
    """Print the SQL that installs or upgrades streams; load it with `psql -1 -f`."""
    from penstock.server import stores

    print(HEADER + stores.stream_sql(), end="")


@app.command()
@on_store
def url(settings: Settings) -> None:
    """Print the URL of the server's PostgreSQL for psql, Spark and other programs. It contains the password."""
    from penstock.server import stores

    print(stores.url(settings))
