"""How far queries are, as Spark reports it: read by polling, which works on Spark Connect too."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

Entry = dict[str, Any]
"""One trigger of a query, as its JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A run at one moment, for a display."""

    pipeline: str
    state: str
    rows: int
    batches: int
    rows_per_s: float
    """Of the last seconds while the run goes on, of the whole run at its end."""
    lag_events: int | None
    lag_s: float | None
    elapsed_s: float
    note: str | None


@dataclass(slots=True)
class QueryProgress:
    """Sums over the triggers of one query. Spark keeps the last hundred, so a look now and then misses none."""

    query: StreamingQuery
    rows: int = 0
    batches: int = 0
    ticks: dict[str, int] = field(default_factory=dict)
    """How far each stream was read."""
    last: Entry | None = None
    id: str = field(init=False)
    name: str | None = field(init=False)

    def __post_init__(self) -> None:
        # Asked once: a run whose Java has died is told of, too.
        self.id, self.name = str(self.query.id), self.query.name

    def look(self) -> None:
        newest = self.query.lastProgress
        if newest is None:
            return
        entry = _entry(newest)
        if self.last is not None and entry["timestamp"] == self.last["timestamp"]:
            return
        follows = self.last is not None and entry["batchId"] - self.last["batchId"] <= 1
        entries = [entry] if follows else [_entry(each) for each in self.query.recentProgress]
        self._add(each for each in entries if self.last is None or each["timestamp"] > self.last["timestamp"])
        self.last = entry

    def _add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            rows = sum(int(source.get("numInputRows") or 0) for source in entry["sources"])
            self.rows += rows
            self.batches += rows > 0
            for source in entry["sources"]:
                self.ticks.update(_ticks(source.get("endOffset")))

    def described(self) -> dict[str, Any]:
        """What is kept of it in the run's row."""
        last = self.last or {}
        return {
            "id": self.id,
            "name": self.name,
            "batch": last.get("batchId"),
            "rows": self.rows,
            "batches": self.batches,
            "ticks": self.ticks,
            "rows_per_s": last.get("processedRowsPerSecond"),
            "durations_ms": last.get("durationMs"),
            "watermark": (last.get("eventTime") or {}).get("watermark"),
            "at": last.get("timestamp"),
        }


def _entry(progress: Any) -> Entry:
    found = json.loads(progress.json)
    assert isinstance(found, dict)
    return found


def _ticks(offset: Any) -> dict[str, int]:
    """Of a source that is ours; what other sources call an offset says nothing here."""
    try:
        parsed = json.loads(offset) if isinstance(offset, str) else offset
        return {stream: int(place["tick"]) for stream, place in parsed.items()}
    except (TypeError, ValueError, AttributeError, KeyError):
        return {}
