"""Readers of the format as Spark calls them, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.spark.source import PenstockSource

Offset = dict[str, Any]


def values(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return sorted(value for batch in batches for value in batch.column("value").to_pylist())


def read(dsn: str, **options: str) -> list[str]:
    """What a read of a stream gives."""
    source = PenstockSource({"url": dsn, **options})
    reader = source.reader(source.schema())
    return values(batch for partition in reader.partitions() for batch in reader.read(partition))


class Query:
    """A streaming query: its reader, and where it is. Who has no checkpoint asks the reader."""

    def __init__(self, dsn: str, at: Offset | None = None, **options: str) -> None:
        source = PenstockSource({"url": dsn, **options})
        self.reader: Any = source.streamReader(source.schema())
        self.at: Offset = at or {}

    def latest(self, rows: int | None = None) -> Offset:
        limit = ReadAllAvailable() if rows is None else ReadMaxRows(rows)
        return _told(self.reader.latestOffset(_told(self.at), limit))

    def planned(self, end: Offset) -> list[InputPartition]:
        return list(self.reader.partitions(_told(self.at), end))

    def batches(self, partitions: Iterable[InputPartition]) -> Iterator[pa.RecordBatch]:
        return (batch for partition in partitions for batch in self.reader.read(partition))

    def batch(self, rows: int | None = None) -> list[str]:
        """One micro-batch, up to where Spark asks for the next."""
        end = self.latest(rows)
        found = values(self.batches(self.planned(end)))
        self.at = end
        self.latest(rows)
        return found


def _told(offset: Offset) -> Offset:
    """Spark keeps offsets as text."""
    return dict(json.loads(json.dumps(offset)))


def rotate(database: psycopg.Connection, name: str) -> None:
    database.execute("select pgque.set_queue_config(%s, 'rotation_period', '0')", [name])
    database.execute("select pgque.maint_rotate_tables_step1(%s)", [name])
    database.execute("select pgque.maint_rotate_tables_step2()")
