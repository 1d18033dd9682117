"""Reading streams as a Spark stream: the offset is a tick of each.

The reader lives in one process on the driver, so it keeps its connection. Spark asks for the latest offset only when
everything up to `start` is in the sink and in the commit log; that is the moment to move the consumer in PostgreSQL
on. Waiting for Spark's own `commit` would leave it one batch behind, for ever when no further event comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.spark.columns import Column
from penstock.spark.database import Database
from penstock.spark.events import Range, Tick, dealt
from penstock.spark.options import OptionError, ReadOptions
from penstock.spark.ranges import RangePartition
from penstock.spark.streams import Stream, StreamError, find_streams

Offset = dict[str, dict[str, int]]
"""`{"orders": {"tick": 5}}`, by name: Spark compares offsets as text."""

ROWS_PER_TRIGGER = 500_000
"""A micro-batch costs about half a second however small it is; this many events take a second or two."""


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, columns: list[Column]) -> None:
        self._options = options
        self._columns = columns
        self._database = Database(options.url)
        self._target: Offset | None = None
        self._acknowledged: dict[str, int] = {}
        self._waiting_since: float | None = None
        self._known: dict[str, Stream] = {}

    # Offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Asked for only without a checkpoint."""
        offset = {stream.name: {"tick": self._first(stream).id} for stream in self._streams()}
        self._database.settle()
        self._acknowledge(offset)
        return _sorted(offset)

    def _first(self, stream: Stream) -> Tick:
        options = self._options
        if options.starting_at is not None:
            return stream.before(options.starting_at)
        starting = options.starting if options.starting is not None else "latest"
        if isinstance(starting, dict):
            if stream.name not in starting:
                raise OptionError("startingOffsets", f"names no tick for stream {stream.name!r}")
            return self._at(stream, starting[stream.name])
        if starting == "committed":
            position = stream.position(self._consumer())
            return stream.oldest() if position is None else self._at(stream, position)
        return stream.oldest() if starting == "earliest" else stream.newest()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_events or ROWS_PER_TRIGGER)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        if self._options.ack_mode == "poll":
            self._acknowledge(start)
        rows = None if isinstance(limit, ReadAllAvailable) or not isinstance(limit, ReadMaxRows) else limit.max_rows
        streams = self._streams()
        ends = {stream.name: self._end(stream) for stream in streams}
        offset: Offset = {}
        for stream in streams:
            after = self._start(stream, start)
            # Every stream gets its share, so that a busy one does not starve the others.
            share = None if rows is None else max(rows // len(streams), 1)
            until = stream.farthest(after, ends[stream.name], share)
            if until.id <= after.id or stream.is_empty(stream.between(after, until)):
                # A micro-batch of nothing is not worth its half second.
                until = after if until.id >= after.id else until
            offset[stream.name] = {"tick": max(until.id, after.id)}
        if offset == start or self._too_few(start, offset, streams):
            return start
        self._database.settle()
        return _sorted(offset)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """All that was committed before now is read, and nothing else: so it needs a tick of its own."""
        target: Offset = {}
        for stream in self._streams():
            if self._options.tick_on_available_now:
                stream.tick_now()
            target[stream.name] = {"tick": stream.newest().id}
        self._target = target

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return _sorted({stream.name: {"tick": stream.newest().id} for stream in self._streams()})

    def _end(self, stream: Stream) -> Tick:
        if self._target is None or stream.name not in self._target:
            return stream.newest()
        return stream.tick(self._target[stream.name]["tick"]) or stream.newest()

    def _too_few(self, start: dict[str, Any], offset: Offset, streams: list[Stream]) -> bool:
        """Whether to wait for more events, as `minEventsPerTrigger` asks."""
        least = self._options.min_events
        if least is None or self._target is not None:
            return False
        ranges = [self._range(stream, start, offset) for stream in streams]
        now = time.monotonic()
        if sum(found.expected for found in ranges) >= least:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < self._options.max_delay.total_seconds():
            return True
        self._waiting_since = None
        return False

    # Events

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found: list[InputPartition] = []
        for stream in self._streams():
            if stream.name not in end:
                continue
            events = self._range(stream, start, end)
            if events.until.id <= events.after.id:
                continue
            for pieces in dealt(stream.pieces(events, self._options.min_partitions)):
                found.append(RangePartition(events, pieces, self._options.event_types))
        return found

    def _range(self, stream: Stream, start: Mapping[str, Any], end: Mapping[str, Any]) -> Range:
        after, until = self._start(stream, start), self._at(stream, end[stream.name]["tick"])
        return stream.between(after, until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return partition.read(Database(self._options.url), self._columns)

    # The consumer in PostgreSQL

    def commit(self, end: dict[str, Any]) -> None:
        if self._options.ack_mode != "none":
            self._acknowledge(end)

    def stop(self) -> None:
        self._database.close()

    def _acknowledge(self, offset: Mapping[str, Any]) -> None:
        for stream in self._streams():
            tick = offset.get(stream.name, {}).get("tick")
            if tick is not None and tick > self._acknowledged.get(stream.name, -1):
                stream.place(self._consumer(), self._at(stream, tick).id)
                self._acknowledged[stream.name] = tick

    def _consumer(self) -> str:
        options = self._options
        return options.consumer or f"{options.consumer_prefix}-{'-'.join(options.streams) or options.pattern}"

    # Ticks

    def _start(self, stream: Stream, start: Mapping[str, Any]) -> Tick:
        if stream.name not in start:
            # A stream that the pattern matches since the query began.
            return stream.oldest()
        return self._at(stream, start[stream.name]["tick"])

    def _at(self, stream: Stream, tick_id: int) -> Tick:
        found = stream.tick(tick_id)
        if found is not None:
            return found
        oldest = stream.oldest()
        if self._options.fail_on_data_loss:
            raise StreamError(
                f"stream {stream.name!r}: tick {tick_id} is gone, the oldest is {oldest.id}: events may have been"
                " rotated away. Set failOnDataLoss to false to go on from there."
            )
        return oldest if tick_id < oldest.id else stream.newest()

    def _streams(self) -> list[Stream]:
        """Those of the pattern are looked up each time: new ones may have come."""
        if self._options.pattern is not None or not self._known:
            options = self._options
            for stream in find_streams(self._database, options.streams, options.pattern, options.retries):
                self._known.setdefault(stream.name, stream)
        return [self._known[name] for name in sorted(self._known)]


def _sorted(offset: Offset) -> dict[str, Any]:
    return dict(sorted(offset.items()))
