"""Tables of the lake as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.lake import partitions
from penstock.spark.lake.reader import TableFile, table_files
from penstock.spark.lake.schemas import spark_schema
from penstock.spark.lake.storage import Storage, below, folder, is_folder
from penstock.spark.lake.table import open_table


def read(spark: SparkSession, path: str, *, version: int | None = None, storage: Storage | None = None) -> DataFrame:
    """A table in its newest version, or in the given one.

    Spark's own Parquet reader is used for local folders whose names match the partition values of the log. Otherwise,
    and for object stores, for which Spark would need a jar, tasks read in Python.
    """
    table = open_table(path, storage, version)
    schema = spark_schema(table)
    files = table_files(table)
    if not files:
        return spark.createDataFrame([], schema)
    if is_folder(path) and all(_path_matches(each) for each in files):
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
    """Add rows to a table, and create it if needed; once for each version of an application."""
    options = {f"storage.{name}": value for name, value in (storage or {}).items()}
    if app is not None and version is not None:
        options |= {"txnAppId": app, "txnVersion": str(version)}
    options |= {"path": folder(path), "partitionBy": ",".join(partition_by), "mergeSchema": str(merge_schema).lower()}
    frame.write.format("penstock_lake").options(**options).mode("append").save()


def _path_matches(found: TableFile) -> bool:
    return partitions.path_matches(found.path, {name: partitions.text(value) for name, value in found.values.items()})
