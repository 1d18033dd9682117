"""Applies a micro-batch of change events to the lake, table by table, with one commit per lake table."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.pipelines.change_data.columns import ChangeDataError, check_names, merged, typed_row
from penstock.spark.pipelines.change_data.copy import Mirror, begin, copy, mirror_of
from penstock.spark.pipelines.change_data.events import (
    Shape,
    changes,
    in_order,
    names,
    of_table,
    shape_of,
    truncate_range,
    versions,
)
from penstock.spark.pipelines.change_data.merges import merge_current, merge_history
from penstock.spark.pipelines.change_data.pieces import TextDatabase
from penstock.spark.pipelines.change_data.source import (
    TableName,
    catalog_defaults,
    catalog_types,
    check_key,
    check_values,
    mirrored_columns,
    tracked,
)
from penstock.spark.pipelines.change_data.tables import MARK, OWN, QUERY, LakeTable, key_of
from penstock.spark.pipelines.change_data.upkeep import compact_and_vacuum
from penstock.spark.pipelines.checkpoint_ids import query_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyChanges:
    """For `foreachBatch`. Spark Connect pickles it, so it has plain fields only."""

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
        change_rows = changes(events).persist()
        try:
            for name in names(change_rows):
                if not self.tables or str(name) in self.tables:
                    self._apply(spark, change_rows, name, query, batch)
        finally:
            change_rows.unpersist()

    def _apply(self, spark: SparkSession, change_rows: DataFrame, name: TableName, query: str, batch: int) -> None:
        mirror = mirror_of(self.current, self.history, name)
        if all(table.has(query, batch) for table in mirror.tables):
            return
        with closing(TextDatabase(self.url)) as database:
            source = next((each for each in tracked(database, self.stream) if each.name == name), None)
            if source is not None and self.snapshot and not mirror.copied:
                # Tracked since the run started. The copy includes the changes of this batch.
                copy(spark, self.url, [(mirror, source)])
            # Changes that the copy includes are skipped unread: a new copy is the way out of changes that fail.
            fresh = of_table(change_rows, name, mirror.seen if mirror.copied else None)
            shape = shape_of(fresh, () if source is None else source.option("ignore") or ())
            known = catalog_types(database, name)
            defaults = catalog_defaults(database, name)
            # Columns of the catalog too: one that was added may be in no event yet.
            mirrored = [] if source is None else [column.name for column in mirrored_columns(database, source)]
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
            table.fit(merged(str(name), table.columns(), known, [*shape.columns, *mirrored]), defaults)
        fill(spark, mirror, defaults)
        self._merge(fresh, mirror, shape, key, query, batch, _known_texts(defaults))
        if self.compact_every and batch % self.compact_every == self.compact_every - 1:
            compact_and_vacuum(mirror.tables)

    def _merge(
        self,
        change_rows: DataFrame,
        mirror: Mirror,
        shape: Shape,
        key: tuple[str, ...],
        query: str,
        batch: int,
        defaults: Mapping[str, str],
    ) -> None:
        columns = mirror.current.columns()
        floor = None if mirror.history is None else mirror.history.open().transaction_version(MARK)
        rows = in_order(change_rows, columns, floor, truncated=shape.truncated, defaults=defaults)
        emptied = truncate_range(rows) if shape.truncated else None
        found = _arrow(versions(rows, key, last_only=mirror.history is None))
        check_values(mirror.name, key, lambda name: int(found[name].null_count))
        written = [column.name for column in columns]
        merge_current(mirror.current, found, key, written, emptied, (query, batch))
        if mirror.history is not None:
            merge_history(mirror.history, found, key, written, emptied, (query, batch), floor)


def _key_of(mirror: Mirror, shape: Shape) -> tuple[str, ...]:
    """The key columns of the changes; raises when the lake cannot apply them."""
    name = str(mirror.name)
    if len(shape.keys) > 1:
        raise ChangeDataError(
            f"table {name}: its key changed between events: {shape.keys}. Remove the table's folders from the lake"
            " and run again with a snapshot."
        )
    [key] = shape.keys
    if shape.columns:
        check_key(mirror.name, key, shape.columns)
        there = [column.name for column in mirror.current.columns()]
        check_names(name, dict.fromkeys([*there, *shape.columns]), OWN)
    key_of(name, mirror.tables, key)
    return key


def fill(spark: SparkSession, mirror: Mirror, defaults: Mapping[str, str | None]) -> None:
    """Give rows that are older than a new column its default."""
    texts = _known_texts(defaults)
    for table in mirror.tables:
        names = table.unfilled()
        columns = [column for column in table.columns() if column.name in names and column.name in texts]
        if columns:
            table.fill(typed_row(spark, columns, texts))


def _known_texts(defaults: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in defaults.items() if text is not None}


def _claim(mirror: Mirror, table: LakeTable, query: str) -> None:
    """Raises for another query: without its checkpoint, a query numbers batches anew and would apply some twice."""
    known = table.setting(QUERY)
    if known is None:
        table.set(query=query)
    elif known != query:
        raise ChangeDataError(
            f"table {mirror.name}: {table.path} holds changes applied by another query. Bring its checkpoint back, or"
            f" remove {' and '.join(each.path for each in mirror.tables)} from the lake for a new copy."
        )


def _arrow(rows: DataFrame) -> pa.Table:
    """Collect rows as Arrow, with timestamps in UTC, independent of the session's time zone."""
    found = rows.toArrow()
    fields = [
        field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) and field.type.tz else field
        for field in found.schema
    ]
    return found.cast(pa.schema(fields))
