"""One snapshot for many tasks: a process beside the driver keeps it open while they read.

Spark plans a read in a process that ends before the tasks begin, so the transaction that exports the snapshot must
live elsewhere. The keeper ends when every piece has been read, when its time is over, or with the driver: an open
snapshot keeps PostgreSQL from cleaning up.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from uuid import uuid4

import adbc_driver_manager as adbc

from penstock.spark.database import Database, resolve

LONGEST_S = 3600.0
LOOK_S = 0.5

_URL = "PENSTOCK_SNAPSHOT_URL"
_EXPORT = "select pg_export_snapshot()"
_NOTE = "insert into penstock.spark_pieces (read_id, piece) values ($1, $2) on conflict do nothing"
_COUNT = "select count(*) from penstock.spark_pieces where read_id = $1"
_FORGET = "delete from penstock.spark_pieces where read_id = $1"


def keep(url: str, pieces: int) -> tuple[str, str]:
    """The name of a snapshot that tasks can import, and the id by which they say that a piece is read."""
    read_id = uuid4().hex
    arguments = ["--read", read_id, "--pieces", str(pieces), "--driver", str(os.getppid())]
    keeper = subprocess.Popen(
        [sys.executable, "-m", "penstock.spark.snapshot", *arguments],
        env={**os.environ, _URL: resolve(url)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    snapshot = keeper.stdout.readline().strip()
    if not snapshot:
        raise RuntimeError("PostgreSQL exported no snapshot")
    return snapshot, read_id


def done(database: Database, read_id: str, piece: int) -> None:
    try:
        database.rows(_NOTE, read_id, piece)
    except adbc.Error:
        # Whoever may only read cannot say it; then the keeper's time decides.
        database.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--read", required=True)
    parser.add_argument("--pieces", type=int, required=True)
    parser.add_argument("--driver", type=int, required=True)
    given = parser.parse_args()
    with Database(f"env:{_URL}").connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("set transaction isolation level repeatable read, read only")
            cursor.execute(_EXPORT)
            row = cursor.fetchone()
        assert row is not None
        print(row[0], flush=True)
        _wait(Database(f"env:{_URL}"), given.read, given.pieces, given.driver)


def _wait(database: Database, read_id: str, pieces: int, driver: int) -> None:
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until and _alive(driver) and database.value(_COUNT, read_id) < pieces:
        time.sleep(LOOK_S)
    database.rows(_FORGET, read_id)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
