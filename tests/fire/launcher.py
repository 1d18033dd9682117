"""`python -m tests.fire.launcher serve …` is `penstock serve …`, with faults that only a test may have.

FIRE_CLOCK_S moves the clock of this process. FIRE_MUTANT breaks one rule: see `tests/fire/mutants.py`.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from penstock.cli import main
from penstock.clock import SystemClock
from tests.fire.mutants import break_engines
from tests.fire.processes import die_with_parent


def move_clock(seconds: float) -> None:
    plain = SystemClock.now

    def now(self: SystemClock) -> datetime:
        return plain(self) + timedelta(seconds=seconds)

    SystemClock.now = now  # type: ignore[method-assign]


if __name__ == "__main__":
    die_with_parent()
    if offset := float(os.environ.get("FIRE_CLOCK_S", "0")):
        move_clock(offset)
    if name := os.environ.get("FIRE_MUTANT"):
        break_engines(name)
    main()
