"""A lake of Delta tables, written without a JVM jar: every Delta reader sees each row once.

Tasks write Parquet files into a table's folder or bucket. The files become part of the table when the driver adds them
to the table's log, together with the number of the batch: a repeated batch is not added again.
"""

from penstock.spark.lake.catalog import register
from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.frames import append, read
from penstock.spark.lake.merging import merge, replace
from penstock.spark.lake.table import exists, version
from penstock.spark.lake.upkeep import compact, tables, vacuum

__all__ = [
    "LakeError", "append", "compact", "exists", "merge", "read", "register", "replace", "tables", "vacuum", "version",
]  # fmt: skip
