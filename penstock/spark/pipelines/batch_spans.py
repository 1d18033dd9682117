"""A span for each batch of each stream that a pipeline has read, in the traces of the events.

Made on the driver after the batch, from Spark's report of it: tasks know nothing of traces. Programs that record no
spans pay nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import adbc_driver_manager as adbc
from pyspark.sql.types import StringType

from penstock import tracing
from penstock.spark.database import Database
from penstock.spark.pipelines.progress import Entry, StreamPosition, positions_of
from penstock.spark.reading.columns import Column
from penstock.spark.reading.events import Piece, Range
from penstock.spark.streams import Stream, StreamError
from penstock.spark.tenants import stream_prefix

log = logging.getLogger(__name__)

MOST_TRACES = 100
"""A span is linked to so many producers at most."""
MOST_EVENTS = 1000
"""Among so many events with a trace."""
_TRACE = Column("trace", StringType(), "e.ev_extra1")


class BatchSpans:
    def __init__(self, url: str, tenant: str, pipeline: str) -> None:
        self._url, self._tenant, self._pipeline = url, tenant, pipeline

    def add(self, query: str | None, entry: Entry) -> None:
        """Make the spans of one trigger. A failure is logged: traces must not stop a pipeline."""
        if not tracing.is_on():
            return
        try:
            database = Database(self._url)
            try:
                self._add(database, query, entry)
            finally:
                database.close()
        except (adbc.Error, StreamError) as error:
            log.warning("a batch has no span: %s", " ".join(str(error).split()))

    def _add(self, database: Database, query: str | None, entry: Entry) -> None:
        start_ns = int(datetime.fromisoformat(entry["timestamp"]).timestamp() * 1e9)
        end_ns = start_ns + int(entry["durationMs"]["triggerExecution"]) * 1_000_000
        prefix = stream_prefix(database, self._tenant)
        for name, after, until in _ranges(entry):
            stream = Stream(database, name, prefix=prefix)
            events = _between(stream, after, until)
            about: dict[str, str | int] = {
                "messaging.consumer.group.name": self._pipeline,
                "penstock.pipeline.name": self._pipeline,
                "penstock.pipeline.query": query or name,
                "penstock.spark.batch": int(entry["batchId"]),
            }
            if events is not None:
                about["messaging.batch.message_count"] = events.expected
            contexts = _contexts(database, events) if events is not None else []
            tracing.processed(name, contexts, start_ns, end_ns, about)


def _ranges(entry: Entry) -> Iterator[tuple[str, StreamPosition | None, StreamPosition]]:
    for source in entry["sources"]:
        if not int(source.get("numInputRows") or 0):
            continue
        before = positions_of(source.get("startOffset"))
        for name, until in positions_of(source.get("endOffset")).items():
            if before.get(name) != until:
                yield name, before.get(name), until


def _between(stream: Stream, after: Mapping[str, Any] | None, until: Mapping[str, Any]) -> Range | None:
    """None when the ticks are gone: the events were rotated away meanwhile."""
    first = stream.oldest() if after is None else stream.tick(after["tick"])
    last = stream.tick(until["tick"])
    return None if first is None or last is None else stream.between(first, last)


def _contexts(database: Database, events: Range) -> list[tracing.TraceContext]:
    """Of the producers of these events. Loads are left out: they come from Spark, without traces."""
    found = database.rows(
        f"select distinct t.trace from (select e.trace from ({events.query([_TRACE], Piece())}) as e"  # noqa: S608
        f" where e.trace is not null limit {MOST_EVENTS}) as t limit {MOST_TRACES}"
    )
    parsed = (tracing.TraceContext.parse(trace) for (trace,) in found)
    return [context for context in parsed if context is not None]
