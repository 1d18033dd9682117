"""The consumers of a streaming query in PostgreSQL, one per stream: rotation keeps the events after their positions.

A consumer belongs to one query. Queries have no identity in PostgreSQL, so each remembers the position that it set
last, and notices when another query has moved the consumer.
"""

from __future__ import annotations

from penstock.spark.options import ReadOptions
from penstock.spark.reading.events import Tick
from penstock.spark.streams import Stream, StreamError


class Consumers:
    def __init__(self, options: ReadOptions) -> None:
        self._name = options.consumer
        self._prefix = options.consumer_prefix
        self._mode = options.ack_mode
        self._found: dict[str, int] = {}
        self._left: dict[str, int] = {}

    def name(self, stream: Stream) -> str:
        return self._name or f"{self._prefix}-{stream.name}"

    def hold(self, stream: Stream, tick: Tick) -> None:
        """Keep the events after the tick. The consumer is neither created nor moved forward: the query may start
        elsewhere, and a repeated first batch must find the position of its first attempt."""
        if self._mode == "none":
            return
        found = stream.position(self.name(stream))
        if found is None:
            return
        self._found[stream.name] = found
        if found > tick.id:
            stream.set_position(self.name(stream), tick.id)

    def found(self, stream: Stream) -> int | None:
        """The position of the consumer before this query called `hold`."""
        return self._found.get(stream.name)

    def begin(self, stream: Stream, tick: Tick) -> None:
        """Set the consumer to the position where the query starts."""
        if self._mode != "none" and stream.name not in self._left:
            stream.set_position(self.name(stream), tick.id)
            self._left[stream.name] = tick.id

    def polled(self, stream: Stream, tick: Tick) -> None:
        self.begin(stream, tick)
        if self._mode == "poll":
            self.move(stream, tick)

    def move(self, stream: Stream, tick: Tick) -> None:
        left = self._left.get(stream.name, tick.id)
        if tick.id <= left:
            return
        if not stream.move(self.name(stream), left, tick.id):
            raise self._taken(stream)
        self._left[stream.name] = tick.id

    def check(self, stream: Stream) -> None:
        """Raises when another query has moved the consumer."""
        left = self._left.get(stream.name)
        if left is not None and stream.position(self.name(stream)) not in (None, left):
            raise self._taken(stream)

    def forget(self, stream: str) -> None:
        """Called for a stream that was dropped together with its consumer."""
        self._found.pop(stream, None)
        self._left.pop(stream, None)

    def _taken(self, stream: Stream) -> StreamError:
        return StreamError(
            f"stream {stream.name!r}: another query has moved the consumer {self.name(stream)!r}, and events that this"
            " one has not read may be rotated away. Give each query a consumer of its own, by the option consumer;"
            " to join a stream with itself, load it twice with one for each."
        )
