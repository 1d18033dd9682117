"""Reads a table of the lake in Python tasks, for object stores that Spark has no jar for.

The driver chooses the files once, so that all tasks read one version of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as parquet
from deltalake import DeltaTable
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from penstock.spark.lake.options import LakeOptions
from penstock.spark.lake.schemas import arrow_schema
from penstock.spark.lake.storage import filesystem
from penstock.spark.lake.table import open_table

PIECE_BYTES = 134_217_728
"""Approximate amount of data per task: small files share a task."""
BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class TableFile:
    path: str
    size: int
    values: dict[str, Any]


@dataclass
class Piece(InputPartition):
    files: list[TableFile]


class LakeReader(DataSourceReader):
    def __init__(self, options: LakeOptions, schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        self._tests: list[Callable[[TableFile], bool]] = []

    def partitions(self) -> list[InputPartition]:
        table = open_table(self._options.path, self._options.storage, self._options.version)
        kept = [each for each in table_files(table) if all(test(each) for test in self._tests)]
        return list(pieces(kept))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        place = filesystem(self._options.path, self._options.storage)
        for each in partition.files:
            with place.open_input_file(each.path) as stream:
                yield from self._rows(parquet.ParquetFile(stream), each)

    def _rows(self, opened: parquet.ParquetFile, found: TableFile) -> Iterator[pa.RecordBatch]:
        stored = [name for name in self._schema.names if name in opened.schema_arrow.names and name not in found.values]
        for batch in opened.iter_batches(BATCH_ROWS, columns=stored):
            columns = [self._column(each, batch, found) for each in self._schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, wanted: pa.Field, batch: pa.RecordBatch, found: TableFile) -> pa.Array:
        if wanted.name in batch.schema.names:
            return batch.column(wanted.name).cast(wanted.type)
        # A partition value; or null, in a file that is older than the column.
        return pa.repeat(pa.scalar(found.values.get(wanted.name), wanted.type), batch.num_rows)


class FilteringLakeReader(LakeReader):
    """Skips files by partition values. A class of its own: Spark fails reads of one with this method by default."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        for offered in filters:
            column: tuple[str, ...] = getattr(offered, "attribute", ())
            if len(column) == 1 and (test := _test(offered)) is not None:
                self._tests.append(_on_partition(column[0], test))
            yield offered


def table_files(table: DeltaTable) -> list[TableFile]:
    """The files of a version, with their partition values from the log."""
    actions = pa.table(table.get_add_actions(flatten=True))
    names = table.metadata().partition_columns
    columns = [actions.column(f"partition.{name}").to_pylist() for name in names]
    values = zip(*columns, strict=True) if names else [()] * actions.num_rows
    paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
    return [
        TableFile(unquote(path), size, dict(zip(names, found, strict=True)))
        for path, size, found in zip(paths, sizes, values, strict=True)
    ]


def pieces(files: Iterable[TableFile]) -> Iterator[Piece]:
    """The files, grouped for tasks; one empty piece when there are none."""
    piece = Piece([])
    filled = 0
    for each in files:
        if piece.files and filled + each.size > PIECE_BYTES:
            yield piece
            piece, filled = Piece([]), 0
        piece.files.append(each)
        filled += each.size
    yield piece


def _on_partition(name: str, test: Callable[[Any], bool]) -> Callable[[TableFile], bool]:
    return lambda found: name not in found.values or test(found.values[name])


def _test(offered: Filter) -> Callable[[Any], bool] | None:
    """A test of a partition value; None for other filters."""
    match offered:
        case EqualTo(_, value):
            return lambda found: found is not None and found == value
        case EqualNullSafe(_, value):
            return lambda found: bool(found == value)
        case In(_, values):
            return lambda found: found is not None and found in values
        case IsNull(_):
            return lambda found: found is None
        case IsNotNull(_):
            return lambda found: found is not None
        case GreaterThan(_, value):
            return lambda found: found is not None and found > value
        case GreaterThanOrEqual(_, value):
            return lambda found: found is not None and found >= value
        case LessThan(_, value):
            return lambda found: found is not None and found < value
        case LessThanOrEqual(_, value):
            return lambda found: found is not None and found <= value
    return None
