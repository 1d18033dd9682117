"""Columns: what Spark calls them, their types on both sides, and the SQL that gives them.

Spark demands of a reader exactly the Arrow schema it derives from the Spark types, so both are written down here.
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
    """An expression whose type PostgreSQL's Arrow driver gives as this one, without an extension around it."""
    raw: str | None = None
    """The same cheaper, in a form that `fitted` understands and a filter does not."""

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


def select_list(columns: Sequence[Column], *, raw: bool = False) -> str:
    return ", ".join(f'{(column.raw if raw else None) or column.sql} as "{column.name}"' for column in columns)


def fitted(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    schema: pa.Schema,
    constants: Mapping[str, str | int] = MappingProxyType({}),
) -> pa.RecordBatch:
    """The same rows with the types Spark asks for; constants are columns that the database was not asked for."""
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
    """Whole numbers of eight bytes as PostgreSQL sends those it has no Arrow type for; none of them null."""
    _, _, data = sent.buffers()
    numbers = array("q")
    if len(sent) > 0:
        numbers.frombytes(memoryview(data)[sent.offset * 8 : (sent.offset + len(sent)) * 8])
    if sys.byteorder == "little":
        numbers.byteswap()
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _map(pairs: pa.Array) -> pa.Array:
    """A list of texts, names and values by turns, as a map."""
    flat = pairs.flatten()
    positions = pa.array(range(0, len(flat), 2), pa.int64())
    following = pa.array(range(1, len(flat), 2), pa.int64())
    lengths = pa.compute.divide(pa.compute.fill_null(pa.compute.list_value_length(pairs), 0), 2)
    ends = pa.compute.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pa.MapArray.from_arrays(offsets, flat.take(positions), flat.take(following))
