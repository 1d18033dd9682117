"""How Spark finds the lake by itself: a module whose name begins with `pyspark_`, and its `DefaultSource`."""

from penstock.spark.lake.source import LakeSource


class DefaultSource(LakeSource):
    """`spark.read.format("penstock_lake")`, without registering anything."""


__all__ = ["DefaultSource"]
