"""Schemas: Spark and Delta use the same JSON. Every column is nullable: it is null in rows older than the column."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from penstock.spark.lake.errors import LakeError

_TYPES = (
    NumericType, StringType, BooleanType, BinaryType, DateType, TimestampType, TimestampNTZType, VariantType,
)  # fmt: skip


def delta_schema(schema: StructType) -> Schema:
    try:
        return Schema.from_json(json.dumps(_nullable(schema.jsonValue())))
    except (DeltaError, ValueError) as error:
        raise LakeError(f"a Delta table cannot have these columns: {schema.simpleString()}: {error}") from None


def spark_schema(table: DeltaTable) -> StructType:
    return StructType.fromJson(_nullable(json.loads(table.schema().to_json())))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark exchanges, with timestamps in UTC, independent of the session's time zone."""
    for each in schema.fields:
        _check(each.name, each.dataType)
    try:
        return to_arrow_schema(nullable(schema), timezone="UTC")
    except PySparkException as error:
        raise LakeError(f"a lake cannot have these columns: {schema.simpleString()}: {error}") from None


def nullable(schema: StructType) -> StructType:
    return StructType.fromJson(_nullable(schema.jsonValue()))


def _check(name: str, kind: DataType) -> None:
    """Delta has no intervals, times without a date, or nulls without a type. Writers accept some; readers fail."""
    match kind:
        case ArrayType():
            _check(f"{name}.element", kind.elementType)
        case MapType():
            _check(f"{name}.key", kind.keyType)
            _check(f"{name}.value", kind.valueType)
        case StructType():
            for each in kind.fields:
                _check(f"{name}.{each.name}", each.dataType)
        case _ if not isinstance(kind, _TYPES):
            raise LakeError(f"column {name!r} is {kind.simpleString()}, which a lake cannot store: cast it first")


def missing(table: DeltaTable, wanted: Schema) -> Sequence[Any]:
    """The columns that a table lacks; raises `LakeError` for a column of another type."""
    there = {each.name: each for each in table.schema().fields}
    lower = {name.lower(): name for name in there}
    found = []
    for each in wanted.fields:
        if each.name in there:
            if json.loads(there[each.name].to_json())["type"] != json.loads(each.to_json())["type"]:
                known = _shown(there[each.name])
                raise LakeError(f"column {each.name!r} is {_shown(each)}, but {known} in the table: cast it first")
        elif each.name.lower() in lower:
            raise LakeError(f"column {each.name!r} is {lower[each.name.lower()]!r} in the table: rename it first")
        else:
            found.append(each)
    return found


def _shown(found: Any) -> str:
    kind = json.loads(found.to_json())["type"]
    return kind if isinstance(kind, str) else json.dumps(kind)


def _nullable(value: Any) -> Any:
    """Nullable at every level, and without Spark's column metadata."""
    if isinstance(value, list):
        return [_nullable(each) for each in value]
    if not isinstance(value, dict):
        return value
    relaxed = {name: _nullable(each) for name, each in value.items()}
    for name in ("nullable", "containsNull", "valueContainsNull"):
        if name in relaxed:
            relaxed[name] = True
    if "metadata" in relaxed:
        relaxed["metadata"] = {}
    return relaxed
