"""Numbers per hour and their sums. Every frame here is a set of parts that can be merged with others.

A part has the counts of a period and a sketch of its latencies. Sketches can be merged, percentiles cannot. So the
sketch is stored, and hours are merged into days, and names into kinds, without reading the facts again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

HOUR_S = 3600
DAY_S = 86_400
KEY = ("tenant", "kind", "name")
COUNTS = ("sent", "done", "retried", "failed", "dead")
QUANTILES = {"p50_s": 0.5, "p95_s": 0.95, "p99_s": 0.99}
SKETCH_SIZE = 200
"""Parameter of the KLL sketch: the rank error of a percentile is below 1.7 percent with high probability, and zero up
to this many values."""


def starting(moment: Column, seconds: int) -> Column:
    """Start of the period of this length that contains the moment, in UTC."""
    return f.timestamp_seconds(f.unix_seconds(moment) - f.pmod(f.unix_seconds(moment), f.lit(seconds)))


def date_of(moment: Column) -> Column:
    return f.date_from_unix_date(f.floor(f.unix_seconds(moment) / DAY_S).cast("int"))


def parts(facts: DataFrame) -> DataFrame:
    """Facts with a column `starts_at`, aggregated: one part per name and period."""
    return facts.groupBy(*KEY, "starts_at").agg(
        *(f.sum(count).cast("bigint").alias(count) for count in COUNTS),
        f.max("latency_s").alias("max_s"),
        f.kll_sketch_agg_double(f.col("latency_s"), SKETCH_SIZE).alias("sketch"),
    )


def merged(frame: DataFrame, by: Sequence[str | Column] = KEY) -> DataFrame:
    """The sums of parts or of insights by these columns, with their percentiles and rates.

    `merged(hourly, by=["kind", "name"])` is a whole table in one row for each name.
    """
    attempts, ended = _denominators()
    summed = frame.groupBy(*by).agg(
        *(f.sum(count).cast("bigint").alias(count) for count in COUNTS),
        f.max("max_s").alias("max_s"),
        # An empty sketch cannot be merged and has no quantiles.
        f.kll_merge_agg_double(f.when(f.col("max_s").isNotNull(), f.col("sketch"))).alias("sketch"),
        f.sum(attempts).alias("_attempts"),
        f.sum(ended).alias("_ended"),
    )
    rated = summed.withColumn("retry_rate", _share("retried", "_attempts")).withColumn(
        "dead_rate", _share("dead", "_ended")
    )
    return _with_quantiles(rated).drop("_attempts", "_ended")


def with_rate_per_second(frame: DataFrame, seconds: int, moment: Column) -> DataFrame:
    """`per_second`: completed work, for a stream sent events. The current period counts up to `moment` only."""
    passed = f.unix_seconds(moment) - f.unix_seconds(f.col("starts_at"))
    length = f.greatest(f.least(passed, f.lit(seconds)), f.lit(1))
    counted = f.when(f.col("kind") == "stream", f.col("sent")).otherwise(f.col("done"))
    return frame.withColumn("per_second", counted / length)


def _with_quantiles(frame: DataFrame) -> DataFrame:
    known = f.col("max_s").isNotNull()
    for name, rank in QUANTILES.items():
        quantile = f.kll_sketch_get_quantile_double(f.col("sketch"), f.lit(rank))
        frame = frame.withColumn(name, f.when(known, quantile))
    return frame


def _denominators() -> tuple[Column, Column]:
    """The denominators of the rates: all attempts, and all finished work.

    Streams record an event's outcome only when it fails, so their rates refer to sent events.
    """
    is_stream = f.col("kind") == "stream"
    attempts = f.when(is_stream, f.col("sent") + f.col("retried")).otherwise(f.col("done") + f.col("failed"))
    ended = f.when(is_stream, f.col("sent")).otherwise(f.col("done") + f.col("dead"))
    return attempts, ended


def _share(part: str, whole: str) -> Column:
    return f.when(f.col(whole) > 0, f.col(part) / f.col(whole))
