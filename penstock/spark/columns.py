"""Columns: what Spark calls them, their types on both sides, and the SQL that gives them.

Spark demands of a reader exactly the Arrow schema it derives from the Spark types, so both are written down here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

ARROW: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    DoubleType: pa.float64(),
    BooleanType: pa.bool_(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    MapType: pa.map_(pa.string(), pa.string()),
}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: DataType
    sql: str
    """An expression whose type PostgreSQL's Arrow driver gives as this one, without an extension around it."""

    @property
    def is_map(self) -> bool:
        return isinstance(self.type, MapType)


def struct(columns: Sequence[Column]) -> StructType:
    return StructType([StructField(column.name, column.type, nullable=True) for column in columns])


def chosen(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The named ones, in the order of the names; raises `ValueError` for a name that is none of theirs."""
    known = {column.name: column for column in columns}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"option columns: {', '.join(unknown)} unknown; there are {', '.join(known)}")
    return [known[name] for name in names]


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, ARROW[type(column.type)], nullable=True) for column in columns])


def select_list(columns: Sequence[Column]) -> str:
    return ", ".join(f'{column.sql} as "{column.name}"' for column in columns)


def fitted(batch: pa.RecordBatch, columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with the types Spark asks for. A map arrives as two arrays: see `MAP`."""
    arrays: list[pa.Array] = []
    for position, column in enumerate(columns):
        array = batch.column(position)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if column.is_map:
            array = _map(array)
        elif array.type != schema.field(position).type:
            array = array.cast(schema.field(position).type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _map(pairs: pa.Array) -> pa.Array:
    """A list of texts, names and values by turns, as a map."""
    flat = pairs.flatten()
    positions = pa.array(range(0, len(flat), 2), pa.int64())
    following = pa.array(range(1, len(flat), 2), pa.int64())
    lengths = pa.compute.divide(pa.compute.fill_null(pa.compute.list_value_length(pairs), 0), 2)
    ends = pa.compute.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pa.MapArray.from_arrays(offsets, flat.take(positions), flat.take(following))
