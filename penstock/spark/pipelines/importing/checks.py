"""What a target takes, and what is wrong with a row that it would not take."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock import limits

COLUMNS = ("name", "type", "key", "value", "headers", "deliver_at", "priority", "dedup_id")
"""What is written, as `format("penstock")` takes it."""

_NAMES = {
    "queue": r"^(?=.{1,80}$)[A-Za-z0-9_-]+(\.fifo)?$",
    "stream": r"^[A-Za-z0-9_.-]{1,40}$",
    "jobs": r"^[A-Za-z0-9_.:-]{1,128}$",
}
_GROUP = r"^[A-Za-z0-9!-/:-@\[-`{-~]{1,128}$"
_PRIORITIES = {
    "queue": (limits.DEFAULT_PRIORITY, *limits.PRIORITY),
    "jobs": (0, *limits.JOB_PRIORITY),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    kind: str
    """`queue`, `stream` or `jobs`."""
    most_bytes: int


def prepared(rows: DataFrame, target: Target, label: str) -> DataFrame:
    """The rows as they are written, each with the reason why it cannot be, or null; `label` tells sources apart."""
    value = _value(target)
    fifo = f.col("name").endswith(".fifo") if target.kind == "queue" else f.lit(False)
    frame = rows.withColumn("value", value).withColumn("key", _key(target, fifo))
    return frame.select(
        "position",
        "id",
        _reason(target).alias("reason"),
        "name",
        f.coalesce(f.col("task"), f.lit("default")).alias("type"),
        "key",
        "value",
        _headers(target).alias("headers"),
        "deliver_at",
        _priority(target).alias("priority"),
        f.when(fifo, f.concat(f.lit(f"{label}-"), f.col("id"))).alias("dedup_id"),
    )


def _reason(target: Target) -> Column:
    value = f.col("value")
    found = (
        f.when(~f.col("state").isin("waiting", "finished"), f.col("state"))
        .when(value.isNull(), f.lit("no payload"))
        .when(~f.is_valid_utf8(value), f.lit("not UTF-8"))
        .when(f.octet_length(value) > target.most_bytes, f.lit(f"larger than {target.most_bytes} bytes"))
        .when(value.contains("\0"), f.lit("holds a zero character"))
        .when(f.col("name").isNull(), f.lit("no name to send it to"))
        .when(~f.col("name").rlike(_NAMES[target.kind]), f.lit(f"name not allowed for a {target.kind}"))
    )
    if target.kind == "jobs":
        return found.when(f.try_parse_json(value).isNull(), f.lit("not JSON"))
    if target.kind == "stream":
        return found.when(f.col("deliver_at").isNotNull(), f.lit("delayed, which a stream does not know"))
    latest = f.current_timestamp() + f.expr(f"interval {limits.DELAY_S[1]} seconds")
    return (
        found.when(value == "", f.lit("empty"))
        .when(f.col("deliver_at") > latest, f.lit(f"delayed by more than {limits.DELAY_S[1]} seconds"))
        .when(f.col("key").isNotNull() & ~f.col("key").rlike(_GROUP), f.lit("group not allowed"))
    )


def _value(target: Target) -> Column:
    """A job tells its task in its payload, where workers look for it."""
    value, task = f.col("value"), f.to_json(f.struct("task"))
    if target.kind != "jobs":
        return value
    opened = f.concat(task.substr(f.lit(1), f.length(task) - 1), f.lit(","))
    text = f.trim(f.make_valid_utf8(value))
    members = f.concat(opened, text.substr(f.lit(2), f.length(text)))
    return (
        f.when(f.col("task").isNull() | value.isNull() | f.try_parse_json(f.make_valid_utf8(value)).isNull(), value)
        .when(text.rlike(r"^\{\s*\}$"), task)
        .when(text.startswith("{") & f.get_json_object(text, "$.task").isNull(), members)
        .otherwise(f.concat(opened, f.lit('"args":'), text, f.lit("}")))
    )


def _key(target: Target, fifo: Column) -> Column:
    if target.kind == "stream":
        return f.col("key")
    # A FIFO queue has groups; what has none goes into one, and so keeps its order.
    return f.when(fifo, f.coalesce(f.col("key"), f.lit("default")))


def _headers(target: Target) -> Column:
    if target.kind == "jobs":
        return f.lit(None).cast("string")
    if target.kind == "stream":
        return f.col("headers")
    alone = f.when(f.trim(f.col("headers")).startswith("{"), f.col("headers"))
    return f.when(f.col("task").isNull(), alone).otherwise(f.to_json(f.struct("task", f.col("headers").alias("more"))))


def _priority(target: Target) -> Column:
    if target.kind == "stream":
        return f.lit(None).cast("int")
    usual, least, most = _PRIORITIES[target.kind]
    within = f.greatest(f.lit(least), f.least(f.lit(most), f.col("priority") + usual))
    return f.when(f.col("priority").isNotNull(), within).cast("int")
