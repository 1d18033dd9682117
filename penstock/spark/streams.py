"""Streams as Spark's driver knows them: their ticks, and how far a consumer has come."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from pathlib import Path

from penstock.spark.database import Database
from penstock.spark.events import Load, Piece, Range, Tick
from penstock.store.queries import parse

SQL = parse((Path(__file__).parent / "streams.sql").read_text("utf-8"))


class StreamError(RuntimeError):
    """A stream cannot be read as asked."""


class Stream:
    def __init__(self, database: Database, name: str, retries: bool = False) -> None:
        self._database = database
        self._retries = retries
        self.name = name

    @cached_property
    def _about(self) -> tuple[int, tuple[str, ...]]:
        row = self._database.row(SQL["stream"], self.name)
        if row is None:
            raise StreamError(f"there is no stream {self.name!r}")
        return row[0], tuple(row[1].split())

    @property
    def _id(self) -> int:
        return self._about[0]

    def tick(self, tick_id: int) -> Tick | None:
        return self._tick("tick", tick_id)

    def oldest(self) -> Tick:
        return self._certain("oldest_tick")

    def newest(self) -> Tick:
        return self._certain("newest_tick")

    def before(self, moment: datetime) -> Tick:
        """The last tick not after the moment, or the oldest there is."""
        return self._tick("tick_before", moment.isoformat()) or self.oldest()

    def after(self, moment: datetime) -> Tick:
        """The first tick not before the moment, or the newest there is."""
        return self._tick("tick_after", moment.isoformat()) or self.newest()

    def farthest(self, after: Tick, until: Tick, events: int | None) -> Tick:
        """As far as about so many events reach; one tick at least, since a tick cannot be split."""
        if events is None or until.event_seq - after.event_seq <= events:
            return until
        reach = self._tick("farthest_tick", after.id, until.id, after.event_seq + events)
        return reach or self._tick("next_tick", after.id) or until

    def between(self, after: Tick, until: Tick) -> Range:
        loads: tuple[Load, ...] = ()
        if after.snapshot != until.snapshot:
            found = self._database.rows(SQL["loads"], self._id, after.snapshot, until.snapshot)
            loads = tuple(Load(source, first, last, rows) for source, first, last, rows in found)
        return Range(
            stream=self.name, tables=self._about[1], loads=loads, after=after, until=until, retries=self._retries
        )

    def is_empty(self, events: Range) -> bool:
        """Looked up: a late commit has an old event id, so equal sequence numbers prove nothing."""
        if events.expected > 0:
            return False
        query = f"select true from ({events.query((), Piece())}) as e limit 1"  # noqa: S608
        # By an index: the planner, which knows nothing of these tables, might walk through one of them whole.
        return not any(batch.num_rows for batch in self._database.slices([query]))

    def pieces(self, events: Range, at_least: int | None) -> list[Piece]:
        found = events.pieces(at_least)
        if found[0].outside is None:
            return found
        # To look for strays takes a walk through all the events again; the ends of the tables are known at once.
        ends = ", ".join(
            f"(select min(e.ev_id) from {table} as e), (select max(e.ev_id) from {table} as e)"  # noqa: S608
            for table in events.tables
        )
        row = self._database.row(f"select {ends}")
        start, end = found[0].outside
        strays = any(id is not None and not start <= id < end for id in row or ())
        return events.pieces(at_least, strays=strays)

    def tick_now(self) -> None:
        """So that everything committed by now lies before a tick."""
        self._database.rows(SQL["tick_now"], self._id)

    def position(self, consumer: str) -> int | None:
        found = self._database.value(SQL["position"], self._id, consumer)
        return None if found is None else int(found)

    def place(self, consumer: str, tick_id: int) -> None:
        """Rotation keeps everything after this tick for the consumer, and lag is counted from it."""
        self._database.rows(SQL["place_consumer"], self.name, consumer, tick_id)

    def _tick(self, query: str, *values: object) -> Tick | None:
        row = self._database.row(SQL[query], self._id, *values)
        return None if row is None else Tick(id=row[0], snapshot=row[1], event_seq=row[2])

    def _certain(self, query: str) -> Tick:
        found = self._tick(query)
        if found is None:
            raise StreamError(f"stream {self.name!r} has no ticks; is it being dropped?")
        return found


def find_streams(
    database: Database, names: tuple[str, ...], pattern: str | None, retries: bool = False
) -> list[Stream]:
    if pattern is not None:
        names = tuple(row[0] for row in database.rows(SQL["streams_like"], pattern))
        if not names:
            raise StreamError(f"no stream matches {pattern!r}")
    return [Stream(database, name, retries) for name in sorted(names)]
