"""`format("penstock_lake")`: reads and writes tables of a lake, without a jar."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from penstock.spark.lake.options import lake_options
from penstock.spark.lake.reader import FilteringLakeReader, LakeReader
from penstock.spark.lake.schemas import spark_schema
from penstock.spark.lake.sink import LakeStreamWriter, LakeWriter
from penstock.spark.lake.stream import CHANGE_COLUMNS, ChangeFeedReader, LakeStreamReader
from penstock.spark.lake.table import open_table
from penstock.spark.options import OptionError
from penstock.spark.running.worker import filters_are_offered


class LakeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock_lake"

    def schema(self) -> StructType:
        options = lake_options(self.options)
        found = spark_schema(open_table(options.path, options.storage, options.version))
        return StructType([*found.fields, *CHANGE_COLUMNS]) if options.change_feed else found

    def reader(self, schema: StructType) -> DataSourceReader:
        options = lake_options(self.options)
        if options.change_feed:
            raise OptionError("readChangeFeed", "is for streaming reads")
        return (FilteringLakeReader if options.push_down and filters_are_offered() else LakeReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = lake_options(self.options)
        if options.version is not None:
            raise OptionError("version", "is for batch reads; give startingVersion")
        return (ChangeFeedReader if options.change_feed else LakeStreamReader)(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return LakeWriter(lake_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        if overwrite:
            raise OptionError("outputMode", "only append is possible")
        return LakeStreamWriter(lake_options(self.options), schema)
