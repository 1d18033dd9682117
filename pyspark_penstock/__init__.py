"""Lets Spark find the data source by itself: it looks for modules named `pyspark_…` with a class `DefaultSource`.

Import this module before a session is created that is not made by `penstock.spark.running.session`: Spark runs the
tasks of the format with `python3` of the PATH, unless PYSPARK_PYTHON names another, and that may lack this package.
"""

import os
import sys

from penstock.spark.source import PenstockSource

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


class DefaultSource(PenstockSource):
    """`spark.read.format("penstock")`, without registering anything."""


__all__ = ["DefaultSource"]
