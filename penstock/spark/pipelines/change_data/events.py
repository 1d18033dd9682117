"""Change events as rows: what each one says, and what it does to the versions of its key.

Changes of one key are ordered by their event ids. A transaction that changes a row locks it until it commits, and its
trigger has drawn the event id by then; the next change of the row, or insert of the key, waits for the commit and draws
a later id. TRUNCATE locks the whole table, so its event id is in order too.

The time of an event is the start of its transaction, which may be before an earlier change of the same key. Times are
therefore raised to those of earlier ids. They are never raised past the commit: an id is drawn after its transaction
started, and before the transaction of any later id commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from penstock.spark.pipelines.change_data.columns import Column, quoted, values
from penstock.spark.pipelines.change_data.source import TableName
from penstock.spark.reading.events import SnapshotParts

OPERATIONS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
_HEAD = "op string, table array<string>, pkey array<string>"
_END = "struct<offset: bigint, moment: timestamp, op: string>"


@dataclass(frozen=True, slots=True)
class Shape:
    """Keys and columns of the changes of one table in a batch."""

    keys: tuple[tuple[str, ...], ...]
    """More than one when the key was changed within the batch."""
    columns: tuple[str, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class TruncateRange:
    """The first and the last TRUNCATE of a batch."""

    first_offset: int
    first_moment: int
    """Microseconds since 1970: Spark returns timestamps without their time zone."""
    last_offset: int


def changes(events: DataFrame) -> DataFrame:
    """The events as change rows. Events that no JSON trigger wrote are left out."""
    head = f.from_json("type", _HEAD).alias("head")
    change_rows = events.select(head, "value", "offset", "timestamp", "txid").select(
        f.col("head.op").alias("op"),
        f.get("head.table", f.lit(0)).alias("schema"),
        f.get("head.table", f.lit(1)).alias("table"),
        f.col("head.pkey").alias("pkey"),
        "value", "offset", f.col("timestamp").alias("moment"), "txid",
    )  # fmt: skip
    named = (f.length("schema") > 0) & (f.length("table") > 0) & f.col("pkey").isNotNull()
    return change_rows.where(f.col("op").isin(*OPERATIONS) & named)


def names(change_rows: DataFrame) -> list[TableName]:
    """The tables that the changes belong to, sorted."""
    found = [TableName(*row) for row in change_rows.select("schema", "table").distinct().collect()]
    return sorted(found, key=lambda name: (name.schema, name.table))


def shape_of(change_rows: DataFrame, ignored: Sequence[str]) -> Shape | None:
    """The shape of the changes of one table; None when there are none. Columns that its trigger ignores now are left
    out of older changes too: they may be the reason that the changes could not be applied."""
    [row] = change_rows.agg(
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


def of_table(change_rows: DataFrame, name: TableName, seen: SnapshotParts | None) -> DataFrame:
    """The changes of one table, without those that its first copy includes."""
    found = change_rows.where((f.col("schema") == name.schema) & (f.col("table") == name.table))
    if seen is None:
        return found
    visible = f.col("txid") < f.lit(seen.xmax)
    if seen.running:
        visible = visible & ~f.col("txid").isin(list(seen.running))
    return found.where(~visible)


def in_order(
    change_rows: DataFrame,
    columns: Sequence[Column],
    floor: int | None,
    *,
    truncated: bool,
    defaults: Mapping[str, str],
) -> DataFrame:
    """Typed rows with raised moments, and for each row the TRUNCATEs before and after it.

    An event that is older than a column has its default, like the row itself in PostgreSQL.
    """
    texts = StructType([StructField(column.name, StringType()) for column in columns])
    moment = f.col("moment") if floor is None else f.greatest("moment", f.timestamp_micros(f.lit(floor)))
    rows = change_rows.select("op", "offset", moment.alias("moment"), "value", f.from_json("value", texts).alias("row"))
    for name in (column.name for column in columns if column.name in defaults):
        is_older = ~f.array_contains(f.json_object_keys("value"), name)
        value = f.when(is_older, f.lit(defaults[name])).otherwise(f.col(f"row.{quoted(name)}"))
        rows = rows.withColumn("row", f.col("row").withField(quoted(name), value))
    rows = rows.drop("value")
    cut = cut_before = f.lit(None).cast(_END)
    if truncated:
        # One window over all rows: a batch is bounded, and a TRUNCATE affects every key.
        until_here = Window.orderBy("offset").rowsBetween(Window.unboundedPreceding, 0)
        from_here = Window.orderBy("offset").rowsBetween(0, Window.unboundedFollowing)
        rows = rows.withColumn("moment", f.max("moment").over(until_here))
        one = f.when(f.col("op") == "TRUNCATE", _end("op", "offset", "moment"))
        cut, cut_before = (f.first(one, ignorenulls=True).over(window) for window in (from_here, until_here))
    rows = rows.withColumn("cut", cut).withColumn("cut_before", cut_before)
    names = ("op", "offset", "moment", "cut", "cut_before")
    return rows.select(*values(columns, "row."), *(f.col(name).alias(f"__{name}") for name in names))


def truncate_range(rows: DataFrame) -> TruncateRange | None:
    truncates = rows.where(f.col("__op") == "TRUNCATE")
    found = truncates.agg(f.min("__cut").alias("first"), f.max("__offset").alias("last"))
    [row] = found.select("first.offset", f.unix_micros("first.moment").alias("moment"), "last").collect()
    return None if row["offset"] is None else TruncateRange(row["offset"], row["moment"], row["last"])


def versions(rows: DataFrame, key: Sequence[str], *, last_only: bool) -> DataFrame:
    """For each change: the version that it begins, what ended it, and what ended the version before the batch.

    `__first` and `__last` mark the first and the last change of the key; `__gone` says that no row is left after it.
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
    # The offset comes first, because ends are compared.
    return f.struct(f.col(offset).alias("offset"), f.col(moment).alias("moment"), f.col(operation).alias("op"))
