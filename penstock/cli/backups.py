"""`penstock backup`, `penstock restore` and `penstock upgrade`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import DryRun, on_store
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


@on_store
def upgrade(
    settings: Settings,
    old_programs: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="Directory of the old PostgreSQL, if this release has it no more."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Move the data of the embedded PostgreSQL to the newest major version. No server may be running on it."""
    from penstock.server import backups

    before, after = backups.versions(settings)
    if before == after:
        say(f"the data is of PostgreSQL {after}, which is the newest")
    elif dry_run:
        say(f"the data would be moved from PostgreSQL {before} to {after}")
    else:
        kept = backups.upgrade(settings, old_programs)
        say(
            f"moved the data from PostgreSQL {before} to {after}; the old data is in {kept}, delete it when all is well"
        )
