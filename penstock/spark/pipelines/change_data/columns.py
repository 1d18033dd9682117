"""Columns of a tracked table: their types in the lake, and the conversion of texts to values.

Events and the first copy both deliver values as text of their PostgreSQL type, so there is one conversion. A text that
its type in the lake cannot represent (an infinite timestamp, a year BC or after 9999, NaN of a numeric) becomes null,
and is kept in the column `_unfit` of the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

UNFIT = "_unfit"

_TYPES: dict[str, DataType] = {
    "int2": ShortType(),
    "int4": IntegerType(),
    "int8": LongType(),
    "bool": BooleanType(),
    "float4": FloatType(),
    "float8": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampNTZType(),
    "timestamptz": TimestampType(),
    "bytea": BinaryType(),
}
_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
"""Digits before the decimal point that a decimal needs to hold all values of the type."""
_TEXTS = (ByteType, ShortType, IntegerType, LongType, DecimalType, DateType)
"""Types whose text is the same in PostgreSQL and in the lake, so that a column may be changed to text."""
_MOST_DIGITS = 38
_HEADER = 4
"""Offset of the type modifier of numeric."""


class ChangeDataError(RuntimeError):
    """Changes of a table cannot be applied to the lake; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: DataType


def lake_type(name: str, modifier: int) -> DataType:
    """The lake's type for a PostgreSQL type, by its name in `pg_catalog` and its modifier. The default is text."""
    if name == "numeric" and modifier >= _HEADER:
        precision, scale = (modifier - _HEADER) >> 16, (modifier - _HEADER) & 0x7FF
        if scale <= precision <= _MOST_DIGITS:
            return DecimalType(precision, scale)
    return _TYPES.get(name, StringType())


def fits(there: DataType, wanted: DataType) -> bool:
    """Whether the second type holds all values of the first."""
    if there == wanted:
        return True
    if isinstance(wanted, StringType):
        return isinstance(there, _TEXTS)
    if isinstance(there, FloatType):
        return isinstance(wanted, DoubleType)
    if isinstance(there, DecimalType) and isinstance(wanted, DecimalType):
        return wanted.scale >= there.scale and wanted.precision - wanted.scale >= there.precision - there.scale
    if type(there) not in _DIGITS:
        return False
    if isinstance(wanted, DecimalType):
        return wanted.precision - wanted.scale >= _DIGITS[type(there)]
    if isinstance(wanted, DoubleType):
        return not isinstance(there, LongType)
    return _DIGITS.get(type(wanted), 0) > _DIGITS[type(there)]


def merged(
    table: str, there: Sequence[Column], source: Mapping[str, DataType], reported: Iterable[str]
) -> list[Column]:
    """The columns that a lake table needs for these changes: its own, and those that changes report.

    A column that was dropped in the source keeps its type; one that is not in the catalog is text. A type that became
    wider in the source becomes wider in the lake; one that became narrower stays.
    """
    known = {column.name: column.type for column in there}
    for name in reported:
        kind = source.get(name)
        if name not in known:
            known[name] = kind if kind is not None else StringType()
        elif kind is not None and not fits(kind, known[name]):
            if not fits(known[name], kind):
                raise ChangeDataError(
                    f"table {table}: column {name!r} is {kind.simpleString()} now, and the lake's"
                    f" {known[name].simpleString()} cannot be converted. Remove the table's folders from the lake"
                    " and run again with a snapshot."
                )
            known[name] = kind
    return [Column(name, kind) for name, kind in known.items()]


def check_names(table: str, names: Iterable[str], own: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in own or name.startswith("__") or "`" in name:
            raise ChangeDataError(f"table {table}: the lake cannot have a column {name!r}; exclude it with ignore=")
        if name.lower() in seen:
            raise ChangeDataError(
                f"table {table}: columns {seen[name.lower()]!r} and {name!r} have the same name in Spark"
            )
        seen[name.lower()] = name


def quoted(name: str) -> str:
    return f"`{name}`"


def values(columns: Sequence[Column], prefix: str = "") -> list[Expression]:
    """The typed columns and `_unfit`, from text columns of the same names below a struct `prefix`."""
    texts = {column.name: functions.col(f"{prefix}{quoted(column.name)}") for column in columns}
    found = [_value(texts[column.name], column.type).alias(column.name) for column in columns]
    lost = [
        functions.when(_value(texts[column.name], column.type).isNull(), texts[column.name]).alias(column.name)
        for column in columns
        if not isinstance(column.type, StringType)
    ]
    if not lost:
        return [*found, functions.lit(None).cast("string").alias(UNFIT)]
    # JSON objects omit nulls, so a row whose values all fit has an empty object.
    return [*found, functions.nullif(functions.to_json(functions.struct(*lost)), functions.lit("{}")).alias(UNFIT)]


def typed_row(spark: SparkSession, columns: Sequence[Column], texts: Mapping[str, str]) -> pa.Table:
    """One row with the texts as values of these columns, and `_unfit`."""
    schema = StructType([StructField(column.name, StringType()) for column in columns])
    frame = spark.createDataFrame([tuple(texts[column.name] for column in columns)], schema)
    return frame.select(*values(columns)).toArrow()


def _value(text: Expression, kind: DataType) -> Expression:
    if isinstance(kind, StringType):
        return text
    if isinstance(kind, BinaryType):
        return functions.try_to_binary(functions.substring(text, 3, 2_147_483_647), functions.lit("hex"))
    if isinstance(kind, (DateType, TimestampType, TimestampNTZType)):
        # Spark would ignore the suffix BC. Years of more than four digits are beyond what most readers of Delta know.
        return functions.when(text.rlike("^[0-9]{4}-") & ~text.endswith(" BC"), text.try_cast(kind))
    return text.try_cast(kind)
