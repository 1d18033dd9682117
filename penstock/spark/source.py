"""`format("penstock")`: reads and writes streams and tables of Penstock."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from penstock.spark.options import OptionError, ReadOptions, read_options, write_options
from penstock.spark.reading import events
from penstock.spark.reading.archive import ArchiveStreamReader
from penstock.spark.reading.batch import EventsReader, FilteringEventsReader, FilteringTableReader, TableReader
from penstock.spark.reading.columns import Column, select_columns, struct
from penstock.spark.reading.stream import EventsStreamReader
from penstock.spark.reading.tables import TABLES
from penstock.spark.running.worker import filters_are_offered, freeze_imports
from penstock.spark.writing.writer import BatchWriter, StreamWriter


class PenstockSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        freeze_imports()
        return struct(_columns(read_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        freeze_imports()
        options = read_options(self.options, streaming=False)
        columns = select_columns(_all_columns(options), schema.names)
        filtering = options.push_down and filters_are_offered()
        if options.table == "events":
            return (FilteringEventsReader if filtering else EventsReader)(options, columns)
        return (FilteringTableReader if filtering else TableReader)(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = read_options(self.options, streaming=True)
        columns = select_columns(_all_columns(options), schema.names)
        return (ArchiveStreamReader if options.table == "archive" else EventsStreamReader)(options, columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionError("mode", "only append is possible: sent data cannot be overwritten")
        freeze_imports()
        return BatchWriter(write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        if overwrite:
            raise OptionError("outputMode", "only append is possible: sent data cannot be overwritten")
        return StreamWriter(write_options(self.options), schema)


def _all_columns(options: ReadOptions) -> list[Column]:
    if options.table != "events":
        return list(TABLES[options.table].columns)
    return events.columns(binary=options.binary, headers=options.headers)


def _columns(options: ReadOptions) -> list[Column]:
    known = _all_columns(options)
    return select_columns(known, options.columns) if options.columns else known
