"""`penstock pipeline run` that is told to end, as a shell, `timeout` or a supervisor does: with all of its group."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.spark import streams
from tests.system.serving import COMMAND, environment

pytestmark = pytest.mark.timeout(300)
PATIENCE_S = 120.0


def test_a_signal_to_the_whole_group_ends_a_run_in_good_order(
    dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["one"])
    streams.tick(database, "orders")
    run = subprocess.Popen(
        [*COMMAND, "pipeline", "run", "archive", "--stream", "orders", "--lake", "lake", "--follow"],
        cwd=tmp_path,
        env=environment({"DATABASE_URL": dsn}),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while not (tmp_path / "lake" / "events" / "_delta_log").exists():
            assert run.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGTERM)
        _, said = run.communicate(timeout=PATIENCE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)

    assert run.returncode == 0, said
    assert database.execute("select state, error from penstock.pipeline_runs").fetchall() == [("stopped", None)]
