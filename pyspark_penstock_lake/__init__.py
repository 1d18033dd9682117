"""Lets Spark find the lake's data source by itself: a module named `pyspark_…` with a class `DefaultSource`.

Import this module, or `pyspark_penstock`, before a session is created that is not made by
`penstock.spark.running.session`; see there.
"""

import os
import sys

from penstock.spark.lake.source import LakeSource

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


class DefaultSource(LakeSource):
    """`spark.read.format("penstock_lake")`, without registering anything."""


__all__ = ["DefaultSource"]
