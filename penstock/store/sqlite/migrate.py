"""Numbered migrations: each runs once, is remembered with its checksum, and is never edited after release."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

from penstock.errors import Conflict

MIGRATIONS = Path(__file__).parent / "migrations"

_HISTORY = """
create table if not exists migrations (
  number integer primary key,
  name text not null,
  sha256 text not null,
  applied_at text not null default current_timestamp
) strict
"""

_copying = threading.Lock()


def migrate_new(connection: sqlite3.Connection) -> None:
    """Give an empty database the newest schema: a copy, made in a tenth of the time that all migrations take."""
    with _copying:
        _migrated().backup(connection)


@cache
def _migrated() -> sqlite3.Connection:
    """The database that copies are made of, once in a process."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    migrate(connection)
    return connection


def migrate(connection: sqlite3.Connection, folder: Path = MIGRATIONS) -> int:
    """Bring the schema up to date, all or nothing; the number of migrations applied."""
    connection.execute("begin immediate")
    try:
        connection.execute(_HISTORY)
        applied = dict(connection.execute("select number, sha256 from migrations").fetchall())
        count = _apply_missing(connection, folder, applied)
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")
    return count


def missing(path: Path, folder: Path = MIGRATIONS) -> list[str]:
    """The names of the migrations that a file lacks; all of them when there is no file. Writes nothing."""
    known = {int(found.name[:4]): found for found in sorted(folder.glob("*.sql"))}
    applied: dict[int, str] = {}
    if path.exists():
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if connection.execute("select 1 from sqlite_master where name = 'migrations'").fetchone() is not None:
                applied = dict(connection.execute("select number, sha256 from migrations").fetchall())
    if newer := applied.keys() - known.keys():
        raise Conflict(f"The database has schema {max(newer)}, newer than this Penstock's {max(known)}")
    return [found.stem for number, found in known.items() if number not in applied]


def _apply_missing(connection: sqlite3.Connection, folder: Path, applied: dict[int, str]) -> int:
    known = {int(path.name[:4]): path for path in sorted(folder.glob("*.sql"))}
    if newer := applied.keys() - known.keys():
        raise Conflict(f"The database has schema {max(newer)}, newer than this Penstock's {max(known)}")
    count = 0
    for number, path in known.items():
        text = path.read_text("utf-8")
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        if number not in applied:
            _apply(connection, number, path.stem, text, sha256)
            count += 1
        elif applied[number] != sha256:
            raise Conflict(f"Migration {path.name} is not the one this database was made with")
    return count


def _apply(connection: sqlite3.Connection, number: int, name: str, text: str, sha256: str) -> None:
    for statement in statements(text):
        connection.execute(statement)
    connection.execute("insert into migrations (number, name, sha256) values (?, ?, ?)", (number, name, sha256))


def statements(text: str) -> Iterator[str]:
    """One by one, because `executescript` would commit the transaction they belong to."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement
