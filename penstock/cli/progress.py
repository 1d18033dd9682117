"""Progress of long work: one line on a terminal that is updated. Pipeline runs also write a line to a log at times."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.server.backups import Work
    from penstock.spark.pipelines.progress import Progress

LINE_S = 10.0
"""Seconds between two lines in a log."""
REFRESH_S = 0.25
WIDTH = 30
CLEAR = "\r\x1b[K"


def line(progress: Progress) -> str:
    parts = [
        progress.pipeline,
        progress.state,
        f"{progress.rows:,} {'row' if progress.rows == 1 else 'rows'}",
        f"{progress.rows_per_s:,.0f} rows/s",
        f"{progress.batches:,} {'batch' if progress.batches == 1 else 'batches'}",
    ]
    if progress.lag_events is not None:
        parts.append(f"lag {progress.lag_events:,} events, {duration(progress.lag_s or 0.0)}")
    parts.append(duration(progress.elapsed_s))
    if progress.note:
        parts.append(progress.note)
    return " · ".join(parts)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


@contextmanager
def starting() -> Iterator[None]:
    """Show that Spark is starting, which takes seconds."""
    lives = sys.stderr.isatty()
    print("starting Spark", end="" if lives else "\n", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if lives:
            print(CLEAR, end="", file=sys.stderr, flush=True)


@contextmanager
def display() -> Iterator[Callable[[Progress], None]]:
    """Gives a function to call with each progress. The last line stays on the screen."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(Text(""), console=Console(stderr=True), refresh_per_second=4) as live:
        yield lambda progress: live.update(Text(line(progress), overflow="ellipsis", no_wrap=True), refresh=True)


class _Lines:
    """Prints a line when state or note change, and every few seconds."""

    def __init__(self) -> None:
        self._due = 0.0
        self._said: tuple[str, str | None] | None = None

    def __call__(self, progress: Progress) -> None:
        saying = (progress.state, progress.note)
        if time.monotonic() < self._due and saying == self._said:
            return
        self._due, self._said = time.monotonic() + LINE_S, saying
        print(line(progress), file=sys.stderr, flush=True)


@contextmanager
def copying(what: str, work: Work) -> Iterator[None]:
    """Show how far a backup or restore is while the block runs; nothing unless standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended, start, screen = threading.Event(), time.monotonic(), sys.stderr

    def show() -> None:
        while not ended.wait(REFRESH_S):
            print(CLEAR + copied(what, work, time.monotonic() - start), end="", file=screen, flush=True)

    shower = threading.Thread(target=show, daemon=True)
    shower.start()
    try:
        yield
    finally:
        ended.set()
        shower.join()
        print(CLEAR, end="", file=screen, flush=True)


def copied(what: str, work: Work, elapsed_s: float) -> str:
    try:
        done = work.done()
    except OSError:
        # The file is complete and closed; the server behind it is still being started.
        done = work.total or 0
    if not work.total:
        amount = f"{done / 1e6:,.1f} MB · " if done else ""
        return f"{what} · {amount}{duration(elapsed_s)}"
    part = min(done / work.total, 1.0)
    bar = "█" * int(part * WIDTH)
    return f"{what} {bar.ljust(WIDTH, '░')} {part:.0%} · {done / 1e6:,.1f} MB · {duration(elapsed_s)}"
