"""Columns of a tracked table: their types in the lake, and values from the texts that the change trigger writes.

A value reaches the lake as the text of its PostgreSQL type, whether an event or the first copy brings it, so there is
one way from text to value. A text that its type in the lake cannot hold (an infinite moment, a year before Christ, NaN
of a numeric) becomes null, and is kept beside the row in `_unfit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import functions
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
"""How many digits before the point a decimal needs to hold any of them."""
_TEXTS = (ByteType, ShortType, IntegerType, LongType, DecimalType, DateType)
"""Types whose text is the same in PostgreSQL and in the lake, so that a column may become text later."""
_MOST_DIGITS = 38
_HEADER = 4
"""What a type modifier of numeric has on top."""


class ChangeDataError(RuntimeError):
    """Changes of a table that cannot be applied to the lake; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: DataType


def lake_type(name: str, modifier: int) -> DataType:
    """Of a PostgreSQL type: its name in `pg_catalog` and its modifier. What the lake has no type for is text."""
    if name == "numeric" and modifier >= _HEADER:
        precision, scale = (modifier - _HEADER) >> 16, (modifier - _HEADER) & 0x7FF
        if scale <= precision <= _MOST_DIGITS:
            return DecimalType(precision, scale)
    return _TYPES.get(name, StringType())


def fits(there: DataType, wanted: DataType) -> bool:
    """Whether every value of one type is a value of another."""
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


def merged(table: str, there: Sequence[Column], source: Mapping[str, DataType], told: Iterable[str]) -> list[Column]:
    """The columns a lake's table must have to take these changes: those it has, and those that changes tell of.

    A column that the source has no more keeps its type; one that no catalog knows is text. A type that grew in the
    source grows in the lake, and one that shrank there does not shrink here.
    """
    known = {column.name: column.type for column in there}
    for name in told:
        kind = source.get(name)
        if name not in known:
            known[name] = kind if kind is not None else StringType()
        elif kind is not None and not fits(kind, known[name]):
            if not fits(known[name], kind):
                raise ChangeDataError(
                    f"table {table}: column {name!r} is {kind.simpleString()} now, and the lake's"
                    f" {known[name].simpleString()} does not turn into it. Remove the table's folders from the lake"
                    " and run again with a snapshot."
                )
            known[name] = kind
    return [Column(name, kind) for name, kind in known.items()]


def check_names(table: str, names: Iterable[str], own: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in own or name.startswith("__") or "`" in name:
            raise ChangeDataError(f"table {table}: a column {name!r} cannot be in the lake; leave it out with ignore=")
        if name.lower() in seen:
            raise ChangeDataError(f"table {table}: columns {seen[name.lower()]!r} and {name!r} are one to Spark")
        seen[name.lower()] = name


def quoted(name: str) -> str:
    return f"`{name}`"


def values(columns: Sequence[Column], prefix: str = "") -> list[Expression]:
    """The typed columns and what did not fit, from texts of the same names below a struct `prefix`."""
    texts = {column.name: functions.col(f"{prefix}{quoted(column.name)}") for column in columns}
    found = [_value(texts[column.name], column.type).alias(column.name) for column in columns]
    lost = [
        functions.when(_value(texts[column.name], column.type).isNull(), texts[column.name]).alias(column.name)
        for column in columns
        if not isinstance(column.type, StringType)
    ]
    if not lost:
        return [*found, functions.lit(None).cast("string").alias(UNFIT)]
    # Nulls are left out of the object, so a row whose values all fit has an empty one.
    return [*found, functions.nullif(functions.to_json(functions.struct(*lost)), functions.lit("{}")).alias(UNFIT)]


def _value(text: Expression, kind: DataType) -> Expression:
    if isinstance(kind, StringType):
        return text
    if isinstance(kind, BinaryType):
        return functions.try_to_binary(functions.substring(text, 3, 2_147_483_647), functions.lit("hex"))
    if isinstance(kind, (DateType, TimestampType, TimestampNTZType)):
        # Spark takes the beginning of such a text for a date of our era.
        return functions.when(~text.endswith(" BC"), text.try_cast(kind))
    return text.try_cast(kind)
