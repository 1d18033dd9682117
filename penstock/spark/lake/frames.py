"""Tables of the lake as data frames."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.lake import partitions
from penstock.spark.lake.reader import TableFile, table_files
from penstock.spark.lake.schemas import spark_schema
from penstock.spark.lake.storage import Storage, below, folder, is_folder
from penstock.spark.lake.table import opened


def read(spark: SparkSession, path: str, *, version: int | None = None, storage: Storage | None = None) -> DataFrame:
    """A table as it is now, or was at a version.

    Spark's own Parquet reader is used where it can see what the log says: in folders whose names tell the partitions.
    Elsewhere, and in object stores, for which Spark would need a jar, tasks read in Python.
    """
    table = opened(path, storage, version)
    schema = spark_schema(table)
    files = table_files(table)
    if not files:
        return spark.createDataFrame([], schema)
    if is_folder(path) and all(_told_by_path(each) for each in files):
        root = folder(path)
        frame = spark.read.schema(schema).option("basePath", root).parquet(*(below(root, each.path) for each in files))
        return frame.select(*(f"`{name}`" for name in schema.names))
    options = {f"storage.{name}": value for name, value in (storage or {}).items()}
    reader = spark.read.format("penstock_lake").options(path=folder(path), version=str(table.version()), **options)
    return reader.load()


def append(
    frame: DataFrame,
    path: str,
    *,
    partition_by: Sequence[str] = (),
    app: str | None = None,
    version: int | None = None,
    merge_schema: bool = False,
    storage: Storage | None = None,
) -> None:
    """Add rows to a table, which is made when it is not there; once only for each version of an application."""
    options = {f"storage.{name}": value for name, value in (storage or {}).items()}
    if app is not None and version is not None:
        options |= {"txnAppId": app, "txnVersion": str(version)}
    options |= {"path": folder(path), "partitionBy": ",".join(partition_by), "mergeSchema": str(merge_schema).lower()}
    frame.write.format("penstock_lake").options(**options).mode("append").save()


def _told_by_path(found: TableFile) -> bool:
    return partitions.tells(found.path, {name: partitions.text(value) for name, value in found.values.items()})
