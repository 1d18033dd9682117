"""One snapshot for many tasks: a process beside the driver holds it open while they read.

Spark plans a read in a process that ends before the tasks start, so the transaction that exports the snapshot must
live in another process. An open snapshot keeps PostgreSQL from removing dead rows, but Spark does not report the end of
a read: it may read a part, read twice, or fail. So the holder looks whether pieces are being read, and ends when none
has been for a while.

A piece holds an advisory lock while it is read, and leaves a note before: the holder might miss a short lock. A user
who may not write, or reads from a standby, leaves no note; then the holder sees locks only.

Spark plans the static side of a stream-static join once and reads it again in every micro-batch. A batch other than the
one that used the snapshot first therefore reads each piece in a new snapshot: it sees everything that was committed
before the events of its batch were.
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
from pathlib import Path

import adbc_driver_manager as adbc
import pyarrow as pa
from pyspark.taskcontext import TaskContext

from penstock.queries import parse
from penstock.spark.connection import Connection
from penstock.spark.database import FAILURES, Database, SnapshotLost, resolve
from penstock.spark.database import SQL as DATABASE_SQL

FIRST_S = 600.0
"""How long the holder waits for the first piece: other stages of a job may use all cores."""
IDLE_S = 60.0
"""How long the holder waits for the next piece."""
LOOK_S = 0.5

SQL = parse(Path(__file__).with_suffix(".sql").read_text("utf-8"))

_URL = "PENSTOCK_SNAPSHOT_URL"
_IMPORT = "set transaction snapshot"
_ENDED = (
    f"the snapshot of this DataFrame has ended; PostgreSQL keeps it for {IDLE_S:.0f} seconds after its last use."
    " Load the table again, and cache() a DataFrame that is used several times"
)
_OUTSIDE = ""
"""The batch of a read that belongs to no streaming query."""

_holders: list[subprocess.Popen[str]] = []


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """A snapshot that tasks can import, and the key of the advisory lock that they hold while they read."""

    name: str
    lock: int


def hold_snapshot(url: str) -> ExportedSnapshot:
    """Start the process that holds a snapshot open."""
    lock = secrets.randbits(62)
    arguments = {"lock": lock, "driver": os.getppid(), "first": FIRST_S, "idle": IDLE_S, "look": LOOK_S}
    holder = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "penstock.spark.reading.snapshot",
            *(f"--{name}={value}" for name, value in arguments.items()),
        ],
        env={**os.environ, _URL: resolve(url)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # poll() reaps holders that have ended; the others outlive this process.
    _holders[:] = [holder, *(each for each in _holders if each.poll() is None)]
    assert holder.stdout is not None
    with holder.stdout as output:
        answer = json.loads(output.readline() or '{"error": "the process that holds it ended"}')
    if "error" in answer:
        raise RuntimeError(f"PostgreSQL exported no snapshot: {answer['error']}")
    return ExportedSnapshot(answer["snapshot"], lock)


def streaming_batch() -> str | None:
    """Identifies the micro-batch that the current task works for; None outside of streaming queries."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    return None if context is None or not query else f"{query}/{context.getLocalProperty('streaming.sql.batchId')}"


def batches(
    database: Database, query: str, snapshot: ExportedSnapshot, piece: int, batch: str | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one piece; `batch` is the micro-batch that the task works for."""
    first = None
    # Best effort: a user who may only read leaves no notes.
    with suppress(*FAILURES):
        first = database.value(SQL["claim_snapshot"], str(snapshot.lock), batch or _OUTSIDE)
        database.rows(SQL["note_read"], str(snapshot.lock), piece)
    database.close()
    if batch is not None and first != batch:
        yield from database.batches(query)
        return
    # PostgreSQL evaluates the subquery once, and takes the lock before it returns the first row.
    locked = f"select * from ({query}) as r where (select pg_try_advisory_xact_lock_shared({snapshot.lock}))"  # noqa: S608
    try:
        yield from database.batches(locked, snapshot.name)
    except adbc.Error as error:
        if _IMPORT not in str(error):
            raise
        if batch is None:
            raise SnapshotLost(_ENDED) from error
        yield from database.batches(query)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, kind in (("lock", int), ("driver", int), ("first", float), ("idle", float), ("look", float)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    given = parser.parse_args()
    database = Database(f"env:{_URL}")
    try:
        # Retried while the database is unavailable; the transaction below is not.
        database.value(DATABASE_SQL["ping"])
        connection = database.connect_without_timeouts()
        snapshot = _export(connection)
    except (*FAILURES, ValueError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"snapshot": snapshot}), flush=True)
    with suppress(*FAILURES), connection:
        _wait(_Watch(database, given.lock), given)
    with suppress(*FAILURES):
        database.rows(SQL["delete_notes"], str(given.lock))


def _export(connection: Connection) -> str:
    connection.rows(DATABASE_SQL["begin_snapshot"])
    [[snapshot]] = connection.rows(DATABASE_SQL["export_snapshot"])
    return str(snapshot)


class _Watch:
    """Looks whether pieces are being read, or were since the last look."""

    def __init__(self, database: Database, lock: int) -> None:
        self._database = database
        self._lock = lock
        self._last: str | None = None
        self._readable = True

    def active(self) -> bool:
        at_work = self._database.value(SQL["is_locked"], self._lock) is not None
        return self._noted() or at_work

    def _noted(self) -> bool:
        if not self._readable:
            return False
        try:
            last, self._last = self._last, self._database.value(SQL["last_note"], str(self._lock))
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
