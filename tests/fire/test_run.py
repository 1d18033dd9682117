"""A short run with real servers, as `make fire` does it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.system.serving import ROOT, environment

MARK = "FIRE_TEST_MARK"


def left_behind(mark: str) -> list[str]:
    """Processes that were started with this mark in their environment."""
    found = []
    for status in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in status.read_bytes():
                found.append((status.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_guarantees_hold_in_a_short_run_and_no_process_is_left(tmp_path: Path) -> None:
    mark = uuid4().hex
    options = [
        "--seconds",
        "10",
        "--seed",
        "5",
        "--nodes",
        "1",
        "--rate",
        "20",
        "--every",
        "2",
        "--keep",
        str(tmp_path),
    ]
    chosen = ("kill server", "kill postgres", "fill disk", "cut during answers", "flood")
    kinds = [word for kind in chosen for word in ("--fault", kind)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fire", *options, *kinds, "--keep", str(tmp_path)],
        cwd=ROOT,
        env=environment({MARK: mark}),
        capture_output=True,
        text=True,
        timeout=580,
    )

    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "VERDICT: all guarantees held" in done.stdout
    # Processes that end when their parent does take a moment.
    give_up = time.monotonic() + 30
    while (left := left_behind(mark)) and time.monotonic() < give_up:
        time.sleep(0.1)
    assert left == []
