"""The lake's tables for a tracked table: `current` with its rows, and `history` with all their versions.

Each is changed by one MERGE per batch, committed together with the number of the batch: a repeated batch changes
nothing. `history` has two partitions, so that a merge reads the open versions only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as compute
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from penstock.spark.lake.merging import merge as lake_merge
from penstock.spark.lake.rewriting import rewrite
from penstock.spark.lake.schemas import arrow_schema, delta_schema, spark_schema
from penstock.spark.lake.storage import folder
from penstock.spark.lake.table import exists, open_table
from penstock.spark.pipelines.change_data.columns import UNFIT, ChangeDataError, Column, quoted

CURRENT = (
    Column(UNFIT, StringType()),
    Column("_offset", LongType()),
    Column("_changed_at", TimestampType()),
)
HISTORY = (
    Column(UNFIT, StringType()),
    Column("_op", StringType()),
    Column("_valid_from", TimestampType()),
    Column("_valid_to", TimestampType()),
    Column("_first_offset", LongType()),
    Column("_last_offset", LongType()),
    Column("_ended_by", StringType()),
    Column("_is_current", BooleanType()),
)
OWN = tuple(sorted({column.name for column in (*CURRENT, *HISTORY)}))

MARK = "penstock.moment"
"""The application whose version is the latest time in a history: no later batch begins before it."""
KEY, SNAPSHOT, QUERY = "penstock.key", "penstock.snapshot", "penstock.query"
"""Properties of both tables: the key, what the first copy saw, and the query that applies changes."""
UNFILLED = "penstock.unfilled"
"""Property: new columns whose default is not in the older rows yet."""

_BOTH_UNFIT = """
case
  when target.`_unfit` is null then source.`_unfit`
  when source.`_unfit` is null then target.`_unfit`
  -- Repeated after a crash.
  when strpos(target.`_unfit`, rtrim(substr(source.`_unfit`, 2), '}')) > 0 then target.`_unfit`
  else substr(target.`_unfit`, 1, character_length(target.`_unfit`) - 1) || ',' || substr(source.`_unfit`, 2)
end
"""
"""The values that do not fit of a row, as a JSON object, and those of its new columns."""


@dataclass(slots=True)
class LakeTable:
    """Opened once per batch: only this run changes it, and its log may be in a remote object store."""

    path: str
    own: tuple[Column, ...]
    _opened: DeltaTable | None = field(default=None, compare=False, repr=False)

    @property
    def exists(self) -> bool:
        return self._opened is not None or exists(self.path)

    def open(self) -> DeltaTable:
        if self._opened is None:
            self._opened = open_table(self.path)
        return self._opened

    def changed(self) -> None:
        self._opened = None

    def setting(self, name: str) -> str | None:
        return self.open().metadata().configuration.get(name) if self.exists else None

    def set(self, **properties: str) -> None:
        given = {f"penstock.{name}": value for name, value in properties.items()}
        self.open().alter.set_table_properties(given, raise_if_not_exists=False)
        self.changed()

    def has(self, query: str, batch: int) -> bool:
        done = self.open().transaction_version(query) if self.exists else None
        return done is not None and done >= batch

    def columns(self) -> list[Column]:
        """The columns of the source table, without those that the pipeline adds."""
        own = {column.name for column in self.own}
        fields = spark_schema(self.open()).fields if self.exists else []
        return [Column(each.name, each.dataType) for each in fields if each.name not in own]

    def make(self, columns: Sequence[Column]) -> None:
        partitions = ["_is_current"] if self.own is HISTORY else []
        DeltaTable.create(folder(self.path), delta_schema(_struct(columns, self.own)), partition_by=partitions)
        self.changed()

    def nulls(self, name: str) -> int:
        """The number of rows with null in this column."""
        found: int = self.open().to_pyarrow_dataset().count_rows(filter=compute.field(name).is_null())
        return found

    def clear_unless(self, columns: Sequence[Column]) -> None:
        """Empty the table before a new copy, if its columns differ: an interrupted copy may have left other types."""
        if self.exists and self.columns() != list(columns):
            none = arrow_schema(_struct(columns, self.own)).empty_table()
            partitions = self.open().metadata().partition_columns or None
            write_deltalake(self.open(), none, mode="overwrite", schema_mode="overwrite", partition_by=partitions)
            self.changed()

    def fit(self, columns: Sequence[Column], defaults: Mapping[str, str | None] | None = None) -> None:
        """Add new columns, and rewrite the table when types have grown.

        New columns with a default are noted before they are added: a run that is cut off before `fill` has filled them
        does so when it is run again.
        """
        there = {column.name: column.type for column in self.columns()}
        grown = {column.name for column in columns if column.name in there and there[column.name] != column.type}
        if grown:
            rewrite(self.open(), arrow_schema(_struct(columns, self.own)), grown)
            self.changed()
        if added := [column for column in columns if column.name not in there]:
            if filled := [column.name for column in added if (defaults or {}).get(column.name) is not None]:
                self.set(unfilled=json.dumps(filled))
            self.open().alter.add_columns(list(delta_schema(_struct(added)).fields))
            self.changed()

    def unfilled(self) -> list[str]:
        """Columns that were added with a default, and not filled with it yet."""
        return list(json.loads(self.setting(UNFILLED) or "[]"))

    def fill(self, row: pa.Table) -> None:
        """Give the values of one row to all rows, or all open versions, that are older than the new columns."""
        names = [quoted(name) for name in row.column_names if name != UNFIT]
        matched = "target.`_is_current` = true" if self.own is HISTORY else "true"
        filled = {name: f"coalesce(target.{name}, source.{name})" for name in names}
        filled[quoted(UNFIT)] = _BOTH_UNFIT
        lake_merge(self.path, row, matched, lambda merger: merger.when_matched_update(filled))
        self.changed()
        self.set(unfilled="[]")


def key_of(name: str, tables: Sequence[LakeTable], key: Sequence[str]) -> None:
    """Raises when the lake's table has another key."""
    for table in tables:
        known = table.setting(KEY)
        if known is not None and json.loads(known) != list(key):
            raise ChangeDataError(
                f"table {name}: its key is {', '.join(key)} now, and was {', '.join(json.loads(known))}. Remove"
                f" {table.path} and the table's other folders from the lake and run again with a snapshot."
            )


def same_key(key: Sequence[str]) -> str:
    return " and ".join(f"target.{quoted(name)} = source.{quoted(name)}" for name in key)


def moment_literal(micros: int) -> str:
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _struct(columns: Sequence[Column], own: Sequence[Column] = ()) -> StructType:
    return StructType([StructField(column.name, column.type, True) for column in (*columns, *own)])
