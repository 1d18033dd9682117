"""Columns: their names and types in Spark and Arrow, and the SQL expressions that select them.

A reader must return exactly the Arrow schema that Spark derives from the Spark types, so both are defined here.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

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
    """An expression that the Arrow driver returns as this type, without an extension type around it."""
    raw: str | None = None
    """A cheaper expression, in a form that `to_schema` converts and a filter cannot use."""

    @property
    def is_map(self) -> bool:
        return isinstance(self.type, MapType)


def struct(columns: Sequence[Column]) -> StructType:
    return StructType([StructField(column.name, column.type, nullable=True) for column in columns])


def select_columns(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The named columns, in the order of the names; raises `ValueError` for an unknown name."""
    known = {column.name: column for column in columns}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"option columns: {', '.join(unknown)} unknown; there are {', '.join(known)}")
    return [known[name] for name in names]


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([pa.field(column.name, ARROW[type(column.type)], nullable=True) for column in columns])


def select_list(columns: Sequence[Column], *, raw: bool = False) -> str:
    return ", ".join(f'{(column.raw if raw else None) or column.sql} as "{column.name}"' for column in columns)


def to_schema(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    schema: pa.Schema,
    constants: Mapping[str, str | int] = MappingProxyType({}),
) -> pa.RecordBatch:
    """The rows with the types that Spark expects. `constants` are columns that the query did not select."""
    arrays: list[pa.Array] = []
    given = iter(batch.columns)
    for column, field in zip(columns, schema, strict=True):
        if column.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[column.name], field.type), batch.num_rows))
        else:
            arrays.append(_typed(next(given), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _typed(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_map(wanted):
        return _map(values)
    if wanted == pa.int64() and pa.types.is_binary(values.type):
        return _number(values)
    return values if values.type == wanted else values.cast(wanted)


def _number(sent: pa.Array) -> pa.Array:
    """Eight-byte integers of a type without an Arrow equivalent, as PostgreSQL sends them; never null."""
    _, _, data = sent.buffers()
    numbers = array("q")
    if len(sent) > 0:
        numbers.frombytes(memoryview(data)[sent.offset * 8 : (sent.offset + len(sent)) * 8])
    if sys.byteorder == "little":
        numbers.byteswap()
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _map(pairs: pa.Array) -> pa.Array:
    """An array of alternating names and values as a map."""
    flat = pairs.flatten()
    positions = pa.array(range(0, len(flat), 2), pa.int64())
    following = pa.array(range(1, len(flat), 2), pa.int64())
    lengths = pa.compute.divide(pa.compute.fill_null(pa.compute.list_value_length(pairs), 0), 2)
    ends = pa.compute.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pa.MapArray.from_arrays(offsets, flat.take(positions), flat.take(following))
