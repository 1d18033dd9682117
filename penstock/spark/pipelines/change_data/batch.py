"""A micro-batch of change events, applied to the lake: table by table, each of the two lake tables once."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.database import Database
from penstock.spark.lake.storage import folder, is_folder
from penstock.spark.pipelines.change_data.columns import ChangeDataError, check_names, merged
from penstock.spark.pipelines.change_data.copy import Mirror, begin, copy, mirror_of
from penstock.spark.pipelines.change_data.events import (
    Shape,
    changes,
    cuts,
    in_order,
    names,
    of_table,
    shape_of,
    versions,
)
from penstock.spark.pipelines.change_data.merges import merge_current, merge_history
from penstock.spark.pipelines.change_data.source import TableName, catalog_types, check_key, check_values, tracked
from penstock.spark.pipelines.change_data.tables import MARK, OWN, QUERY, LakeTable, key_of
from penstock.spark.pipelines.change_data.upkeep import tidy


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyChanges:
    """For `foreachBatch`, wherever it runs: plain fields only."""

    url: str
    stream: str
    tables: tuple[str, ...]
    current: str
    history: str | None
    snapshot: bool
    checkpoint: str
    compact_every: int

    def __call__(self, events: DataFrame, batch: int) -> None:
        spark = events.sparkSession
        query = query_id(spark, self.checkpoint)
        told = changes(events).persist()
        try:
            for name in names(told):
                if not self.tables or str(name) in self.tables:
                    self._apply(spark, told, name, query, batch)
        finally:
            told.unpersist()

    def _apply(self, spark: SparkSession, told: DataFrame, name: TableName, query: str, batch: int) -> None:
        mirror = mirror_of(self.current, self.history, name)
        if all(table.has(query, batch) for table in mirror.tables):
            return
        with closing(Database(self.url)) as database:
            source = next((each for each in tracked(database, self.stream) if each.name == name), None)
            if source is not None and self.snapshot and not mirror.copied:
                # It was tracked since the run began. What the batch tells of it is in the copy.
                copy(spark, self.url, [(mirror, source)])
            # A copy is the way out of changes that cannot be applied, so what it has seen is not even looked at.
            fresh = of_table(told, name, mirror.seen if mirror.copied else None)
            shape = shape_of(fresh, () if source is None else source.option("ignore") or ())
            known = catalog_types(database, name)
        if shape is None:
            return
        key = _key_of(mirror, shape)
        if not mirror.copied:
            if not shape.columns:
                return
            begin(mirror, key, merged(str(name), [], known, shape.columns))
        for table in mirror.tables:
            _claim(mirror, table, query)
        for table in mirror.tables:
            table.fit(merged(str(name), table.columns(), known, shape.columns))
        self._merge(fresh, mirror, shape, key, query, batch)
        if self.compact_every and batch % self.compact_every == self.compact_every - 1:
            tidy(mirror.tables)

    def _merge(
        self, told: DataFrame, mirror: Mirror, shape: Shape, key: tuple[str, ...], query: str, batch: int
    ) -> None:
        columns = mirror.current.columns()
        floor = None if mirror.history is None else mirror.history.open().transaction_version(MARK)
        rows = in_order(told, columns, floor, truncated=shape.truncated)
        emptied = cuts(rows) if shape.truncated else None
        found = _arrow(versions(rows, key, last_only=mirror.history is None))
        check_values(mirror.name, key, lambda name: int(found[name].null_count))
        written = [column.name for column in columns]
        merge_current(mirror.current, found, key, written, emptied, (query, batch))
        if mirror.history is not None:
            merge_history(mirror.history, found, key, written, emptied, (query, batch), floor)


def _key_of(mirror: Mirror, shape: Shape) -> tuple[str, ...]:
    """By which the changes name their rows, when the lake can take them."""
    name = str(mirror.name)
    if len(shape.keys) > 1:
        raise ChangeDataError(
            f"table {name}: its key changed from one event to another: {shape.keys}. Remove the table's folders from"
            " the lake and run again with a snapshot."
        )
    [key] = shape.keys
    if shape.columns:
        check_key(mirror.name, key, shape.columns)
        there = [column.name for column in mirror.current.columns()]
        check_names(name, dict.fromkeys([*there, *shape.columns]), OWN)
    key_of(name, mirror.tables, key)
    return key


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """By which a batch is known. A query keeps it as long as its checkpoint, and tells it nobody but tasks."""
    path = f"{checkpoint}/metadata"
    if is_folder(path):
        text = Path(folder(path)).read_text("utf-8")
    else:
        [[text]] = spark.read.text(path).collect()
    return str(json.loads(text)["id"])


def _claim(mirror: Mirror, table: LakeTable, query: str) -> None:
    """Batches of a query that lost its checkpoint have other numbers: they would be applied twice."""
    known = table.setting(QUERY)
    if known is None:
        table.set(query=query)
    elif known != query:
        raise ChangeDataError(
            f"table {mirror.name}: {table.path} holds changes applied by another query. Bring its checkpoint back, or"
            f" remove {' and '.join(each.path for each in mirror.tables)} from the lake for a new copy."
        )


def _arrow(rows: DataFrame) -> pa.Table:
    """All moments in UTC, whatever the session's time zone is."""
    found = rows.toArrow()
    fields = [
        field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) and field.type.tz else field
        for field in found.schema
    ]
    return found.cast(pa.schema(fields))
