"""Progress of a pipeline run: one line that is updated on a terminal, and a line every few seconds in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.pipelines.progress import Progress

LINE_S = 10.0
"""Seconds between two lines in a log."""


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
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


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
