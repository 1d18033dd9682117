"""Back a store up to one file while servers use it, and restore such a file into a new store."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.config import Settings
from penstock.errors import Conflict, Invalid, NotFound, Unavailable, Unsupported
from penstock.server.stores import database, describe, embedded_directory, require_files

if TYPE_CHECKING:
    from penstock.store.postgres.embedded.server import EmbeddedPostgres

CLUSTER, DUMP, SQLITE = b"\x1f\x8b", b"PGDMP", b"SQLite format 3\0"
"""How the files begin: a copy of an embedded PostgreSQL, a dump of another one, and a SQLite file."""
OWNER_ONLY = 0o600


@dataclass
class Work:
    """How far a backup or restore is, for another thread that shows it."""

    done: Callable[[], int] = lambda: 0
    """Bytes so far. Fails with OSError once the file is closed."""
    total: int | None = None


def back_up(settings: Settings, target: Path, work: Work) -> int:
    """Write all data of the store to a new file, which holds secrets; its size in bytes."""
    if settings.store == "memory":
        raise Unsupported("an in-memory store cannot be backed up")
    if target.exists():
        raise Conflict(f"{target} already exists")
    require_files(settings)
    with _new_file(target) as (path, file):
        work.done = lambda: path.stat().st_size
        if settings.store == "sqlite":
            assert settings.sqlite is not None
            work.total = settings.sqlite.stat().st_size
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


def restore(settings: Settings, source: Path, work: Work) -> bool:
    """Fill a store that does not exist yet. False: all data is there, but streams wait; see `restore_dump`."""
    if not source.exists():
        raise NotFound(f"{source} does not exist")
    with source.open("rb") as file:
        start = file.read(16)
        file.seek(0)
        match settings.store:
            case "sqlite" if start == SQLITE:
                assert settings.sqlite is not None
                _restore_sqlite(file, settings.sqlite, work)
            case "embedded" if start.startswith(CLUSTER):
                _read_along(file, work)
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
    from penstock.store.postgres.embedded.server import EmbeddedPostgres

    if settings.store != "embedded":
        raise Unsupported("only the embedded PostgreSQL is upgraded by this command; upgrade your own as usual")
    require_files(settings)
    return EmbeddedPostgres(embedded_directory(settings))


def _restore_cluster(settings: Settings, file: IO[bytes]) -> None:
    from penstock.store.postgres.embedded.server import EmbeddedPostgres

    embedded = EmbeddedPostgres(embedded_directory(settings))
    try:
        embedded.restore(file)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise Invalid(f"the backup is damaged: {error}") from error
    embedded.start()
    embedded.stop()


def _restore_sqlite(source: IO[bytes], target: Path, work: Work) -> None:
    if target.exists():
        raise Conflict(f"{target} already exists")
    _read_along(source, work)
    with _new_file(target) as (path, file):
        shutil.copyfileobj(source, file)
        file.flush()
        _check_sqlite(path)


def _read_along(source: IO[bytes], work: Work) -> None:
    descriptor = source.fileno()
    work.total = os.fstat(descriptor).st_size
    # The position of the file itself: that of the Python object must not be asked for while another thread reads.
    work.done = lambda: os.lseek(descriptor, 0, os.SEEK_CUR)


def _copy_sqlite(source: Path, target: Path) -> None:
    with closing(_read_only(source)) as old, closing(sqlite3.connect(target)) as new:
        # A journal would be left behind on a full disk. A copy that fails is deleted.
        new.execute("pragma journal_mode = off")
        try:
            old.backup(new)
        except sqlite3.Error as error:
            raise Unavailable(f"cannot copy SQLite file {source}: {error}") from error


def _check_sqlite(path: Path) -> None:
    with closing(_read_only(path)) as copy:
        try:
            [found] = copy.execute("pragma quick_check(1)").fetchone()
        except sqlite3.Error as error:
            found = str(error)
    if found != "ok":
        raise Invalid(f"the backup is damaged: {found}")


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


@contextmanager
def _new_file(target: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A file for its owner only that gets its name when it is complete and on disk."""
    if not target.parent.is_dir():
        raise NotFound(f"there is no directory {target.parent}")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "r+b") as file:
            yield temporary, file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)
