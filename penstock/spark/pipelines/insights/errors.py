"""Why things failed: errors grouped by their shape, which is their text without what differs from case to case."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

READ_LENGTH = 1000
"""So much of an error is looked at; a stack trace says what it is about at its beginning."""
SHAPE_LENGTH = 200
EXAMPLE_LENGTH = 300
TOP = 20
"""So many shapes are kept of a name and an hour; the others are counted together, so that the sum stays right."""
OTHERS = "(others)"

_WORD = r"[\p{L}\p{N}]"
# A quote may hold escaped quotes. One that is not closed, because the text was cut off, goes on to its end.
_QUOTED = "|".join(
    (
        r'"[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+(?:"|\\?\z)',
        # What follows or is followed by a letter is an apostrophe.
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
    # Key (name)=(…) and: Failing row contains (…), as PostgreSQL says it.
    (r"(=|\bcontains )\((?:[^\n]*\)|(?s:.*))", "$1(<text>)"),
    (r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>)\]\\]*[^\s'\"<>)\]\\.,;:]", "<url>"),
    (r"[\p{L}\p{N}._%+-]+@[\p{L}\p{N}.-]*[\p{L}\p{N}]", "<mail>"),
)
"""What an error may quote of a payload."""
_LONG_NUMBER = (r"\d(?:[ ./-]?\d){5,}", "<n>")
"""Of a card, an account, a telephone."""

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
"""In this order: what may hold the later ones comes first."""


def shape(error: Column) -> Column:
    return f.substring(f.trim(_replaced(_beginning(error), _PLACEHOLDERS)), 1, SHAPE_LENGTH)


def example(error: Column) -> Column:
    """The text itself, but for what it may quote of a payload."""
    return f.substring(_replaced(_beginning(error), (*_QUOTES, _LONG_NUMBER)), 1, EXAMPLE_LENGTH)


def _beginning(error: Column) -> Column:
    """Without a word that is cut off: nobody would know it for an address any more."""
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
