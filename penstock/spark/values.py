"""JSON payloads as columns: rows that do not match the schema are kept in a column of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructField, StructType

BAD = "bad"
_WHOLE = "__whole"


def parsed(frame: DataFrame, schema: StructType | str, column: str = "value", bad: str = BAD) -> DataFrame:
    """Replace a column of JSON by columns for its fields, and a column for texts that do not match the schema.

    `bad` is null when the text is an object of that schema, or null. Otherwise it is the text itself, and the columns
    are null. A field may be missing unless the schema says it is not nullable; fields that the schema does not name are
    ignored. A value of another type does not match, neither a number for a string nor a string for a number. All this
    holds within objects, arrays and maps too. Dates and times are parsed as by `from_json`.
    """
    wanted = _struct(schema)
    kept = [name for name in frame.columns if name != column]
    if twice := sorted({name.lower() for name in kept} & {name.lower() for name in [*wanted.names, bad]}):
        raise ValueError(f"the frame has columns of these names already: {', '.join(twice)}; rename them first")
    text = f.col(f"`{column}`")
    # Spark puts the text into the extra field when any value in it has another type.
    whole = StructType([*_nullable(wanted).fields, StructField(_WHOLE, StringType())])
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _WHOLE, "allowNonNumericNumbers": "false"}
    both = frame.withColumns({_WHOLE: f.from_json(text, whole, how)})
    fits = f.col(f"{_WHOLE}.{_WHOLE}").isNull() & _is_object(text)
    for check in (_complete(f.col(_WHOLE), wanted), _exact(f.try_parse_json(text), wanted)):
        fits = fits if check is None else fits & check
    fits = text.isNull() | fits
    fields = [f.when(fits, f.col(f"{_WHOLE}.`{name}`")).alias(name) for name in wanted.names]
    return both.select(*(f.col(f"`{name}`") for name in kept), *fields, f.when(~fits, text).alias(bad))


def split(frame: DataFrame, bad: str = BAD) -> tuple[DataFrame, DataFrame]:
    """The rows that match, without the column `bad`, and those that do not, with their text in it."""
    return frame.where(f.col(bad).isNull()).drop(bad), frame.where(f.col(bad).isNotNull())


def _struct(schema: StructType | str) -> StructType:
    found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(found, StructType):
        raise ValueError("the schema must describe an object, such as 'id bigint, name string'")
    return found


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType, nullable=True) for field in schema.fields])


def _is_object(text: Column) -> Column:
    """Spark's parsers ignore what follows the first value, so the text is parsed as the element of an array."""
    listed = f.try_parse_json(f.concat(f.lit("["), text, f.lit("]")))
    bare = f.trim(f.regexp_replace(text, r"[\r\n\t]", " "))
    one = listed.isNotNull() & f.try_variant_get(listed, "$[1]", "variant").isNull()
    return one & bare.startswith("{") & bare.endswith("}")


def _complete(value: Column, kind: DataType, nullable: bool = True) -> Column | None:
    """Whether all values that must not be null are present; None when there are no such values."""
    if isinstance(kind, StructType):
        below = _all(_complete(value.getField(each.name), each.dataType, each.nullable) for each in kind.fields)
    elif isinstance(kind, ArrayType):
        below = _each(value, lambda each: _complete(each, kind.elementType, kind.containsNull))
    elif isinstance(kind, MapType):
        below = _each(f.map_values(value), lambda each: _complete(each, kind.valueType, kind.valueContainsNull))
    else:
        below = None
    if nullable:
        return None if below is None else value.isNull() | below
    return value.isNotNull() if below is None else value.isNotNull() & below


def _exact(value: Column, kind: DataType) -> Column | None:
    """`from_json` accepts any value as a string, and strings as decimals, so the types of these values are checked."""
    if isinstance(kind, StringType):
        return f.coalesce(f.schema_of_variant(value).isin("STRING", "VOID"), f.lit(True))
    if isinstance(kind, DecimalType):
        return f.coalesce(f.schema_of_variant(value) != "STRING", f.lit(True))
    if isinstance(kind, StructType):
        return _all(_exact(_got(value, f"$[{_quoted(each.name)}]", "variant"), each.dataType) for each in kind.fields)
    if isinstance(kind, ArrayType):
        return _each(_got(value, "$", "array<variant>"), lambda each: _exact(each, kind.elementType))
    if isinstance(kind, MapType):
        listed = f.map_values(_got(value, "$", "map<string, variant>"))
        return _each(listed, lambda each: _exact(each, kind.valueType))
    return None


def _got(value: Column, path: str, kind: str) -> Column:
    return f.try_variant_get(value, path, kind)


def _all(checks: Iterable[Column | None]) -> Column | None:
    found = [check for check in checks if check is not None]
    return reduce(and_, found) if found else None


def _each(values: Column, check: Callable[[Column], Column | None]) -> Column | None:
    """The check for every element of an array that may be null; None when there is nothing to check."""

    def certain(value: Column) -> Column:
        found = check(value)
        return f.lit(True) if found is None else found

    return None if check(f.lit(None)) is None else f.coalesce(f.forall(values, certain), f.lit(True))


def _quoted(name: str) -> str:
    return f'"{name}"' if "'" in name else f"'{name}'"
