"""Progress of queries as Spark reports it. It is polled, which works with Spark Connect too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

StreamPosition = dict[str, int]
"""A tick and the number of its queue: streams of two tenants may have the same name."""
Entry = dict[str, Any]
"""The JSON of one trigger of a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a run, for a display."""

    pipeline: str
    state: str
    rows: int
    batches: int
    rows_per_s: float
    """Over the last seconds while the run is active, over the whole run at its end."""
    lag_events: int | None
    lag_s: float | None
    elapsed_s: float
    note: str | None


@dataclass(slots=True)
class QueryProgress:
    """Sums over the triggers of one query. Spark keeps the last hundred, so polling misses none."""

    query: StreamingQuery
    rows: int = 0
    batches: int = 0
    positions: dict[str, StreamPosition] = field(default_factory=dict)
    """How far each stream was read."""
    skipped: dict[str, StreamPosition] = field(default_factory=dict)
    """Streams that have lost events, with the ticks `from` and `to` between which they were lost."""
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the source last said about each stream: its lag, the events of its last batch, the age of its last tick."""
    last: Entry | None = None
    on_batch: Callable[[str | None, Entry], None] | None = None
    """Called with the name of the query and every trigger that had rows."""
    id: str = field(init=False)
    name: str | None = field(init=False)

    def __post_init__(self) -> None:
        # Read once: a run is also reported when its Java has died.
        self.id, self.name = str(self.query.id), self.query.name

    def update(self) -> None:
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
            if rows and self.on_batch is not None:
                self.on_batch(self.name, entry)
            self.rows += rows
            self.batches += rows > 0
            for source in entry["sources"]:
                self.positions.update(positions_of(source.get("endOffset")))
                self.skipped.update(_skipped(source.get("latestOffset")))
                self.streams.update(_streams(source.get("latestOffset")))

    def described(self) -> dict[str, Any]:
        """What the run's row stores."""
        last = self.last or {}
        return {
            "id": self.id,
            "name": self.name,
            "source": f"penstock[{', '.join(sorted(self.positions))}]" if self.positions else None,
            "streams": self.streams,
            "batch": last.get("batchId"),
            "rows": self.rows,
            "batches": self.batches,
            "ticks": {stream: position["tick"] for stream, position in self.positions.items()},
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
    """0 for a trigger that found nothing: it has the number of the next batch."""
    return int(_rows(entry) > 0)


def _position(offset: Mapping[str, Any]) -> StreamPosition:
    # Offsets of earlier versions have no queue.
    return {"tick": int(offset["tick"]), **({"queue": int(offset["queue"])} if "queue" in offset else {})}


def positions_of(offset: Any) -> dict[str, StreamPosition]:
    """Positions of a source of this package; empty for other sources."""
    try:
        return {stream: _position(each) for stream, each in _parsed(offset).items()}
    except (TypeError, ValueError, AttributeError, KeyError):
        return {}


def _skipped(offset: Any) -> dict[str, StreamPosition]:
    try:
        return {stream: each["skipped"] for stream, each in _parsed(offset).items() if each["skipped"] is not None}
    except (TypeError, ValueError, AttributeError, KeyError):
        return {}


def _streams(offset: Any) -> dict[str, dict[str, Any]]:
    try:
        return {
            stream: {name: each[name] for name in ("events", "lag_events", "lag_s", "tick_age_s")}
            for stream, each in _parsed(offset).items()
        }
    except (TypeError, ValueError, AttributeError, KeyError):
        return {}


def _parsed(offset: Any) -> Any:
    return json.loads(offset) if isinstance(offset, str) else offset
