"""Change events as rows: what each says, and what it does to the versions of its key.

Changes of a key are in the order of their event ids. A transaction that changes a row holds its lock until it has
committed, and its after-trigger has drawn the id by then; whoever changes the row next, or inserts the key again, waits
for that and draws a later one. TRUNCATE locks the whole table, so its place among the ids is right too.

The moment of an event is when its transaction began, which may be before an earlier change of the same key. Moments are
therefore raised to those of earlier ids: never past the commit, since an id is drawn after its transaction began and
before any later id's transaction commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from penstock.spark.events import SnapshotParts
from penstock.spark.pipelines.change_data.columns import Column, quoted, values
from penstock.spark.pipelines.change_data.source import TableName

OPERATIONS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
_HEAD = "op string, table array<string>, pkey array<string>"
_END = "struct<offset: bigint, moment: timestamp, op: string>"


@dataclass(frozen=True, slots=True)
class Shape:
    """What the changes of one table in a batch have in common."""

    keys: tuple[tuple[str, ...], ...]
    """More than one when the key was another one halfway."""
    columns: tuple[str, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Cuts:
    """The first and the last TRUNCATE of a batch."""

    first_offset: int
    first_moment: int
    """Microseconds since 1970, as everywhere here: Spark gives moments without their zone."""
    last_offset: int


def changes(events: DataFrame) -> DataFrame:
    """What the events say. Those that no JSON trigger can have written are left out."""
    head = f.from_json("type", _HEAD).alias("head")
    told = events.select(head, "value", "offset", "timestamp", "txid").select(
        f.col("head.op").alias("op"),
        f.get("head.table", f.lit(0)).alias("schema"),
        f.get("head.table", f.lit(1)).alias("table"),
        f.col("head.pkey").alias("pkey"),
        "value", "offset", f.col("timestamp").alias("moment"), "txid",
    )  # fmt: skip
    named = (f.length("schema") > 0) & (f.length("table") > 0) & f.col("pkey").isNotNull()
    return told.where(f.col("op").isin(*OPERATIONS) & named)


def names(told: DataFrame) -> list[TableName]:
    """The tables that are told of, in an order of their own."""
    found = [TableName(*row) for row in told.select("schema", "table").distinct().collect()]
    return sorted(found, key=lambda name: (name.schema, name.table))


def shape_of(told: DataFrame, ignored: Sequence[str]) -> Shape | None:
    """Of the changes of one table; None when there are none. Columns that its trigger leaves out by now are left out
    of older changes too: it may be what they cannot be applied for."""
    [row] = told.agg(
        f.collect_set("pkey").alias("keys"),
        f.array_distinct(f.flatten(f.collect_set(f.json_object_keys("value")))).alias("columns"),
        f.max(f.col("op") == "TRUNCATE").alias("truncated"),
    ).collect()
    if not row["keys"]:
        return None
    return Shape(
        tuple(sorted(tuple(key) for key in row["keys"])),
        tuple(name for name in row["columns"] if name not in ignored),
        bool(row["truncated"]),
    )


def of_table(told: DataFrame, name: TableName, seen: SnapshotParts | None) -> DataFrame:
    """The changes of one table, without those that its first copy has seen."""
    found = told.where((f.col("schema") == name.schema) & (f.col("table") == name.table))
    if seen is None:
        return found
    visible = f.col("txid") < f.lit(seen.xmax)
    if seen.running:
        visible = visible & ~f.col("txid").isin(list(seen.running))
    return found.where(~visible)


def in_order(told: DataFrame, columns: Sequence[Column], floor: int | None, *, truncated: bool) -> DataFrame:
    """Typed rows with risen moments, and beside each the TRUNCATEs around it."""
    texts = StructType([StructField(column.name, StringType()) for column in columns])
    moment = f.col("moment") if floor is None else f.greatest("moment", f.timestamp_micros(f.lit(floor)))
    rows = told.select("op", "offset", moment.alias("moment"), f.from_json("value", texts).alias("row"))
    cut = cut_before = f.lit(None).cast(_END)
    if truncated:
        # One window over all: a batch is bounded, and a TRUNCATE concerns every key.
        until_here = Window.orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
        from_here = Window.orderBy("offset").rowsBetween(0, Window.unboundedFollowing)
        rows = rows.withColumn("moment", f.max("moment").over(until_here))
        one = f.when(f.col("op") == "TRUNCATE", _end("op", "offset", "moment"))
        cut, cut_before = (f.first(one, ignorenulls=True).over(window) for window in (from_here, until_here))
    rows = rows.withColumn("cut", cut).withColumn("cut_before", cut_before)
    names = ("op", "offset", "moment", "cut", "cut_before")
    return rows.select(*values(columns, "row."), *(f.col(name).alias(f"__{name}") for name in names))


def cuts(rows: DataFrame) -> Cuts | None:
    truncates = rows.where(f.col("__op") == "TRUNCATE")
    found = truncates.agg(f.min("__cut").alias("first"), f.max("__offset").alias("last"))
    [row] = found.select("first.offset", f.unix_micros("first.moment").alias("moment"), "last").collect()
    return None if row["offset"] is None else Cuts(row["offset"], row["moment"], row["last"])


def versions(rows: DataFrame, key: Sequence[str], *, last_only: bool) -> DataFrame:
    """For each change: the version it begins, what ended that if anything did, and what ended the one before the batch.

    `__first` and `__last` are the first and the last change of the key, `__gone` says that nothing is left after it.
    """
    by_key = Window.partitionBy(*map(quoted, key)).orderBy("__offset")
    rows = rows.where(f.col("__op") != "TRUNCATE")
    rows = rows.withColumn("__moment", f.max("__moment").over(by_key.rowsBetween(Window.unboundedPreceding, 0)))
    this = _end("__op", "__offset", "__moment")
    rows = rows.withColumn("__next", f.lead(this).over(by_key)).withColumn("__number", f.row_number().over(by_key))
    if last_only:
        rows = rows.where(f.col("__next").isNull())
    end, before = f.least("__next", "__cut"), f.coalesce("__cut_before", this)
    data = [f.col(quoted(name)) for name in rows.columns if not name.startswith("__")]
    return rows.select(
        *data, "__op", "__offset", "__moment",
        (f.col("__number") == 1).alias("__first"),
        f.col("__next").isNull().alias("__last"),
        ((f.col("__op") == "DELETE") | f.col("__cut").isNotNull()).alias("__gone"),
        *(end[name].alias(f"__end_{name}") for name in ("op", "offset", "moment")),
        *(before[name].alias(f"__before_{name}") for name in ("op", "offset", "moment")),
    )  # fmt: skip


def _end(operation: str, offset: str, moment: str) -> Expression:
    # The offset comes first: ends are compared.
    return f.struct(f.col(offset).alias("offset"), f.col(moment).alias("moment"), f.col(operation).alias("op"))
