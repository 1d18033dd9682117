"""Files to import: each line or row is a payload, or has it in one of its columns."""

from __future__ import annotations

import glob
import os.path
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from penstock.spark.pipelines.importing.checks import BLANK, is_json
from penstock.spark.pipelines.pipeline import PipelineError

KINDS = ("jsonl", "csv", "parquet")
FIELDS = ("name", "type", "key", "headers", "deliver_at", "priority")
"""Columns with a meaning, when the payload is in a column of its own."""
MOST_FILES = 100_000

_BAD = "_bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    path: str
    label: str
    """Path, size and modification time: a changed file is a different file."""


def check_paths(paths: Sequence[str]) -> None:
    """Raises for local paths that match no file. Addresses such as s3a:// are left to Spark."""
    for path in paths:
        if "://" not in path and not os.path.exists(path) and not glob.glob(_python_pattern(path)):
            raise PipelineError(f"there are no files {path}")


def _python_pattern(path: str) -> str:
    """Spark's patterns know alternatives like {a,b}, which Python's do not."""
    return re.sub(r"\{[^}]*\}", "*", path)


def find_files(spark: SparkSession, paths: Sequence[str]) -> list[File]:
    """The files that match the patterns. A path that exists exactly as written is not treated as a pattern."""
    patterns = [escaped(path) if os.path.exists(path) else path for path in paths]
    try:
        listed = spark.read.format("binaryFile").load(patterns)
        known = listed.select("path", "length", f.unix_micros("modificationTime")).distinct()
        rows = known.orderBy("path").limit(MOST_FILES + 1).collect()
    except AnalysisException as error:
        raise PipelineError(f"there are no files {', '.join(paths)}") from error
    if len(rows) > MOST_FILES:
        raise PipelineError(f"more than {MOST_FILES} files: import them in several runs")
    if hidden := [path for path in paths if _is_hidden(path, [row[0] for row in rows])]:
        raise PipelineError(f"Spark ignores files whose names begin with _ or . : rename {', '.join(hidden)}")
    return [File(path=row[0], label=f"{row[0]}/{row[1]}/{row[2]}") for row in rows]


def escaped(path: str) -> str:
    """The path with special characters escaped, where Spark expects a pattern."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def _is_hidden(path: str, found: list[str]) -> bool:
    """Spark ignores files with such names, but reads folders."""
    name = os.path.basename(os.path.abspath(path))
    return name.startswith(("_", ".")) and not any(f"/{name}/" in each for each in found)


def read(spark: SparkSession, kind: str, path: str, value: str | None) -> DataFrame:
    """The columns of a foreign queue, and `name`. `value` names the payload column; None takes the whole row."""
    frame = {"jsonl": _lines, "csv": _csv, "parquet": _parquet}[kind](spark, escaped(path))
    bad = f.col(_BAD)
    if kind == "jsonl":
        payload = f.col("value") if value is None else _field(value)
        columns = {name: _field(name) for name in FIELDS}
    else:
        own = [field for field in frame.schema.fields if field.name != _BAD]
        names = {field.name for field in own}
        if value is not None and value not in names:
            raise PipelineError(f"{path} has no column {value!r}; it has {', '.join(sorted(names))}")
        payload = (
            _text(frame, value)
            if value is not None
            else f.to_json(f.struct(*(f.col(_quoted(each.name)) for each in own)))
        )
        columns = {name: f.col(name) for name in FIELDS if name in names}
    chosen = columns if value is not None else {}
    deliver_at, priority = _given(chosen, "deliver_at"), _given(chosen, "priority")
    moment, number = deliver_at.try_cast("timestamp"), priority.try_cast("long")
    bad = (
        f.when(bad.isNotNull(), bad)
        .when(deliver_at.isNotNull() & moment.isNull(), f.lit("deliver_at not a moment"))
        .when(priority.isNotNull() & number.isNull(), f.lit("priority not a whole number"))
    )
    return frame.select(
        (f.monotonically_increasing_id() + 1).alias("position"),
        (f.monotonically_increasing_id() + 1).cast("string").alias("id"),
        payload.alias("value"),
        _or_null(chosen, "type").alias("task"),
        _or_null(chosen, "key").alias("key"),
        _given(chosen, "headers").alias("headers"),
        moment.alias("deliver_at"),
        number.alias("priority"),
        f.coalesce(bad, f.lit("waiting")).alias("state"),
        _or_null(chosen, "name").alias("name"),
    )


def _lines(spark: SparkSession, path: str) -> DataFrame:
    # Invalid UTF-8 is kept here and rejected later.
    lines = spark.read.text(path).where(f.trim(f.col("value"), f.lit(BLANK)) != "")
    bad = f.is_valid_utf8(f.col("value")) & ~is_json(f.make_valid_utf8(f.col("value")))
    return lines.withColumn(_BAD, f.when(bad, f.lit("not JSON")))


def _csv(spark: SparkSession, path: str) -> DataFrame:
    options = {"header": "true", "multiLine": "true", "escape": '"'}
    names = spark.read.options(**options).csv(path).columns
    texts = StructType([StructField(name, StringType()) for name in (*names, "_row")])
    rows = spark.read.options(**options, columnNameOfCorruptRecord="_row").schema(texts).csv(path)
    replaced = [f.col(_quoted(name)).contains("\ufffd") for name in names]
    bad = f.when(f.col("_row").isNotNull(), f.lit("not a row of this table"))
    for found in replaced:
        # Spark replaces invalid UTF-8 by this character when it reads.
        bad = bad.when(found, f.lit("not UTF-8"))
    return rows.withColumn(_BAD, bad).drop("_row")


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.parquet(path).withColumn(_BAD, f.lit(None).cast("string"))


def _field(name: str) -> Column:
    return f.get_json_object(f.make_valid_utf8(f.col("value")), f"$['{name}']")


def _text(frame: DataFrame, name: str) -> Column:
    kind, column = frame.schema[name].dataType, f.col(_quoted(name))
    if isinstance(kind, (StringType, BinaryType)):
        return column.cast("string")
    # The text of the only member of the object. A null would leave the object empty.
    text = f.to_json(f.struct(column.alias("v")))
    return f.when(column.isNotNull(), text.substr(f.lit(6), f.length(text) - 6))


def _or_null(columns: dict[str, Column], name: str) -> Column:
    return columns[name].cast("string") if name in columns else f.lit(None).cast("string")


def _given(columns: dict[str, Column], name: str) -> Column:
    """The column, with null for text that is only white space."""
    text = _or_null(columns, name)
    return f.when(f.trim(text, f.lit(BLANK)) != "", text)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
