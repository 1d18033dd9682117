"""Streams as Spark's driver knows them: their ticks, and how far a consumer has come."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from pathlib import Path

from penstock.model.stream_names import owner_of
from penstock.queries import parse
from penstock.spark.database import Database, literal
from penstock.spark.events import LEAST_BYTES, Extent, Load, Piece, Range, Tick
from penstock.spark.options import ReadOptions
from penstock.spark.tenants import stream_prefix

SQL = parse((Path(__file__).parent / "streams.sql").read_text("utf-8"))


class StreamError(RuntimeError):
    """A stream cannot be read as asked."""


def lost(stream: str, wanted: int, oldest: int | None) -> StreamError:
    there = "there are none any more" if oldest is None else f"the oldest is {oldest}"
    return StreamError(
        f"stream {stream!r}: tick {wanted} is gone, {there}: events may have been rotated away."
        " Set failOnDataLoss to false to go on with those that are left."
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
        """Not that of another stream that had the name before."""
        return self._about[0]

    def check(self) -> None:
        """Raises when there is none of that name."""
        _ = self._about

    def tick(self, tick_id: int) -> Tick | None:
        return self._tick("tick", tick_id)

    def oldest(self) -> Tick:
        return self._certain("oldest_tick")

    def newest(self) -> Tick:
        return self._certain("newest_tick")

    def before(self, moment: datetime) -> Tick:
        """The last tick not after the moment, or the oldest there is."""
        return self._tick("tick_before", moment.isoformat()) or self.oldest()

    def farthest(self, after: Tick, until: Tick, events: int | None) -> Tick:
        """As far as about so many events reach; one tick at least, since a tick cannot be split."""
        if events is None or until.event_seq - after.event_seq <= events:
            return until
        reach = self._tick("farthest_tick", after.id, until.id, after.event_seq + events) or after
        if reach.event_seq > after.event_seq:
            return reach
        # So far there is nothing, and what comes then is too much.
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
        """Looked up: a late commit has an old event id, so equal sequence numbers prove nothing."""
        if events.expected > 0:
            return False
        # It stays so. A stream without events has ticks all the same, and is asked about at every poll.
        if events == self._nothing:
            return True
        query = f"select true from ({events.query((), Piece())}) as e limit 1"  # noqa: S608
        # By an index: the planner, which knows nothing of these tables, might walk through one of them whole.
        if any(batch.num_rows for batch in self._database.by_index.rows(query)):
            return False
        self._nothing = events
        return True

    def pieces(self, events: Range, at_least: int | None) -> list[Piece]:
        found = events.pieces(at_least)
        if found[0].outside is None:
            return found
        # To look for strays takes a walk through all the events again; the ends of the tables are known at once.
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
        """So that everything committed by now lies before a tick. Waits for a ticker that is at work."""
        self._database.rows(SQL["tick_now"], self.id)

    def position(self, consumer: str) -> int | None:
        found = self._database.value(SQL["position"], self.id, consumer)
        return None if found is None else int(found)

    def place(self, consumer: str, tick_id: int) -> None:
        """Rotation keeps everything after this tick for the consumer, and lag is counted from it."""
        self._database.rows(SQL["place_consumer"], self._queue, consumer, tick_id)

    def move(self, consumer: str, left: int, tick_id: int) -> bool:
        """Place the consumer, unless it is not where it was left; whether it was."""
        return bool(self._database.rows(SQL["move_consumer"], self._queue, consumer, left, tick_id))

    def _tick(self, query: str, *values: object) -> Tick | None:
        row = self._database.row(SQL[query], self.id, *values)
        return None if row is None else Tick(id=row[0], snapshot=row[1], event_seq=row[2], time=row[3])

    def _certain(self, query: str) -> Tick:
        found = self._tick(query)
        if found is None:
            raise StreamError(f"stream {self.name!r} has no ticks; is it being dropped?")
        return found


def find_streams(database: Database, options: ReadOptions) -> list[Stream]:
    prefix = stream_prefix(database, options.owner)
    names = options.streams
    if options.pattern is not None:
        queues = [row[0] for row in database.rows(SQL["streams_like"], prefix, options.pattern)]
        # The default tenant has no prefix, which all names begin with.
        own = [queue for queue in queues if options.owner is None or prefix or owner_of(queue)[1] == queue]
        names = tuple(queue.removeprefix(prefix) for queue in own)
        if not names:
            raise StreamError(f"no stream matches {options.pattern!r}")
    return [Stream(database, name, options.retries, prefix) for name in sorted(names)]
