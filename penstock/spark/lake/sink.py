"""Writes to the lake: tasks write files, and the driver commits them with the number of the batch.

A batch that Spark repeats finds its number in the table and adds nothing; its files are deleted. Files of a killed task
or driver are in no log, so no reader sees them, and `vacuum` deletes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as arrow_fs
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from penstock.spark.lake import partitions
from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.files import AddedFile, TaskFiles
from penstock.spark.lake.folder import Folder
from penstock.spark.lake.options import LakeOptions
from penstock.spark.lake.reader import table_files
from penstock.spark.lake.schemas import arrow_schema, delta_schema
from penstock.spark.lake.storage import filesystem, is_folder, make, remove
from penstock.spark.lake.table import Commit, exists, open_table
from penstock.spark.options import OptionError


@dataclass
class Written(WriterCommitMessage):
    files: list[AddedFile]
    query: str | None
    """Only tasks know the id of their query: the writer that commits is a new object."""


class _LakeWriter:
    def __init__(self, options: LakeOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._arrow = arrow_schema(schema)
        self._partition_by = options.partition_by or _partition_columns(options, schema.names)
        partitions.check(self._arrow, self._partition_by)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        task = f"{context.partitionId():05d}" if context is not None else "00000"
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        filesystem, below = self._target()
        # Readers of plain Parquet take partition values from names that are escaped like Spark's.
        is_key = self._options.table_format == "delta" and not is_folder(self._options.path)
        named = partitions.key_name if is_key else partitions.folder_name
        files = TaskFiles(filesystem, self._arrow, self._partition_by, below, task, named)
        try:
            for batch in iterator:
                files.add(batch)
            return Written(files.close(), query)
        except BaseException:
            files.discard()
            raise

    def _target(self) -> tuple[arrow_fs.FileSystem, str]:
        """Where a task writes: into the table's folder, or into the staging folder of plain Parquet."""
        if self._options.table_format == "parquet":
            table = Folder(self._options.path, self._options.storage)
            return table.files, table.staging()
        make(self._options.path)
        return filesystem(self._options.path, self._options.storage), ""

    def _commit(self, messages: list[WriterCommitMessage | None], app: str | None, version: int | None) -> None:
        if self._options.table_format == "parquet":
            tasks = [message.files for message in messages if isinstance(message, Written)]
            Folder(self._options.path, self._options.storage).move_in(tasks, app, version or 0)
            return
        make(self._options.path)
        added = _files(messages)
        commit = Commit(
            self._options.path, self._options.storage, delta_schema(self._schema), partition_by=self._partition_by,
            app=app, app_version=version, merge_schema=self._options.merge_schema, overwrite=self._overwrites,
        )  # fmt: skip
        if not commit.add(added):
            self._remove_unnamed(added)

    def _remove_unnamed(self, files: list[AddedFile]) -> None:
        """The table has this batch already; maybe with these files, when the answer of a commit was lost."""
        named = {each.path for each in table_files(open_table(self._options.path, self._options.storage))}
        place = filesystem(self._options.path, self._options.storage)
        remove(place, [each.path for each in files if each.path not in named])

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Also called after a failed commit, which may have succeeded: Delta files are left to `vacuum`."""
        if self._options.table_format == "parquet":
            place = Folder(self._options.path, self._options.storage).files
            remove(place, [each.path for each in _files(messages)])

    _overwrites = False


class LakeWriter(_LakeWriter, DataSourceArrowWriter):
    """Writes once; with `txnAppId` and `txnVersion`, once however often it is run."""

    def __init__(self, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema)
        if overwrite and options.table_format == "parquet":
            raise OptionError("mode", "plain Parquet supports append only")
        self._overwrites = overwrite

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commit(messages, self._options.app, self._options.app_version)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class LakeStreamWriter(_LakeWriter, DataSourceStreamArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        queries = {message.query for message in messages if isinstance(message, Written)}
        self._commit(messages, next(iter(queries), None), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._abort(messages)


def _partition_columns(options: LakeOptions, names: list[str]) -> tuple[str, ...]:
    if options.table_format != "delta" or not exists(options.path, options.storage):
        return ()
    table = open_table(options.path, options.storage)
    found = tuple(table.metadata().partition_columns)
    if missing := [name for name in found if name not in names]:
        there = ", ".join(field.name for field in table.schema().fields)
        raise LakeError(
            f"{options.path} is a table of {there}, partitioned by {', '.join(found)}; these rows have no {missing[0]}"
        )
    return found


def _files(messages: list[WriterCommitMessage | None]) -> list[AddedFile]:
    return [each for message in messages if isinstance(message, Written) for each in message.files]
