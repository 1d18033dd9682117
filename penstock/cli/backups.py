"""`penstock backup`, `penstock restore` and `penstock upgrade`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import DryRun, Json, on_store
from penstock.cli.output import Output, say
from penstock.config import Settings

PARTIAL = 3


@on_store
def backup(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the backup. It holds secrets.")],
    as_json: Json = False,
) -> None:
    """Back the database up to a file while servers run."""
    from penstock.cli.progress import copying
    from penstock.server.backups import Work, back_up

    work = Work()
    with copying("backing up", work):
        size = back_up(settings, file, work)
    Output(as_json).done(f"wrote {size:,} bytes to {file}", file=str(file), bytes=size)


@on_store
def restore(
    settings: Settings,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that `penstock backup` wrote.")],
    as_json: Json = False,
) -> None:
    """Restore a backup into a database that does not exist yet, or is empty."""
    from penstock.cli.progress import copying
    from penstock.server import backups

    work = backups.Work()
    with copying("restoring", work):
        complete = backups.restore(settings, file, work)
    if complete:
        Output(as_json).done(f"restored {file}", file=str(file), streams_wait=False)
        return
    if as_json:
        Output(True).done("", file=str(file), streams_wait=True)
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
    as_json: Json = False,
) -> None:
    """Move the data of the embedded PostgreSQL to the newest major version. No server may be running on it."""
    from penstock.server import backups

    before, after = backups.versions(settings)
    kept = None if before == after or dry_run else backups.upgrade(settings, old_programs)
    if before == after:
        text = f"the data is of PostgreSQL {after}, which is the newest"
    elif dry_run:
        text = f"the data would be moved from PostgreSQL {before} to {after}"
    else:
        text = f"moved the data from PostgreSQL {before} to {after}; delete the old data in {kept} when all is well"
    Output(as_json).done(text, before=before, after=after, old_data=None if kept is None else str(kept))
