"""Reports a run while it is active: to its row in the database, and to a display."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import adbc_driver_manager as adbc

from penstock.spark.database import Database
from penstock.spark.pipelines.progress import Progress
from penstock.spark.pipelines.run_log import RunLog

if TYPE_CHECKING:
    from penstock.spark.pipelines.run import Run

REPORT_S = 5.0
SHOW_S = 1.0

Show = Callable[[Progress], None]


class Reporter(threading.Thread):
    """Updates the run's row and the display from a thread, so that a busy pipeline does not look dead."""

    def __init__(self, run: Run, url: str, run_id: int, show: Show | None) -> None:
        super().__init__(name="pipeline-reporter", daemon=True)
        self._run, self._show = run, show
        # A separate connection, with a shorter timeout than the last report has.
        self._log = RunLog(Database(url, patience_s=REPORT_S), run_id)
        self._ended = threading.Event()

    def run(self) -> None:
        due = 0.0
        while not self._ended.wait(SHOW_S):
            if time.monotonic() >= due:
                # A run continues while the database is unavailable; its row is updated later.
                with suppress(adbc.Error):
                    self._run.report(self._log)
                    self._run.keep_claims()
                due = time.monotonic() + REPORT_S
            if self._show is not None:
                self._show(self._run.progress())

    def end(self) -> None:
        self._ended.set()
        self.join(timeout=2 * REPORT_S)
        self._log.close()


def report_last(run: Run, log: RunLog) -> None:
    try:
        run.report(log)
    except adbc.Error:
        # A failed run raises its own error, and the database may be its cause.
        if run.state != "failed":
            raise
    finally:
        log.close()
