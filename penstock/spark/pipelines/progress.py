"""How far queries are, as Spark reports it: read by polling, which works on Spark Connect too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

Place = dict[str, int]
"""A tick, and the queue whose it is: tenants may call their streams by one name."""
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
    places: dict[str, Place] = field(default_factory=dict)
    """How far each stream was read."""
    skipped: dict[str, Place] = field(default_factory=dict)
    """Of which streams events were gone that should have been read: `from` a tick `to` another."""
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
        follows = self.last is not None and entry["batchId"] <= self.last["batchId"] + _counted(self.last)
        entries = [entry] if follows else [_entry(each) for each in self.query.recentProgress]
        self._add(each for each in entries if self.last is None or each["timestamp"] > self.last["timestamp"])
        self.last = entry

    def _add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            rows = _rows(entry)
            self.rows += rows
            self.batches += rows > 0
            for source in entry["sources"]:
                self.places.update(_places(source.get("endOffset")))
                self.skipped.update(_skipped(source.get("latestOffset")))

    def described(self) -> dict[str, Any]:
        """What is kept of it in the run's row."""
        last = self.last or {}
        return {
            "id": self.id,
            "name": self.name,
            "batch": last.get("batchId"),
            "rows": self.rows,
            "batches": self.batches,
            "ticks": {stream: place["tick"] for stream, place in self.places.items()},
            "skipped": self.skipped,
            "rows_per_s": last.get("processedRowsPerSecond"),
            "durations_ms": last.get("durationMs"),
            "watermark": (last.get("eventTime") or {}).get("watermark"),
            "at": last.get("timestamp"),
        }


def _entry(progress: Any) -> Entry:
    found = json.loads(progress.json)
    assert isinstance(found, dict)
    return found


def _rows(entry: Entry) -> int:
    return sum(int(source.get("numInputRows") or 0) for source in entry["sources"])


def _counted(entry: Entry) -> int:
    """0 of a look that found nothing: it has the number of the batch to come, which may be over by the next look."""
    return int(_rows(entry) > 0)


def _place(told: Mapping[str, Any]) -> Place:
    # Offsets of before have no queue.
    return {"tick": int(told["tick"]), **({"queue": int(told["queue"])} if "queue" in told else {})}


def _places(offset: Any) -> dict[str, Place]:
    """Of a source that is ours; what other sources call an offset says nothing here."""
    try:
        return {stream: _place(told) for stream, told in _parsed(offset).items()}
    except (TypeError, ValueError, AttributeError, KeyError):
        return {}


def _skipped(offset: Any) -> dict[str, Place]:
    try:
        return {stream: told["skipped"] for stream, told in _parsed(offset).items() if told["skipped"] is not None}
    except (TypeError, ValueError, AttributeError, KeyError):
        return {}


def _parsed(offset: Any) -> Any:
    return json.loads(offset) if isinstance(offset, str) else offset
