"""A lake of Delta tables, written without a JVM jar: every reader of Delta sees each row once.

Tasks write Parquet files straight into a table's folder or bucket. They belong to the table only when the driver names
them in the table's log, together with the number of the batch: a batch that comes again is not named again.
"""

from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.frames import append, read
from penstock.spark.lake.merging import merge, replace
from penstock.spark.lake.table import exists, version
from penstock.spark.lake.upkeep import compact, tables, vacuum

__all__ = [
    "LakeError", "append", "compact", "exists", "merge", "read", "replace", "tables", "vacuum", "version",
]  # fmt: skip
