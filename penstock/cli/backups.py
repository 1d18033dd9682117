"""`penstock backup` and `penstock restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import on_store
from penstock.cli.output import say
from penstock.config import Settings

PARTIAL = 3


@on_store
def backup(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the backup. It holds secrets.")],
) -> None:
    """Back the database up to a file while servers run."""
    from penstock.server.backups import back_up

    size = back_up(settings, file)
    say(f"wrote {size:,} bytes to {file}")


@on_store
def restore(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that `penstock backup` wrote.")],
) -> None:
    """Restore a backup into a database that does not exist yet, or is empty."""
    from penstock.server import backups

    if backups.restore(settings, file):
        say(f"restored {file}")
        return
    say(
        "penstock: restored, but the streams of this database deliver nothing until its server has used as many"
        " transactions as the old one; copy the whole PostgreSQL with pg_basebackup to keep the positions of streams"
    )
    raise typer.Exit(PARTIAL)
