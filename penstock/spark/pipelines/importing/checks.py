"""The rules of each target, and the reason why a row is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock import limits

BLANK = " \t\r\n"
"""White space in JSON."""

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
_TEXTS = {"queue": ("task", "key", "headers"), "stream": ("task", "key", "headers"), "jobs": ("task",)}
"""Columns that are imported besides the payload, and must be valid text for PostgreSQL."""
_REPEATED = "spark.sql.variant.allowDuplicateKeys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    kind: str
    """`queue`, `stream` or `jobs`."""
    most_bytes: int
    others: dict[str, int] = field(default_factory=dict)
    """Size limits of targets that differ from `most_bytes`, by name."""


@contextmanager
def allow_repeated_members(spark: SparkSession) -> Iterator[None]:
    """JSON may repeat the members of an object; Spark accepts that only with this setting."""
    before = spark.conf.get(_REPEATED)
    spark.conf.set(_REPEATED, "true")
    try:
        yield
    finally:
        spark.conf.set(_REPEATED, before or "false")


def is_json(text: Column) -> Column:
    """Whether the text is exactly one JSON value. Spark's parsers ignore what follows the first value.

    So the text must be valid as the only element of an array, and as the value of an object's member.
    """
    alone = f.json_array_length(f.concat(f.lit("["), text, f.lit("]"))) == 1
    strict = f.try_parse_json(f.concat(f.lit('{"value":'), text, f.lit("}"))).isNotNull()
    return f.coalesce(alone & strict, f.lit(False))


def prepared(rows: DataFrame, target: Target, label: str) -> DataFrame:
    """The rows to write, each with the reason for its rejection or null. `label` identifies the source."""
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
    value, most = f.col("value"), _most_bytes(target)
    found = (
        f.when(~f.col("state").isin("waiting", "finished"), f.col("state"))
        .when(value.isNull(), f.lit("no payload"))
        .when(~f.is_valid_utf8(value), f.lit("not UTF-8"))
        .when(f.octet_length(value) > most, f.format_string("larger than %d bytes", most))
        .when(value.contains("\0"), f.lit("holds a zero character"))
        .when(f.col("name").isNull(), f.lit("no name to send it to"))
        .when(~f.col("name").rlike(_NAMES[target.kind]), f.lit(f"name not allowed for a {target.kind}"))
    )
    for name in _TEXTS[target.kind]:
        text, called = f.col(name), "type" if name == "task" else name
        found = found.when(~f.is_valid_utf8(text), f.lit(f"{called} not UTF-8"))
        found = found.when(text.contains("\0"), f.lit(f"{called} holds a zero character"))
    if target.kind == "jobs":
        return found.when(~is_json(value), f.lit("not JSON"))
    if target.kind == "stream":
        return found.when(f.col("deliver_at").isNotNull(), f.lit("delayed, which streams do not support"))
    latest = f.current_timestamp() + f.expr(f"interval {limits.DELAY_S[1]} seconds")
    return (
        found.when(value == "", f.lit("empty"))
        .when(f.col("deliver_at") > latest, f.lit(f"delayed by more than {limits.DELAY_S[1]} seconds"))
        .when(f.col("key").isNotNull() & ~f.col("key").rlike(_GROUP), f.lit("group not allowed"))
        # With a task, headers may be any text.
        .when(f.col("task").isNull() & _no_object(f.col("headers")), f.lit("headers not a JSON object"))
    )


def _most_bytes(target: Target) -> Column:
    own = (f.when(f.col("name") == name, f.lit(most)) for name, most in target.others.items())
    return f.coalesce(*own, f.lit(target.most_bytes))


def _no_object(text: Column) -> Column:
    return text.isNotNull() & ~(f.trim(text, f.lit(BLANK)).startswith("{") & is_json(text))


def _value(target: Target) -> Column:
    """The payload of a job includes its task, where workers look for it."""
    value, task = f.col("value"), f.to_json(f.struct("task"))
    if target.kind != "jobs":
        return value
    opened = f.concat(task.substr(f.lit(1), f.length(task) - 1), f.lit(","))
    text = f.trim(f.make_valid_utf8(value), f.lit(BLANK))
    has_own = f.array_contains(f.json_object_keys(text), "task")
    members = f.concat(opened, text.substr(f.lit(2), f.length(text)))
    return (
        f.when(f.col("task").isNull() | value.isNull() | ~is_json(text), value)
        .when(text.rlike(r"^\{\s*\}$"), task)
        .when(text.startswith("{") & ~has_own, members)
        .otherwise(f.concat(opened, f.lit('"args":'), text, f.lit("}")))
    )


def _key(target: Target, fifo: Column) -> Column:
    if target.kind == "stream":
        return f.col("key")
    # In a FIFO queue, rows without a group share one, and so keep their order.
    return f.when(fifo, f.coalesce(f.col("key"), f.lit("default")))


def _headers(target: Target) -> Column:
    if target.kind == "jobs":
        return f.lit(None).cast("string")
    if target.kind == "stream":
        return f.col("headers")
    beside = f.to_json(f.struct("task", f.col("headers").alias("more")))
    return f.when(f.col("task").isNull(), f.col("headers")).otherwise(beside)


def _priority(target: Target) -> Column:
    if target.kind == "stream":
        return f.lit(None).cast("int")
    usual, least, most = _PRIORITIES[target.kind]
    within = f.greatest(f.lit(least - usual), f.least(f.lit(most - usual), f.col("priority")))
    return f.when(f.col("priority").isNotNull(), within + usual).cast("int")
