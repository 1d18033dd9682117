"""`make demo-pipeline`, with fewer events: it checks its own numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_demonstration_shows_the_lake_and_the_insights() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.pipeline_demo", "--events", "3000"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for shown in ("current/shop.orders", "history/shop.customers", "insights/hourly", "printer <n> is out of paper"):
        assert shown in done.stdout
