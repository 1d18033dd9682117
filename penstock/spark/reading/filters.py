"""Filters that Spark pushes down, as SQL conditions on the columns of a read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import date, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from penstock.spark.database import literal

_COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_TEXTS: dict[type[Filter], Callable[[str, str], str]] = {
    StringStartsWith: lambda column, text: f"starts_with({column}, {text})",
    StringEndsWith: lambda column, text: f"right({column}, length({text})) = {text}",
    StringContains: lambda column, text: f"position({text} in {column}) > 0",
}


def condition(offered: Filter, columns: Collection[str]) -> str | None:
    """The SQL condition; None for a filter that Spark must apply itself."""
    if isinstance(offered, Not):
        inner = condition(offered.child, columns)
        return None if inner is None else f"not ({inner})"
    path: tuple[str, ...] = getattr(offered, "attribute", ())
    if len(path) != 1 or path[0] not in columns:
        return None
    column = f'"{path[0]}"'
    if isinstance(offered, IsNull | IsNotNull):
        return f"{column} is {'not ' if isinstance(offered, IsNotNull) else ''}null"
    if isinstance(offered, In):
        values = [_value(value) for value in offered.value]
        known = [value for value in values if value is not None]
        return f"{column} in ({', '.join(known)})" if known and len(known) == len(values) else None
    value = _value(getattr(offered, "value", None))
    if value is None:
        return None
    if type(offered) in _COMPARISONS:
        # Spark compares text by bytes, independent of the collation of the database.
        collation = ' collate "C"' if value.startswith("e'") and not isinstance(offered, EqualTo) else ""
        return f"{column} {_COMPARISONS[type(offered)]} {value}{collation}"
    if type(offered) in _TEXTS:
        return _TEXTS[type(offered)](column, value)
    return None


def _value(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and "\0" not in value:
        return literal(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f"timestamptz {literal(value.isoformat())}"
    if isinstance(value, date) and not isinstance(value, datetime):
        return f"date {literal(value.isoformat())}"
    return None
