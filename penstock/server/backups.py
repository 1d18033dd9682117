"""Back a store up to one file while servers use it, and restore such a file into a new store."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.config import Settings
from penstock.errors import Conflict, Invalid, NotFound, Unsupported
from penstock.server.direct import require_files
from penstock.server.stores import database, describe

if TYPE_CHECKING:
    from penstock.store.postgres.embedded.server import EmbeddedPostgres

CLUSTER, DUMP, SQLITE = b"\x1f\x8b", b"PGDMP", b"SQLite format 3\0"
"""How the files begin: a copy of an embedded PostgreSQL, a dump of another one, and a SQLite file."""
OWNER_ONLY = 0o600


def back_up(settings: Settings, target: Path) -> int:
    """Write all data of the store to a new file, which holds secrets; its size in bytes."""
    if settings.store == "memory":
        raise Unsupported("an in-memory store cannot be backed up")
    if target.exists():
        raise Conflict(f"{target} already exists")
    require_files(settings)
    with _new_file(target) as (path, file):
        if settings.store == "sqlite":
            assert settings.sqlite is not None
            _copy_sqlite(settings.sqlite, path)
        else:
            _back_up_postgres(settings, file)
    return target.stat().st_size


def _back_up_postgres(settings: Settings, file: IO[bytes]) -> None:
    from penstock.store.postgres import backups

    with database(settings) as found:
        assert found.dsn is not None
        if found.embedded is None:
            backups.dump(found.dsn, file)
        else:
            asyncio.run(backups.allow_copy(found.dsn, found.embedded.cluster))
            backups.copy_cluster(found.dsn, file)


def restore(settings: Settings, source: Path) -> bool:
    """Fill a store that does not exist yet. False: all data is there, but streams wait; see `restore_dump`."""
    if not source.exists():
        raise NotFound(f"{source} does not exist")
    with source.open("rb") as file:
        start = file.read(16)
        file.seek(0)
        match settings.store:
            case "sqlite" if start == SQLITE:
                assert settings.sqlite is not None
                _restore_sqlite(source, settings.sqlite)
            case "embedded" if start.startswith(CLUSTER):
                _restore_cluster(settings, file)
            case "postgres" if start.startswith(DUMP):
                from penstock.store.postgres.backups import restore_dump

                assert settings.database_url is not None
                return asyncio.run(restore_dump(settings.database_url, source))
            case "memory":
                raise Unsupported("a backup cannot be restored into memory")
            case _:
                raise Invalid(f"{source} is not a backup that {describe(settings)} can be restored from")
    return True


def versions(settings: Settings) -> tuple[int, int]:
    """The major versions of PostgreSQL: of the data, and of this release."""
    return _embedded(settings).versions()


def upgrade(settings: Settings, old_programs: Path | None) -> Path | None:
    """Move the data to the PostgreSQL of this release; where the old data is."""
    return _embedded(settings).upgrade(old_programs)


def _embedded(settings: Settings) -> EmbeddedPostgres:
    from penstock.store.postgres.embedded.server import EmbeddedPostgres, default_directory

    if settings.store != "embedded":
        raise Unsupported("only the embedded PostgreSQL is upgraded by this command; upgrade your own as usual")
    require_files(settings)
    return EmbeddedPostgres(settings.data or default_directory())


def _restore_cluster(settings: Settings, file: IO[bytes]) -> None:
    from penstock.store.postgres.embedded.server import EmbeddedPostgres, default_directory

    embedded = EmbeddedPostgres(settings.data or default_directory())
    embedded.restore(file)
    embedded.start()
    embedded.stop()


def _restore_sqlite(source: Path, target: Path) -> None:
    if target.exists():
        raise Conflict(f"{target} already exists")
    with _new_file(target) as (_, file), source.open("rb") as copied:
        shutil.copyfileobj(copied, file)


def _copy_sqlite(source: Path, target: Path) -> None:
    origin = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(origin, uri=True)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@contextmanager
def _new_file(target: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A file for its owner only that gets its name when it is complete and on disk."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "r+b") as file:
            yield temporary, file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
