"""How Spark finds the data source by itself: a module whose name begins with `pyspark_`, and its `DefaultSource`."""

from penstock.spark.source import PenstockSource


class DefaultSource(PenstockSource):
    """`spark.read.format("penstock")`, without registering anything."""


__all__ = ["DefaultSource"]
