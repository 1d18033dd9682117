"""The lake's tables for a tracked table: `current`, its rows as they are, and `history`, all that they ever were.

Each is changed by one MERGE for a batch, committed together with the number of the batch: a batch that comes again
changes nothing. `history` lies in two partitions, so that a merge reads the versions that are open, and not all that
ever ended.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as compute
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from penstock.spark.lake.schemas import arrow_schema, delta_schema, spark_schema
from penstock.spark.lake.storage import folder
from penstock.spark.lake.table import exists, opened
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
"""The application whose version is the latest moment in a history: no later batch begins before it."""
KEY, SNAPSHOT, QUERY = "penstock.key", "penstock.snapshot", "penstock.query"
"""Properties of both tables: the key, what the first copy saw, and the query that applies changes."""


@dataclass(slots=True)
class LakeTable:
    """Opened once for a batch: nobody else changes what is asked of it here, and a log may lie far away."""

    path: str
    own: tuple[Column, ...]
    _opened: DeltaTable | None = field(default=None, compare=False, repr=False)

    @property
    def exists(self) -> bool:
        return self._opened is not None or exists(self.path)

    def open(self) -> DeltaTable:
        if self._opened is None:
            self._opened = opened(self.path)
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
        """The source's, not our own."""
        own = {column.name for column in self.own}
        fields = spark_schema(self.open()).fields if self.exists else []
        return [Column(each.name, each.dataType) for each in fields if each.name not in own]

    def make(self, columns: Sequence[Column]) -> None:
        partitions = ["_is_current"] if self.own is HISTORY else []
        DeltaTable.create(folder(self.path), delta_schema(_struct(columns, self.own)), partition_by=partitions)
        self.changed()

    def nulls(self, name: str) -> int:
        """How many rows have none of this column."""
        found: int = self.open().to_pyarrow_dataset().count_rows(filter=compute.field(name).is_null())
        return found

    def clear_unless(self, columns: Sequence[Column]) -> None:
        """For a new copy: what was left by one that was cut off may have columns that are of another type by now."""
        if self.exists and self.columns() != list(columns):
            none = arrow_schema(_struct(columns, self.own)).empty_table()
            partitions = self.open().metadata().partition_columns or None
            write_deltalake(self.open(), none, mode="overwrite", schema_mode="overwrite", partition_by=partitions)
            self.changed()

    def fit(self, columns: Sequence[Column]) -> None:
        """Columns that are new are added, and types that grew are changed by writing the table anew."""
        there = {column.name: column.type for column in self.columns()}
        grown = {column.name for column in columns if column.name in there and there[column.name] != column.type}
        if grown:
            _rewrite(self.open(), arrow_schema(_struct(columns, self.own)), grown)
            self.changed()
        if added := [column for column in columns if column.name not in there]:
            self.open().alter.add_columns(list(delta_schema(_struct(added)).fields))
            self.changed()


def key_of(name: str, tables: Sequence[LakeTable], key: Sequence[str]) -> None:
    """Raises when the lake knows the table by another key."""
    for table in tables:
        known = table.setting(KEY)
        if known is not None and json.loads(known) != list(key):
            raise ChangeDataError(
                f"table {name}: its key is {', '.join(key)} now, and was {', '.join(json.loads(known))}. Remove"
                f" {table.path} and its likes from the lake and run again with a snapshot."
            )


def same_key(key: Sequence[str]) -> str:
    return " and ".join(f"target.{quoted(name)} = source.{quoted(name)}" for name in key)


def moment_literal(micros: int) -> str:
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _struct(columns: Sequence[Column], own: Sequence[Column] = ()) -> StructType:
    return StructType([StructField(column.name, column.type, True) for column in (*columns, *own)])


def _rewrite(table: DeltaTable, schema: pa.Schema, grown: set[str]) -> None:
    """File by file through memory. Readers see the old table until the new one is there whole."""
    there = table.to_pyarrow_dataset()
    names = there.schema.names
    wanted = pa.schema([schema.field(name) if name in grown else there.schema.field(name) for name in names])
    batches = (
        pa.RecordBatch.from_arrays([_cast(batch.column(each.name), each.type) for each in wanted], schema=wanted)
        for batch in there.to_batches()
    )
    write_deltalake(
        table, pa.RecordBatchReader.from_batches(wanted, batches), mode="overwrite", schema_mode="overwrite",
        partition_by=table.metadata().partition_columns or None,
    )  # fmt: skip


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    found = values.cast(kind)
    if pa.types.is_decimal(values.type) and pa.types.is_string(kind):
        # Arrow writes 0E-8 where PostgreSQL writes 0.00000000.
        short = compute.match_substring(found, "E")
        written = [format(value, "f") for value in values.filter(short).to_pylist()]
        found = compute.replace_with_mask(found, short, pa.array(written, kind))
    return found
