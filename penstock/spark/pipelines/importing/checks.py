"""What a target takes, and what is wrong with a row that it would not take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock import limits

BLANK = " \t\r\n"
"""What JSON takes for white space."""

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
"""What is carried over beside the payload, and must be text that PostgreSQL takes."""
_REPEATED = "spark.sql.variant.allowDuplicateKeys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    kind: str
    """`queue`, `stream` or `jobs`."""
    most_bytes: int
    others: dict[str, int] = field(default_factory=dict)
    """How many it takes where that is not the usual number, by name."""


@contextmanager
def lawful_json(spark: SparkSession) -> Iterator[None]:
    """JSON may repeat a member; Spark takes that only when told to."""
    before = spark.conf.get(_REPEATED)
    spark.conf.set(_REPEATED, "true")
    try:
        yield
    finally:
        spark.conf.set(_REPEATED, before or "false")


def is_json(text: Column) -> Column:
    """Whether it is one value of JSON. Spark's parsers stop behind the first one, whatever follows.

    What follows must therefore fit into an array without being another element, and into an object as well.
    """
    alone = f.json_array_length(f.concat(f.lit("["), text, f.lit("]"))) == 1
    strict = f.try_parse_json(f.concat(f.lit('{"value":'), text, f.lit("}"))).isNotNull()
    return f.coalesce(alone & strict, f.lit(False))


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
        return found.when(f.col("deliver_at").isNotNull(), f.lit("delayed, which a stream does not know"))
    latest = f.current_timestamp() + f.expr(f"interval {limits.DELAY_S[1]} seconds")
    return (
        found.when(value == "", f.lit("empty"))
        .when(f.col("deliver_at") > latest, f.lit(f"delayed by more than {limits.DELAY_S[1]} seconds"))
        .when(f.col("key").isNotNull() & ~f.col("key").rlike(_GROUP), f.lit("group not allowed"))
        # Beside a task they may be any text.
        .when(f.col("task").isNull() & _no_object(f.col("headers")), f.lit("headers not a JSON object"))
    )


def _most_bytes(target: Target) -> Column:
    own = (f.when(f.col("name") == name, f.lit(most)) for name, most in target.others.items())
    return f.coalesce(*own, f.lit(target.most_bytes))


def _no_object(text: Column) -> Column:
    return text.isNotNull() & ~(f.trim(text, f.lit(BLANK)).startswith("{") & is_json(text))


def _value(target: Target) -> Column:
    """A job tells its task in its payload, where workers look for it."""
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
    # A FIFO queue has groups; what has none goes into one, and so keeps its order.
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
