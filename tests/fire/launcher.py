"""`python -m tests.fire.launcher serve …` is `penstock serve …`, with faults that only a test may have.

FIRE_CLOCK names a file with seconds by which the clock of this process is moved; SIGUSR1 reads it again. FIRE_RELEASE
is the number of a release to come: each has one more migration and other functions. FIRE_MUTANT breaks one rule: see
`tests/fire/mutants.py`.
"""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta
from pathlib import Path

from penstock.cli import main
from penstock.clock import SystemClock
from penstock.store.postgres import sql
from tests.fire.mutants import break_engines
from tests.fire.processes import die_with_parent


def move_clock(file: Path) -> None:
    plain = SystemClock.now
    offset = timedelta()

    def now(self: SystemClock) -> datetime:
        return plain(self) + offset

    def read(*_: object) -> None:
        nonlocal offset
        offset = timedelta(seconds=float(file.read_text()))

    SystemClock.now = now  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, read)
    read()


def be_release(number: int) -> None:
    """A later release: a table has one more column for each, and the functions are loaded again."""
    plain_sources, plain_whole = sql.sources, sql.whole
    more = [
        (f"9{each:03}_later.sql", f"alter table penstock.queues add column if not exists later_{each} integer;\n")
        for each in range(1, number + 1)
    ]

    def sources(unit: str) -> tuple[tuple[str, str], ...]:
        return (*plain_sources(unit), *(more if unit == "migrations" else []))

    def whole(unit: str) -> str:
        return f"{plain_whole(unit)}\n-- release {number}\n"

    sql.sources, sql.whole = sources, whole  # type: ignore[assignment]


if __name__ == "__main__":
    die_with_parent()
    if file := os.environ.get("FIRE_CLOCK"):
        move_clock(Path(file))
    if release := int(os.environ.get("FIRE_RELEASE", "0")):
        be_release(release)
    if name := os.environ.get("FIRE_MUTANT"):
        break_engines(name)
    main()
