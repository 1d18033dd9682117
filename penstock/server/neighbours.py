"""The numbers of several processes as one: each writes its own to a directory that all of them can read.

A scrape reaches one process, which adds the numbers of the others to its own. A process that replaces a dead one
continues with its counts: a counter that decreased would look like a restart of the whole server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from penstock.engine.metrics import Gauge, Histogram, Metrics
from penstock.wire import prometheus

EVERY_S = 1.0


class Neighbours:
    """Without a directory there are none."""

    def __init__(self, directory: Path | None = None, place: int = 0) -> None:
        self._directory = directory
        self._own = directory / f"{place}.json" if directory is not None else None

    @property
    def exist(self) -> bool:
        return self._directory is not None

    async def numbers(self) -> Iterable[bytes]:
        """Of all the others, at most a second old."""
        if self._directory is None:
            return ()
        return [path.read_bytes() for path in self._directory.glob("*.json") if path != self._own]

    def write(self, metrics: Metrics) -> None:
        if self._own is not None:
            unfinished = self._own.with_suffix(".new")
            unfinished.write_bytes(prometheus.dump(metrics))
            os.replace(unfinished, self._own)

    def inherit(self, metrics: Metrics) -> None:
        """Carry on where a dead predecessor in our place left off."""
        if self._own is None or not self._own.exists():
            return
        known = {metric.name: metric for metric in metrics}
        for name, rows in json.loads(self._own.read_bytes()).items():
            metric = known[name]
            for labels, values in rows:
                if isinstance(metric, Histogram):
                    metric.values[tuple(labels)] = values
                elif not isinstance(metric, Gauge):
                    [metric.values[tuple(labels)]] = values
