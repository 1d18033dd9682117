"""How far a long measurement is: a bar on a terminal, a line every ten percent elsewhere."""

from __future__ import annotations

import sys
import time

BAR = 30


class Progress:
    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._told = -1
        self._begin = time.monotonic()
        self._live = sys.stderr.isatty()

    def begin(self, label: str) -> None:
        """The next step begins; `label` says what it measures."""
        share = min(self._done / self._steps, 1.0)
        took = time.monotonic() - self._begin
        if self._live:
            bar = "#" * round(share * BAR)
            print(f"\r\x1b[K[{bar:{BAR}}] {share:4.0%} {took:4.0f} s  {label}", end="", file=sys.stderr, flush=True)
        elif int(share * 10) > self._told:
            self._told = int(share * 10)
            print(f"{share:4.0%} {took:4.0f} s  {label}", file=sys.stderr, flush=True)

    def end_step(self, steps: int = 1) -> None:
        self._done += steps

    def say(self, text: str) -> None:
        """A line of its own, above the bar."""
        print(f"\r\x1b[K{text}" if self._live else text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
