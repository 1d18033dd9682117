"""Errors grouped by shape: the text without the parts that differ from case to case."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

READ_LENGTH = 1000
"""Characters of an error that are considered; a stack trace has its message at the beginning."""
SHAPE_LENGTH = 200
EXAMPLE_LENGTH = 300
TOP = 20
"""Shapes per name and hour; the others are counted together."""
OTHERS = "(others)"

_WORD = r"[\p{L}\p{N}]"
# A quoted text may contain escaped quotes. Without a closing quote, in a truncated text, it extends to the end.
_QUOTED = "|".join(
    (
        r'"[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+(?:"|\\?\z)',
        # Between letters it is an apostrophe.
        rf"(?<!{_WORD})'[^'\\]*+(?:(?:\\(?s:.)|'(?={_WORD}))[^'\\]*+)*+(?:'|\\?\z)",
        r"`[^`]*+(?:`|\z)",
        r"«[^»]*+(?:»|\z)",
        r"„[^“”]*+(?:[“”]|\z)",
        r"“[^”]*+(?:”|\z)",
        r"‘[^’]*+(?:’|\z)",
    )
)

_QUOTES = (
    (_QUOTED, "<text>"),
    # "Key (name)=(…)" and "Failing row contains (…)" of PostgreSQL.
    (r"(=|\bcontains )\((?:[^\n]*\)|(?s:.*))", "$1(<text>)"),
    (r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>)\]\\]*[^\s'\"<>)\]\\.,;:]", "<url>"),
    (r"[\p{L}\p{N}._%+-]+@[\p{L}\p{N}.-]*[\p{L}\p{N}]", "<mail>"),
)
"""Parts of an error that may quote a payload."""
_LONG_NUMBER = (r"\d(?:[ ./-]?\d){5,}", "<n>")
"""Numbers of cards, accounts, telephones."""

_PLACEHOLDERS = (
    *_QUOTES,
    (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<address>"),
    (r"(?i)\[?\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,7}\b\]?(?::\d+)?", "<address>"),
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
    (r"(?:(?<=^|[\s(=:,])|^)(?:[A-Za-z]:\\|~?\.{0,2}/)[^\s:,;)]+", "<path>"),
    (r"(?i)\b0x[0-9a-f]+\b", "<hex>"),
    (r"(?i)\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{8,}\b", "<hex>"),
    (r"\d+(?:[.,]\d+)*", "<n>"),
    (r"\s+", " "),
)
"""Ordered: patterns that may contain later ones come first."""


def shape(error: Column) -> Column:
    return f.substring(f.trim(_replaced(_beginning(error), _PLACEHOLDERS)), 1, SHAPE_LENGTH)


def example(error: Column) -> Column:
    """The text without parts that may quote a payload."""
    return f.substring(_replaced(_beginning(error), (*_QUOTES, _LONG_NUMBER)), 1, EXAMPLE_LENGTH)


def _beginning(error: Column) -> Column:
    """The beginning of the text, without a truncated last word: it might be part of an address."""
    beginning = f.substring(error, 1, READ_LENGTH)
    return f.when(f.length(error) > READ_LENGTH, f.regexp_replace(beginning, r"\S+\z", "…")).otherwise(beginning)


def _replaced(text: Column, placeholders: Iterable[tuple[str, str]]) -> Column:
    for pattern, placeholder in placeholders:
        text = f.regexp_replace(text, pattern, placeholder)
    return text


def top_errors(facts: DataFrame, top: int = TOP) -> DataFrame:
    """Rows `tenant, kind, name, starts_at, shape, count, example` of facts that have an `error`."""
    key = ("tenant", "kind", "name", "starts_at")
    shaped = (
        facts.where(f.col("error").isNotNull())
        .withColumn("shape", shape(f.col("error")))
        .groupBy(*key, "shape")
        .agg(f.count(f.lit(1)).alias("count"), f.min(example(f.col("error"))).alias("example"))
    )
    place = f.row_number().over(Window.partitionBy(*key).orderBy(f.desc("count"), "shape"))
    kept = f.when(place <= top, f.col("shape")).otherwise(OTHERS)
    return (
        shaped.withColumn("kept", kept)
        .groupBy(*key, f.col("kept").alias("shape"))
        .agg(f.sum("count").alias("count"), f.min("example").alias("example"))
    )
