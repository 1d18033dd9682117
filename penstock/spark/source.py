"""`format("penstock")`: the streams and tables of Penstock for Spark, to read and to write."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from penstock.spark import events
from penstock.spark.archive_reader import ArchiveStreamReader
from penstock.spark.batch_reader import EventsReader, FilteringEventsReader, FilteringTableReader, TableReader
from penstock.spark.columns import Column, chosen, struct
from penstock.spark.options import OptionError, ReadOptions, read_options, write_options
from penstock.spark.stream_reader import EventsStreamReader
from penstock.spark.tables import TABLES
from penstock.spark.worker import spare_imports
from penstock.spark.writer import BatchWriter, StreamWriter


class PenstockSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        spare_imports()
        return struct(_columns(read_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        spare_imports()
        options = read_options(self.options, streaming=False)
        columns = chosen(_all_columns(options), schema.names)
        if options.table == "events":
            return (FilteringEventsReader if options.push_down else EventsReader)(options, columns)
        return (FilteringTableReader if options.push_down else TableReader)(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = read_options(self.options, streaming=True)
        columns = chosen(_all_columns(options), schema.names)
        return (ArchiveStreamReader if options.table == "archive" else EventsStreamReader)(options, columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionError("mode", "what was sent cannot be overwritten; use append")
        spare_imports()
        return BatchWriter(write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        if overwrite:
            raise OptionError("outputMode", "what was sent cannot be overwritten; use append")
        return StreamWriter(write_options(self.options), schema)


def _all_columns(options: ReadOptions) -> list[Column]:
    if options.table != "events":
        return list(TABLES[options.table].columns)
    return events.columns(binary=options.binary, headers=options.headers)


def _columns(options: ReadOptions) -> list[Column]:
    known = _all_columns(options)
    return chosen(known, options.columns) if options.columns else known
