"""Payloads as columns: JSON by a schema, with the rows that do not fit kept aside instead of lost or guessed at."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

BAD = "bad"
_WHOLE = "__whole"


def parsed(frame: DataFrame, schema: StructType | str, column: str = "value", bad: str = BAD) -> DataFrame:
    """The fields of the JSON in a column as columns of their own, in its place, and a column of what does not fit.

    `bad` is null for a row whose text is an object of that schema, or null. Otherwise it is the text itself, and the
    columns are null. A field may be missing, unless the schema says it is not nullable; fields that the schema does not
    name are ignored. A value of another type does not fit: neither a number for a text nor a text for a number.
    """
    wanted = _struct(schema)
    kept = [name for name in frame.columns if name != column]
    if twice := sorted({name.lower() for name in kept} & {name.lower() for name in [*wanted.names, bad]}):
        raise ValueError(f"there are columns of these names already: {', '.join(twice)}; rename them first")
    text = f.col(f"`{column}`")
    # Spark fills the extra field with the text when anything in it has another type.
    whole = StructType([*_nullable(wanted).fields, StructField(_WHOLE, StringType())])
    read = f.from_json(text, whole, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _WHOLE})
    both = frame.withColumns({_WHOLE: read})
    read_whole = f.col(f"{_WHOLE}.{_WHOLE}").isNull() & _is_object(text)
    fits = text.isNull() | (read_whole & _has(wanted) & _texts_are_texts(text, wanted))
    fields = [f.when(fits, f.col(f"{_WHOLE}.`{name}`")).alias(name) for name in wanted.names]
    return both.select(*(f.col(f"`{name}`") for name in kept), *fields, f.when(~fits, text).alias(bad))


def split(frame: DataFrame, bad: str = BAD) -> tuple[DataFrame, DataFrame]:
    """The rows that fit, without the side column, and those that do not, with their text in it."""
    return frame.where(f.col(bad).isNull()).drop(bad), frame.where(f.col(bad).isNotNull())


def _struct(schema: StructType | str) -> StructType:
    found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(found, StructType):
        raise ValueError("the schema must be that of an object, such as 'id bigint, name string'")
    return found


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType, nullable=True) for field in schema.fields])


def _is_object(text: Column) -> Column:
    """Parsers of Spark stop after the first value, whatever follows. So it is read as the one element of a list."""
    listed = f.try_parse_json(f.concat(f.lit("["), text, f.lit("]")))
    bare = f.trim(f.regexp_replace(text, r"[\r\n\t]", " "))
    one = listed.isNotNull() & f.try_variant_get(listed, "$[1]", "variant").isNull()
    return one & bare.startswith("{") & bare.endswith("}")


def _has(schema: StructType) -> Column:
    fits = f.lit(True)
    for field in schema.fields:
        if not field.nullable:
            fits = fits & f.col(f"{_WHOLE}.`{field.name}`").isNotNull()
    return fits


def _texts_are_texts(text: Column, schema: StructType) -> Column:
    """`from_json` takes anything for a text, so what it really is is looked up."""
    fits = f.lit(True)
    for path in _text_paths(schema, "$"):
        kind = f.schema_of_variant(f.try_variant_get(f.try_parse_json(text), path, "variant"))
        fits = fits & f.coalesce(kind.isin("STRING", "VOID"), f.lit(True))
    return fits


def _text_paths(schema: StructType, path: str) -> Iterator[str]:
    for field in schema.fields:
        below = f"{path}[{_quoted(field.name)}]"
        if isinstance(field.dataType, StringType):
            yield below
        elif isinstance(field.dataType, StructType):
            yield from _text_paths(field.dataType, below)


def _quoted(name: str) -> str:
    return f'"{name}"' if "'" in name else f"'{name}'"
