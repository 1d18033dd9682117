"""Streams as Spark's driver sees them: their ticks, and the positions of consumers."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from pathlib import Path

from penstock.model.stream_names import owner_of
from penstock.queries import parse
from penstock.spark.database import Database, literal
from penstock.spark.options import ReadOptions
from penstock.spark.reading.events import LEAST_BYTES, Extent, Load, Piece, Range, Tick
from penstock.spark.tenants import stream_prefix

SQL = parse((Path(__file__).parent / "streams.sql").read_text("utf-8"))


class StreamError(RuntimeError):
    """A stream cannot be read as asked."""


def data_loss_error(stream: str, wanted: int, oldest: int | None) -> StreamError:
    left = "the stream has no ticks" if oldest is None else f"the oldest tick is {oldest}"
    return StreamError(
        f"stream {stream!r}: tick {wanted} no longer exists, {left}: events may have been rotated away."
        " Set failOnDataLoss to false to continue with the events that are left."
    )


class Stream:
    def __init__(self, database: Database, name: str, retries: bool = False, prefix: str = "") -> None:
        self._database = database
        self._retries = retries
        self._queue = prefix + name
        self._nothing: Range | None = None
        self.name = name

    @cached_property
    def _about(self) -> tuple[int, tuple[str, ...]]:
        row = self._database.row(SQL["stream"], self._queue)
        if row is None:
            raise StreamError(f"there is no stream {self.name!r}")
        return row[0], tuple(row[1].split())

    @property
    def id(self) -> int:
        """Number of the stream. A stream that is created again under the same name has another."""
        return self._about[0]

    def check(self) -> None:
        """Raises when there is no stream of that name."""
        _ = self._about

    def tick(self, tick_id: int) -> Tick | None:
        return self._tick("tick", tick_id)

    def oldest(self) -> Tick:
        return self._required_tick("oldest_tick")

    def newest(self) -> Tick:
        return self._required_tick("newest_tick")

    def tick_before(self, moment: datetime) -> Tick:
        """The last tick not later than the moment, or the oldest tick."""
        return self._tick("tick_before", moment.isoformat()) or self.oldest()

    def last_tick_within(self, after: Tick, until: Tick, events: int | None) -> Tick:
        """The last tick within about this many events; at least the next tick, since a tick is not split."""
        if events is None or until.event_seq - after.event_seq <= events:
            return until
        reach = self._tick("last_tick_within", after.id, until.id, after.event_seq + events) or after
        if reach.event_seq > after.event_seq:
            return reach
        # No events up to that tick, and the next one has more than the limit.
        return self._tick("next_tick", reach.id) or until

    def between(self, after: Tick, until: Tick) -> Range:
        loads: tuple[Load, ...] = ()
        if after.snapshot != until.snapshot:
            found = self._database.rows(SQL["loads"], self.id, after.snapshot, until.snapshot)
            loads = tuple(Load(source, first, last, rows) for source, first, last, rows in found)
        return Range(
            stream=self.name, queue_id=self.id, tables=self._about[1], loads=loads, after=after, until=until,
            retries=self._retries,
        )  # fmt: skip

    def is_empty(self, events: Range) -> bool:
        """Looked up in the tables: a late commit has an old event id, so equal sequence numbers prove nothing."""
        if events.expected > 0:
            return False
        # An empty range stays empty. An idle stream has ticks too, and is looked up at every poll.
        if events == self._nothing:
            return True
        query = f"select true from ({events.query((), Piece())}) as e limit 1"  # noqa: S608
        # By an index: the planner has no statistics of these tables and may scan one whole.
        if any(batch.num_rows for batch in self._database.by_index.rows(query)):
            return False
        self._nothing = events
        return True

    def pieces(self, events: Range, at_least: int | None) -> list[Piece]:
        found = events.pieces(at_least)
        if found[0].outside is None:
            return found
        # Finding events outside the id range takes a second scan; the first and last ids of a table take none.
        return events.pieces(at_least, self._extent(events.tables))

    def _extent(self, tables: tuple[str, ...]) -> Extent:
        parts = (
            f"select min(e.ev_id), max(e.ev_id), pg_relation_size({literal(table)}) from {table} as e"  # noqa: S608
            for table in tables
        )
        found = self._database.rows(" union all ".join(parts))
        ends = [(first, last) for first, last, _ in found if first is not None]
        return Extent(
            first=min((first for first, _ in ends), default=0),
            last=max((last for _, last in ends), default=-1),
            rows=sum(size for *_, size in found) // LEAST_BYTES,
        )

    def tick_now(self) -> None:
        """Create a tick after everything committed so far. Waits for a ticker that is running."""
        self._database.rows(SQL["tick_now"], self.id)

    def position(self, consumer: str) -> int | None:
        found = self._database.value(SQL["position"], self.id, consumer)
        return None if found is None else int(found)

    def set_position(self, consumer: str, tick_id: int) -> None:
        """Register the consumer at a tick: rotation keeps later events for it, and lag is counted from it."""
        self._database.rows(SQL["set_consumer"], self._queue, consumer, tick_id)

    def move(self, consumer: str, left: int, tick_id: int) -> bool:
        """Move the consumer, unless another query has moved it; whether it was moved."""
        return bool(self._database.rows(SQL["move_consumer"], self._queue, consumer, left, tick_id))

    def _tick(self, query: str, *values: object) -> Tick | None:
        row = self._database.row(SQL[query], self.id, *values)
        return None if row is None else Tick(id=row[0], snapshot=row[1], event_seq=row[2], time=row[3])

    def _required_tick(self, query: str) -> Tick:
        found = self._tick(query)
        if found is None:
            raise StreamError(f"stream {self.name!r} has no ticks; it may be about to be dropped")
        return found


def find_streams(database: Database, options: ReadOptions) -> list[Stream]:
    prefix = stream_prefix(database, options.owner)
    names = options.streams
    if options.pattern is not None:
        queues = [row[0] for row in database.rows(SQL["streams_like"], prefix, options.pattern)]
        # The default tenant's streams have no prefix, and every name begins with the empty prefix.
        own = [queue for queue in queues if options.owner is None or prefix or owner_of(queue)[1] == queue]
        names = tuple(queue.removeprefix(prefix) for queue in own)
        if not names:
            raise StreamError(f"no stream matches {options.pattern!r}")
    return [Stream(database, name, options.retries, prefix) for name in sorted(names)]
