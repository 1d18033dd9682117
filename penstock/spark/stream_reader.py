"""Reading streams as a Spark stream: the offset is a tick of each.

The reader lives in one process on the driver, so it keeps its connection. Spark asks for the latest offset only when
everything up to `start` is in the sink and in the commit log; that is the moment to move the consumer in PostgreSQL
on. Waiting for Spark's own `commit` would leave it one batch behind, for ever when no further event comes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.spark.columns import Column
from penstock.spark.consumers import Consumers
from penstock.spark.database import Database
from penstock.spark.events import Range, Tick, dealt
from penstock.spark.options import OptionError, ReadOptions
from penstock.spark.ranges import RangePartition
from penstock.spark.streams import Stream, StreamError, find_streams, lost

Place = Mapping[str, int]
"""A tick, and the queue that has it: a stream that is made again counts from one again. Old offsets have no queue."""
Offset = Mapping[str, Place]
"""`{"orders": {"tick": 5, "queue": 1}}`, by name: Spark compares offsets as text."""

ROWS_PER_TRIGGER = 500_000
"""A micro-batch costs about half a second however small it is; this many events take a second or two."""
IDLE_S = 600.0
"""A batch of nothing is not worth that, but now and then: a consumer that never moves looks stuck."""


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, columns: list[Column]) -> None:
        self._options = options
        self._most = options.max_events or ROWS_PER_TRIGGER
        if options.min_events is not None and options.min_events > self._most:
            raise OptionError("minEventsPerTrigger", f"is above maxEventsPerTrigger, which is {self._most}")
        self._columns = columns
        self._database = Database(options.url)
        self._consumers = Consumers(options)
        self._initial: Offset = {}
        self._target: dict[str, int] | None = None
        self._waiting_since: float | None = None
        self._known: dict[str, Stream] = {}
        self._skipped: dict[str, dict[str, int]] = {}
        self._replaying = True

    # Offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Asked for without a checkpoint, and again to repeat the first batch, which knows only where it ended."""
        first = [(stream, self._first(stream)) for stream in self._streams()]
        self._database.settle()
        for stream, tick in first:
            self._consumers.hold(stream, tick)
        self._initial = _offset(first)
        return dict(self._initial)

    def _first(self, stream: Stream) -> Tick:
        options = self._options
        if options.starting_at is not None:
            return stream.before(options.starting_at)
        starting = options.starting if options.starting is not None else "latest"
        if isinstance(starting, dict):
            if stream.name not in starting:
                raise OptionError("startingOffsets", f"names no tick for stream {stream.name!r}")
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
            (stream, after, stream.farthest(after, end, share) if end.id > after.id else after)
            for stream, after, end in ranges
        ]
        if not self._is_worth_it(steps) or self._too_few(ranges):
            return start
        self._database.settle()
        others = {name: start[name] for name in self._known if name in start}
        return dict(sorted({**others, **_offset((stream, until) for stream, _, until in steps)}.items()))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """All that was committed before now is read, and nothing else: so it needs a tick of its own."""
        target = {}
        for stream in self._streams():
            if self._options.tick_on_available_now:
                stream.tick_now()
            target[stream.name] = stream.newest().id
        self._target = target

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        newest = _offset((stream, stream.newest()) for stream in self._streams())
        return {name: {**place, "skipped": self._skipped.get(name)} for name, place in newest.items()}

    def _end(self, stream: Stream, after: Tick) -> Tick | None:
        """None for a stream that has come since the run of what is available began: it could go on for ever."""
        if self._target is None:
            return stream.newest()
        if stream.name not in self._target:
            return None
        target = self._target[stream.name]
        # Its tick may have been rotated away: who is past it is done all the same.
        return after if after.id >= target else stream.tick(target) or stream.newest()

    def _is_worth_it(self, steps: list[tuple[Stream, Tick, Tick]]) -> bool:
        """Whether there are events, or there have been none for so long that it should be told."""
        steps = [(stream, after, until) for stream, after, until in steps if until.id > after.id]
        if any(until.time - after.time >= IDLE_S for _, after, until in steps):
            return True
        return any(not stream.is_empty(stream.between(after, until)) for stream, after, until in steps)

    def _too_few(self, ranges: list[tuple[Stream, Tick, Tick]]) -> bool:
        """Whether to wait for more events, as `minEventsPerTrigger` asks: however many of them one batch may take."""
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
            for pieces in dealt(stream.pieces(events, options.min_partitions)):
                found.append(
                    RangePartition(events, pieces, options.event_types, fail_on_data_loss=options.fail_on_data_loss)
                )
        return found

    def _range(self, stream: Stream, start: Offset, end: Offset) -> Range:
        after, until = self._start(stream, start), self._at(stream, end[stream.name])
        first = stream.name in self._initial and self._initial[stream.name] == start.get(stream.name)
        if first and self._replaying and after.id >= until.id:
            after = self._began(stream, until)
        events = stream.between(after, until)
        return replace(events, sent_since=self._options.starting_at) if first else events

    def _began(self, stream: Stream, until: Tick) -> Tick:
        """Where the first batch began, which was at the newest tick of then: its consumer has not left it."""
        held = self._consumers.found(stream)
        if held is not None and held <= until.id:
            return self._at(stream, {"tick": held})
        if self._options.fail_on_data_loss and self._options.ack_mode != "none":
            raise StreamError(
                f"stream {stream.name!r}: where the first batch began is known by the consumer"
                f" {self._consumers.name(stream)!r} alone, which is gone or was moved by another query. Set"
                f" failOnDataLoss to false to go on after tick {until.id} without the events of that batch."
            )
        return until

    def _has_none(self, stream: Stream, events: Range) -> bool:
        """Not worth a task: idle streams move on with the others. Rotated away is not the same as none."""
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
            # A stream that the pattern matches since the query began, or that was subscribed to since.
            return stream.oldest()
        return self._at(stream, start[stream.name])

    def _at(self, stream: Stream, place: Place) -> Tick:
        wanted = place["tick"]
        if place.get("queue", stream.id) != stream.id:
            if self._options.fail_on_data_loss:
                raise StreamError(
                    f"stream {stream.name!r} was dropped and made again: tick {wanted} is one of the old stream, whose"
                    " events are gone. Set failOnDataLoss to false to read the new one from its beginning."
                )
            return self._skip(stream, wanted, stream.oldest())
        found = stream.tick(wanted)
        if found is not None:
            return found
        self._consumers.check(stream)
        oldest = stream.oldest()
        if self._options.fail_on_data_loss:
            raise lost(stream.name, wanted, oldest.id)
        return self._skip(stream, wanted, oldest if wanted < oldest.id else stream.newest())

    def _skip(self, stream: Stream, wanted: int, found: Tick) -> Tick:
        """What is gone is told beside the newest offsets, which Spark reports: nobody else hears of this process."""
        self._skipped[stream.name] = {"from": wanted, "to": found.id}
        return found

    def _streams(self) -> list[Stream]:
        """Those of the pattern are looked up each time: new ones may have come."""
        if self._options.pattern is not None or not self._known:
            found = {stream.name: stream for stream in find_streams(self._database, self._options)}
            if not self._options.fail_on_data_loss:
                self._forget(self._known.keys() - found.keys())
            self._known = {**found, **self._known}
        return [self._known[name] for name in sorted(self._known)]

    def _forget(self, dropped: Iterable[str]) -> None:
        """Streams that are gone. Another of the same name would be another stream."""
        for name in dropped:
            del self._known[name]
            self._consumers.forget(name)
            if self._target is not None:
                self._target.pop(name, None)


def _share(rows: int, waiting: list[int]) -> int:
    """How many events of each stream: a busy one takes what the others leave, and does not starve them."""
    for place, events in enumerate(sorted(waiting)):
        share = rows // (len(waiting) - place)
        if events > share:
            return max(share, 1)
        rows -= max(events, 0)
    return max(waiting, default=1)


def _offset(ticks: Iterable[tuple[Stream, Tick]]) -> dict[str, Any]:
    return dict(sorted((stream.name, {"tick": tick.id, "queue": stream.id}) for stream, tick in ticks))
