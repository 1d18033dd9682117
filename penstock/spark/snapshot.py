"""One snapshot for many tasks: a process beside the driver keeps it open while they read.

Spark plans a read in a process that ends before the tasks begin, so the transaction that exports the snapshot must
live elsewhere. An open snapshot keeps PostgreSQL from cleaning up, but Spark tells nobody when it is done: it may read
a part, read twice, or fail. So the keeper looks whether pieces are at work, and ends when none has been for a while.

A piece holds a lock while it reads, and notes before that it begins: the keeper might miss a lock that is held shortly.
Who may not write, or reads from a standby, leaves no note: unless a lock is seen, the keeper waits as for the first.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import adbc_driver_manager as adbc
import pyarrow as pa

from penstock.spark.connection import Connection
from penstock.spark.database import FAILURES, Database, SnapshotLost, resolve

FIRST_S = 600.0
"""How long the keeper waits for the first piece: other stages of a job may have all the cores."""
IDLE_S = 60.0
"""How long it waits for another."""
LOOK_S = 0.5

_URL = "PENSTOCK_SNAPSHOT_URL"
_IMPORT = "set transaction snapshot"
_ENDED = (
    f"the moment that this DataFrame reads has ended; PostgreSQL keeps it for {IDLE_S:.0f} seconds after its last use."
    " Read the table anew, and cache() what is used several times"
)
_NOTE = """
    insert into penstock.spark_pieces (read_id, piece, noted_at) values ($1, $2, clock_timestamp())
    on conflict (read_id, piece) do update set noted_at = excluded.noted_at
"""
_LAST_NOTE = "select max(p.noted_at)::text from penstock.spark_pieces as p where p.read_id = $1"
_FORGET = "delete from penstock.spark_pieces where read_id = $1"
_AT_WORK = """
    select true from pg_locks as l
    where l.locktype = 'advisory' and l.objsubid = 1 and (l.classid::bigint << 32 | l.objid::bigint) = $1
    limit 1
"""

_keepers: list[subprocess.Popen[str]] = []


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot that tasks can import, and the number of the lock by which they are seen at work."""

    name: str
    lock: int


def keep(url: str) -> Kept:
    lock = secrets.randbits(62)
    arguments = {"lock": lock, "driver": os.getppid(), "first": FIRST_S, "idle": IDLE_S, "look": LOOK_S}
    keeper = subprocess.Popen(
        [sys.executable, "-m", "penstock.spark.snapshot", *(f"--{name}={value}" for name, value in arguments.items())],
        env={**os.environ, _URL: resolve(url)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Those that have ended are collected; the others outlive this process.
    _keepers[:] = [keeper, *(each for each in _keepers if each.poll() is None)]
    assert keeper.stdout is not None
    with keeper.stdout as told:
        said = json.loads(told.readline() or '{"error": "its keeper ended"}')
    if "error" in said:
        raise RuntimeError(f"PostgreSQL exported no snapshot: {said['error']}")
    return Kept(said["snapshot"], lock)


def batches(database: Database, query: str, kept: Kept, piece: int) -> Iterator[pa.RecordBatch]:
    """The rows of one piece. Asked once for all rows, PostgreSQL takes the lock before the first."""
    # Best effort: see above.
    with suppress(*FAILURES):
        database.rows(_NOTE, str(kept.lock), piece)
    database.close()
    seen = f"select * from ({query}) as r where (select pg_try_advisory_xact_lock_shared({kept.lock}))"  # noqa: S608
    try:
        yield from database.batches(seen, kept.name)
    except adbc.Error as error:
        if _IMPORT in str(error):
            raise SnapshotLost(_ENDED) from error
        raise


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, kind in (("lock", int), ("driver", int), ("first", float), ("idle", float), ("look", float)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    given = parser.parse_args()
    database = Database(f"env:{_URL}")
    try:
        # Asked again while the database is away; then it is there for the transaction too.
        database.value("select 1")
        connection = database.connect_for_long()
        snapshot = _export(connection)
    except (*FAILURES, ValueError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"snapshot": snapshot}), flush=True)
    with suppress(*FAILURES), connection:
        _wait(_Watch(database, given.lock), given)
    with suppress(*FAILURES):
        database.rows(_FORGET, str(given.lock))


def _export(connection: Connection) -> str:
    connection.rows("set transaction isolation level repeatable read, read only")
    [[snapshot]] = connection.rows("select pg_export_snapshot()")
    return str(snapshot)


class _Watch:
    """Whether pieces are at work, or were since the last look."""

    def __init__(self, database: Database, lock: int) -> None:
        self._database = database
        self._lock = lock
        self._last: str | None = None
        self._readable = True

    def active(self) -> bool:
        at_work = self._database.value(_AT_WORK, self._lock) is not None
        return self._noted() or at_work

    def _noted(self) -> bool:
        if not self._readable:
            return False
        try:
            last, self._last = self._last, self._database.value(_LAST_NOTE, str(self._lock))
        except adbc.ProgrammingError:
            self._readable = False
            return False
        return last != self._last


def _wait(watch: _Watch, given: argparse.Namespace) -> None:
    since, patience = time.monotonic(), given.first
    while time.monotonic() - since < patience and _alive(given.driver):
        time.sleep(given.look)
        if watch.active():
            since, patience = time.monotonic(), given.idle


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
