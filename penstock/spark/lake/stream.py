"""Reads a table of the lake as a stream, by its log: first the files that are there, then those that versions add.

The offset is a version and how many of its files were read, so a large version is split. A version that only
rearranges rows, as compaction does, is passed over. One that removes rows is an error, since a stream of rows cannot
take any back: skip such versions, or read the change feed of a table that has one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.options import LakeOptions
from penstock.spark.lake.reader import LakeReader, TableFile, pieces, table_files
from penstock.spark.lake.schemas import arrow_schema, spark_schema
from penstock.spark.lake.storage import filesystem, store_errors
from penstock.spark.lake.table import open_table

FILES_PER_TRIGGER = 1000
CHANGE_COLUMNS = (
    StructField("_change_type", StringType()),
    StructField("_commit_version", LongType()),
    StructField("_commit_timestamp", TimestampType()),
)
"""What a change feed adds to the columns of its table."""
_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class _Position:
    """Everything before `version` was read, and the first files of that version."""

    version: int
    first: int
    """Version that the stream began with. Spark records only the end of its first batch."""
    files: int = 0
    snapshot: bool = False
    """Whether the files are those of the whole table at that version, as at the start of a stream."""

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> _Position:
        return cls(offset["version"], offset["first"], offset["files"], offset["snapshot"])

    def offset(self) -> dict[str, Any]:
        return {"files": self.files, "first": self.first, "snapshot": self.snapshot, "version": self.version}

    def next(self) -> _Position:
        return _Position(self.version + 1, self.first)

    def begun(self, end: _Position) -> _Position:
        """The start of a batch with this end: the first batch may be repeated when the table has newer versions."""
        is_initial = self.version == self.first and self.files == 0
        return _Position(end.first, end.first, 0, self.snapshot) if is_initial else self


@dataclass
class Changes(InputPartition):
    """Versions whose changes one task reads."""

    first: int
    last: int


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: LakeOptions, schema: StructType) -> None:
        self._options = options
        self._rows = LakeReader(options, schema)
        there = spark_schema(open_table(options.path, options.storage)).names
        self._known = {*schema.names, *there}
        self._table: DeltaTable | None = None
        self._target: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        starting = self._options.starting_version
        if starting is None:
            return self._beginning(self._newest()).offset()
        version = self._newest() + 1 if starting == "latest" else int(starting)
        return _Position(version, version).offset()

    def _beginning(self, newest: int) -> _Position:
        return _Position(newest, newest, snapshot=True)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._newest()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return _Position(self._newest() + 1, 0).offset()

    def commit(self, end: dict[str, Any]) -> None:
        pass

    def stop(self) -> None:
        pass

    def _until(self) -> int:
        return self._newest() if self._target is None else self._target

    def _newest(self) -> int:
        with store_errors(self._options.path):
            if self._table is None:
                self._table = open_table(self._options.path, self._options.storage)
            else:
                self._table.update_incremental()
        return self._table.version()

    def _log(self, version: int) -> list[dict[str, Any]]:
        """The actions of one version."""
        name = f"_delta_log/{version:020d}.json"
        try:
            with filesystem(self._options.path, self._options.storage).open_input_file(name) as entry:
                text = entry.read().decode()
        except FileNotFoundError:
            raise LakeError(
                f"{self._options.path}: version {version} is no longer in the log of the table, so rows may be lost."
                " Start with a new checkpoint, and vacuum and compact the table less often than the query runs"
            ) from None
        return [json.loads(line) for line in text.splitlines() if line.strip()]


class LakeStreamReader(_StreamReader):
    """New rows only."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(self._options.max_files or FILES_PER_TRIGGER)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        position, until = _Position.of(start), self._until()
        while position.version <= until and (most is None or most > 0):
            there = len(self._files(position))
            taken = there - position.files if most is None else min(there - position.files, most)
            most = None if most is None else most - taken
            if position.files + taken == there:
                position = position.next()
            else:
                position = replace(position, files=position.files + taken)
        # Versions without new rows are passed over with the next batch, to make none that is empty.
        return position.offset() if self._between(_Position.of(start), position) else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        until = _Position.of(end)
        found = self._between(_Position.of(start).begun(until), until)
        return [*pieces(found)] if found else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows.read(partition)

    def _between(self, start: _Position, end: _Position) -> list[TableFile]:
        found: list[TableFile] = []
        position = start
        while position.version < end.version:
            found += self._files(position)[position.files :]
            position = position.next()
        if end.files > 0:
            found += self._files(end)[position.files : end.files]
        return found

    def _files(self, position: _Position) -> list[TableFile]:
        if position.snapshot:
            table = open_table(self._options.path, self._options.storage, position.version)
            return sorted(table_files(table), key=lambda each: each.path)
        return self._added(position.version)

    def _added(self, version: int) -> list[TableFile]:
        actions = self._log(version)
        self._check_columns(version, actions)
        if any("remove" in each and each["remove"]["dataChange"] for each in actions):
            if self._options.skip_changes:
                return []
            raise LakeError(
                f"{self._options.path}: version {version} removes or changes rows. Set skipChangeCommits to true to"
                " pass over such versions, or read the change feed with readChangeFeed"
            )
        types = arrow_schema(spark_schema(open_table(self._options.path, self._options.storage)))
        return [
            TableFile(unquote(add["path"]), add["size"], _typed(add.get("partitionValues") or {}, types))
            for add in (each["add"] for each in actions if "add" in each)
            if add["dataChange"]
        ]

    def _check_columns(self, version: int, actions: list[dict[str, Any]]) -> None:
        for each in actions:
            if "metaData" not in each:
                continue
            fields = json.loads(each["metaData"]["schemaString"])["fields"]
            if added := [field["name"] for field in fields if field["name"] not in self._known]:
                raise LakeError(
                    f"{self._options.path}: version {version} has the new column {', '.join(added)}: start the query"
                    " again to read it"
                )


class ChangeFeedReader(_StreamReader):
    """Inserted, updated and deleted rows, of a table with `delta.enableChangeDataFeed`."""

    def __init__(self, options: LakeOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._schema = arrow_schema(schema)

    def _beginning(self, newest: int) -> _Position:
        return _Position(0, 0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        until = self._until()
        assert self._table is not None
        if self._table.metadata().configuration.get(_FEED) != "true":
            raise LakeError(f"{self._options.path} has no change feed: set its property {_FEED} to true")
        position = _Position.of(start)
        return _Position(until + 1, position.first).offset() if position.version <= until else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        until = _Position.of(end)
        return [Changes(_Position.of(start).begun(until).version, until.version - 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Changes)
        table = open_table(self._options.path, self._options.storage)
        for batch in pa.RecordBatchReader.from_stream(table.load_cdf(partition.first, partition.last)):
            columns = [batch.column(field.name).cast(field.type) for field in self._schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _typed(values: Mapping[str, str | None], schema: pa.Schema) -> dict[str, Any]:
    """Partition values, which the log has as texts."""
    return {
        name: None if text is None else pa.array([text]).cast(schema.field(name).type)[0].as_py()
        for name, text in values.items()
    }
