"""Several processes that write the same batches to one table at the same time. Threads would not do: a commit lets
no other thread of its process in.

Run as a program it prints, as JSON, how many of them each batch was written by.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Barrier

import pyarrow as pa
from deltalake import Schema
from deltalake.table import TableMerger

from penstock.spark import lake
from penstock.spark.lake.files import TaskFiles
from penstock.spark.lake.storage import filesystem
from penstock.spark.lake.table import Commit
from tests.system.serving import ROOT, environment

RACERS = 8
BATCHES = 3
PATIENCE_S = 60.0


def race(how: str, path: str, storage: dict[str, str]) -> list[int]:
    program = [sys.executable, "-m", "tests.spark.lake.racing", how, path]
    done = subprocess.run(
        program, cwd=ROOT, env=environment(storage), stdout=subprocess.PIPE, text=True, timeout=120, check=True
    )
    found: list[int] = json.loads(done.stdout)
    return found


def write(path: str, racer: int, batch: int) -> bool:
    rows = pa.record_batch({"n": [batch]})
    files = TaskFiles(filesystem(path, {}), rows.schema, (), "", str(racer))
    files.add(rows)
    return Commit(path, {}, Schema.from_arrow(rows.schema), app="race", app_version=batch).add(files.close())


def merge(path: str, racer: int, batch: int) -> bool:
    """Adds one to every row. The table is made before."""

    def clauses(merger: TableMerger) -> TableMerger:
        return merger.when_matched_update({"n": "target.n + 1"})

    return (
        lake.merge(path, pa.table({"id": [1]}), "target.id = source.id", clauses, app="race", version=batch) is not None
    )


HOW = {"write": write, "merge": merge}


def _take_part(how: str, path: str, racer: int, start: Barrier, written: SynchronizedArray[int]) -> None:
    for batch in range(BATCHES):
        start.wait(PATIENCE_S)
        if HOW[how](path, racer, batch):
            with written.get_lock():
                written[batch] += 1


def _main(how: str, path: str) -> None:
    # Forked before anything was asked of deltalake: all that is imported is shared, and no thread is there to be lost.
    made = multiprocessing.get_context("fork")
    start, written = made.Barrier(RACERS), made.Array("i", BATCHES)
    racers = [made.Process(target=_take_part, args=(how, path, each, start, written)) for each in range(RACERS)]
    for each in racers:
        each.start()
    for each in racers:
        each.join(PATIENCE_S)
    assert [each.exitcode for each in racers] == [0] * RACERS
    print(json.dumps(written[:]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
