"""`penstock pipeline run` that is told to end as systemd does it, together with every process it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from penstock.spark.running.session import _interrupts_wait
from tests.spark import streams
from tests.spark.processes.killing import wait_until
from tests.system.serving import COMMAND, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PATIENCE_S = 120.0


def processes(session: int) -> dict[int, str]:
    """Those of a session, with the names of their programs."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(path.name)) == session:
                found[int(path.name)] = (path / "comm").read_text().strip()
    return found


def test_a_signal_to_all_its_processes_ends_a_run_in_good_order(
    dsn: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["one"])
    streams.tick(database, "orders")
    log = tmp_path / "lake" / "events" / "_delta_log"
    run = subprocess.Popen(
        [*COMMAND, "pipeline", "run", "archive", "--stream", "orders", "--lake", "lake", "--follow"],
        cwd=tmp_path,
        env=environment({"DATABASE_URL": dsn}),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: run.poll() is not None or log.exists(), lambda: "nothing is archived")
        assert run.poll() is None
        told = processes(run.pid)
        for process in told:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        _, said = run.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not processes(run.pid), lambda: f"these are left: {processes(run.pid)}")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)

    assert run.returncode == 0, said
    assert {"java", Path(sys.executable).name} <= set(told.values())
    assert database.execute("select state, error from penstock.pipeline_runs").fetchall() == [("stopped", None)]


def test_an_interrupt_lets_java_start_first() -> None:
    """Else Java would stay for ever: it is told to end by a pipe that it does not look at before it has started."""
    started, before = [], signal.getsignal(signal.SIGINT)

    def start() -> None:
        with _interrupts_wait():
            os.kill(os.getpid(), signal.SIGINT)
            started.append(True)

    with pytest.raises(KeyboardInterrupt):
        start()

    assert started
    assert signal.getsignal(signal.SIGINT) is before
