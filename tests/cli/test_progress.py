"""The progress of backups and restores: a line on a terminal, and nothing anywhere else."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from penstock.cli import progress
from penstock.server.backups import Work
from tests.cli.commands import penstock


class Screen(io.StringIO):
    """A terminal; it tells when something is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "backing up" in text:
            self.shown.set()
        return super().write(text)


def test_a_terminal_shows_how_far_it_is_and_is_left_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(progress, "REFRESH_S", 0.01)

    with progress.copying("backing up", Work(lambda: 500_000, 1_000_000)):
        assert screen.shown.wait(30)

    assert "50% · 0.5 MB" in screen.getvalue()
    assert screen.getvalue().endswith(progress.CLEAR)


def test_without_a_total_the_amount_and_the_time_are_shown() -> None:
    assert progress.copied("backing up", Work(lambda: 2_500_000), 61) == "backing up · 2.5 MB · 1m01s"
    assert progress.copied("restoring", Work(), 2) == "restoring · 2.0s"


def test_a_file_that_is_closed_already_counts_as_complete() -> None:
    def closed() -> int:
        raise OSError(9, "Bad file descriptor")

    assert "100%" in progress.copied("restoring", Work(closed, 10), 1)


def test_backups_print_no_progress_into_files(tmp_path: Path) -> None:
    store, file = ("--sqlite", str(tmp_path / "q.db")), str(tmp_path / "copy")
    penstock("queue", "create", "orders", *store)

    made = penstock("backup", file, *store)
    restored = penstock("restore", file, "--sqlite", str(tmp_path / "new.db"))

    assert (made.code, made.out, restored.code, restored.out) == (0, "", 0, "")
    assert made.err.startswith("wrote ")
    assert restored.err == f"restored {file}\n"
    assert "orders" in penstock("queue", "list", "--sqlite", str(tmp_path / "new.db")).out
