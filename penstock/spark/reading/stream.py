"""Reads streams as a Spark stream. The offset is a tick of each stream.

The reader lives in one process on the driver and keeps its connection. Spark asks for the latest offset only when
everything up to `start` is in the sink and in the commit log, so the consumer in PostgreSQL is moved then. Spark's own
`commit` comes one batch later, or never when no further event arrives.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.spark.database import Database
from penstock.spark.options import OptionError, ReadOptions
from penstock.spark.reading.columns import Column
from penstock.spark.reading.consumers import Consumers
from penstock.spark.reading.events import Range, Tick, group_pieces
from penstock.spark.reading.ranges import RangePartition
from penstock.spark.streams import Stream, StreamError, data_loss_error, find_streams

StreamPosition = Mapping[str, int]
"""A tick and the number of its queue: a recreated stream counts ticks from one again. Old offsets have no queue."""
Offset = Mapping[str, StreamPosition]
"""`{"orders": {"tick": 5, "queue": 1}}`, sorted by name: Spark compares offsets as text."""

ROWS_PER_TRIGGER = 500_000
"""A micro-batch costs at least half a second; this many events take a second or two."""
IDLE_S = 600.0
"""Seconds without events after which an empty batch moves the consumer: one that never moves looks stuck."""


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, columns: list[Column]) -> None:
        self._options = options
        self._most = options.max_events or ROWS_PER_TRIGGER
        if options.min_events is not None and options.min_events > self._most:
            raise OptionError("minEventsPerTrigger", f"is above maxEventsPerTrigger ({self._most})")
        self._columns = columns
        self._database = Database(options.url)
        self._consumers = Consumers(options)
        self._initial: Offset = {}
        self._target: dict[str, int] | None = None
        self._waiting_since: float | None = None
        self._known: dict[str, Stream] = {}
        self._skipped: dict[str, dict[str, int]] = {}
        self._reached: dict[str, Tick] = {}
        self._planned: dict[str, int] = {}
        self._replaying = True

    # Offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Called without a checkpoint, and again to repeat the first batch, of which only the end is recorded."""
        first = [(stream, self._first(stream)) for stream in self._streams()]
        self._database.flush_commits()
        for stream, tick in first:
            self._consumers.hold(stream, tick)
        self._initial = _offset(first)
        return dict(self._initial)

    def _first(self, stream: Stream) -> Tick:
        options = self._options
        if options.starting_at is not None:
            return stream.tick_before(options.starting_at)
        starting = options.starting if options.starting is not None else "latest"
        if isinstance(starting, dict):
            if stream.name not in starting:
                raise OptionError("startingOffsets", f"has no tick for stream {stream.name!r}")
            return self._at(stream, {"tick": starting[stream.name]})
        if starting == "committed":
            position = stream.position(self._consumers.name(stream))
            return stream.oldest() if position is None else self._at(stream, {"tick": position})
        return stream.oldest() if starting == "earliest" else stream.newest()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._replaying = False
        ranges = []
        for stream in self._streams():
            after = self._start(stream, start)
            self._consumers.polled(stream, after)
            if (end := self._end(stream, after)) is not None:
                ranges.append((stream, after, end))
        share = None
        if isinstance(limit, ReadMaxRows):
            share = _share(limit.max_rows, [end.event_seq - after.event_seq for _, after, end in ranges])
        steps = [
            (stream, after, stream.last_tick_within(after, end, share) if end.id > after.id else after)
            for stream, after, end in ranges
        ]
        if not self._is_worth_it(steps) or self._too_few(ranges):
            self._plan([(stream, after, after) for stream, after, _ in steps])
            return start
        self._plan(steps)
        self._database.flush_commits()
        others = {name: start[name] for name in self._known if name in start}
        return dict(sorted({**others, **_offset((stream, until) for stream, _, until in steps)}.items()))

    def _plan(self, steps: list[tuple[Stream, Tick, Tick]]) -> None:
        """Remember what the batch reads, for its progress."""
        self._reached = {stream.name: until for stream, _, until in steps}
        self._planned = {stream.name: max(until.event_seq - after.event_seq, 0) for stream, after, until in steps}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the run at what is committed now, which needs a tick."""
        target = {}
        for stream in self._streams():
            if self._options.tick_on_available_now:
                stream.tick_now()
            target[stream.name] = stream.newest().id
        self._target = target

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The newest ticks, and what a person wants to know. Spark shows it in each progress as `latestOffset`."""
        return {stream.name: self._described(stream, stream.newest()) for stream in self._streams()}

    def _described(self, stream: Stream, newest: Tick) -> dict[str, Any]:
        """`events` are those of the batch, counted by ids; a lag is that of events which the newest tick includes."""
        reached, now = self._reached.get(stream.name, newest), time.time()
        waiting = max(newest.event_seq - reached.event_seq, 0)
        return {
            "tick": newest.id,
            "queue": stream.id,
            "skipped": self._skipped.get(stream.name),
            "events": self._planned.get(stream.name, 0),
            "lag_events": waiting,
            "lag_s": round(max(now - reached.time, 0.0), 3) if waiting else 0.0,
            "tick_age_s": round(max(now - newest.time, 0.0), 3),
        }

    def _end(self, stream: Stream, after: Tick) -> Tick | None:
        """None for a stream that was created after an AvailableNow run started: the run might never end."""
        if self._target is None:
            return stream.newest()
        if stream.name not in self._target:
            return None
        target = self._target[stream.name]
        # The target tick may have been rotated away; a query past it is done.
        return after if after.id >= target else stream.tick(target) or stream.newest()

    def _is_worth_it(self, steps: list[tuple[Stream, Tick, Tick]]) -> bool:
        """Whether there are events, or none for so long that the consumer should move."""
        steps = [(stream, after, until) for stream, after, until in steps if until.id > after.id]
        if any(until.time - after.time >= IDLE_S for _, after, until in steps):
            return True
        return any(not stream.is_empty(stream.between(after, until)) for stream, after, until in steps)

    def _too_few(self, ranges: list[tuple[Stream, Tick, Tick]]) -> bool:
        """Whether to wait for more events, as `minEventsPerTrigger` asks."""
        least = self._options.min_events
        if least is None or self._target is not None:
            return False
        now = time.monotonic()
        if sum(stream.between(after, end).expected for stream, after, end in ranges) >= least:
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
        options = self._options
        found: list[InputPartition] = []
        for stream in self._streams():
            if stream.name not in end:
                continue
            events = self._range(stream, start, end)
            self._consumers.begin(stream, events.after)
            if events.until.id <= events.after.id or self._has_none(stream, events):
                continue
            for pieces in group_pieces(stream.pieces(events, options.min_partitions)):
                found.append(
                    RangePartition(events, pieces, options.event_types, fail_on_data_loss=options.fail_on_data_loss)
                )
        return found

    def _range(self, stream: Stream, start: Offset, end: Offset) -> Range:
        after, until = self._start(stream, start), self._at(stream, end[stream.name])
        first = stream.name in self._initial and self._initial[stream.name] == start.get(stream.name)
        if first and self._replaying and after.id >= until.id:
            after = self._first_batch_start(stream, until)
        events = stream.between(after, until)
        return replace(events, sent_since=self._options.starting_at) if first else events

    def _first_batch_start(self, stream: Stream, until: Tick) -> Tick:
        """Start of the first batch: the newest tick at that time, where its consumer still is."""
        held = self._consumers.found(stream)
        if held is not None and held <= until.id:
            return self._at(stream, {"tick": held})
        if self._options.fail_on_data_loss and self._options.ack_mode != "none":
            raise StreamError(
                f"stream {stream.name!r}: where the first batch began is recorded in the consumer"
                f" {self._consumers.name(stream)!r} only, which was removed, or moved by another query. Set"
                f" failOnDataLoss to false to continue after tick {until.id} without the events of that batch."
            )
        return until

    def _has_none(self, stream: Stream, events: Range) -> bool:
        """Whether the range is empty and needs no task. Events that were rotated away are not an empty range."""
        return stream.is_empty(events) and self._at(stream, {"tick": events.after.id}).id == events.after.id

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return partition.read(Database(self._options.url), self._columns)

    # The consumer in PostgreSQL

    def commit(self, end: dict[str, Any]) -> None:
        if self._options.ack_mode == "none":
            return
        for stream in self._streams():
            if stream.name in end:
                self._consumers.move(stream, self._at(stream, end[stream.name]))

    def stop(self) -> None:
        self._database.close()

    # Ticks

    def _start(self, stream: Stream, start: Offset) -> Tick:
        if stream.name not in start:
            # A stream that the pattern matched, or that was subscribed to, after the query started.
            return stream.oldest()
        return self._at(stream, start[stream.name])

    def _at(self, stream: Stream, position: StreamPosition) -> Tick:
        wanted = position["tick"]
        if position.get("queue", stream.id) != stream.id:
            if self._options.fail_on_data_loss:
                raise StreamError(
                    f"stream {stream.name!r} was dropped and made again: tick {wanted} belongs to the old stream, whose"
                    " events are lost. Set failOnDataLoss to false to read the new one from its beginning."
                )
            return self._skip(stream, wanted, stream.oldest())
        found = stream.tick(wanted)
        if found is not None:
            return found
        self._consumers.check(stream)
        oldest = stream.oldest()
        if self._options.fail_on_data_loss:
            raise data_loss_error(stream.name, wanted, oldest.id)
        return self._skip(stream, wanted, oldest if wanted < oldest.id else stream.newest())

    def _skip(self, stream: Stream, wanted: int, found: Tick) -> Tick:
        """Record lost events beside the newest offsets: Spark reports only these from this process."""
        self._skipped[stream.name] = {"from": wanted, "to": found.id}
        return found

    def _streams(self) -> list[Stream]:
        """The streams of the query. A pattern is matched each time, to find new streams."""
        if self._options.pattern is not None or not self._known:
            found = {stream.name: stream for stream in find_streams(self._database, self._options)}
            if not self._options.fail_on_data_loss:
                self._forget(self._known.keys() - found.keys())
            self._known = {**found, **self._known}
        return [self._known[name] for name in sorted(self._known)]

    def _forget(self, dropped: Iterable[str]) -> None:
        """Forget dropped streams: one with the same name is a different stream."""
        for name in dropped:
            del self._known[name]
            self._consumers.forget(name)
            if self._target is not None:
                self._target.pop(name, None)


def _share(rows: int, waiting: list[int]) -> int:
    """Event limit per stream: a busy stream takes what the others leave, and does not starve them."""
    for position, events in enumerate(sorted(waiting)):
        share = rows // (len(waiting) - position)
        if events > share:
            return max(share, 1)
        rows -= max(events, 0)
    return max(waiting, default=1)


def _offset(ticks: Iterable[tuple[Stream, Tick]]) -> dict[str, Any]:
    return dict(sorted((stream.name, {"tick": tick.id, "queue": stream.id}) for stream, tick in ticks))
