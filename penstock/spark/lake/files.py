"""The files that a task writes: one per partition, in large row groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as parquet

from penstock.spark.lake import partitions
from penstock.spark.lake.statistics import statistics
from penstock.spark.lake.storage import remove

MOST_OPEN = 64
"""Open files per task. Beyond this, the least recently used file is closed, and its partition gets another one."""
BUFFER_BYTES = 67_108_864
"""Memory that a task uses before it writes its largest row group."""
GROUP_ROWS = 262_144


@dataclass(frozen=True, slots=True)
class AddedFile:
    path: str
    """Relative to the table."""
    size: int
    values: dict[str, str | None]
    rows: int
    statistics: str
    written_at_ms: int


@dataclass
class _Open:
    path: str
    values: partitions.Values
    stream: Any
    writer: parquet.ParquetWriter
    collected: list[Any]
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0


class TaskFiles:
    def __init__(
        self,
        files: arrow_fs.FileSystem,
        schema: pa.Schema,
        partition_by: Sequence[str],
        below: str,
        task: str,
        named: Callable[[Sequence[str], partitions.Values], str] = partitions.folder_name,
    ) -> None:
        self._files = files
        self._schema = schema
        self._partition_by = tuple(partition_by)
        self._file_schema = pa.schema([each for each in schema if each.name not in self._partition_by])
        self._below = below
        self._task = task
        self._named = named
        self._open: dict[partitions.Values, _Open] = {}
        self._waiting_bytes = 0
        self._done: list[AddedFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        [fitting] = pa.Table.from_batches([batch]).cast(self._schema).combine_chunks().to_batches() or [None]
        if fitting is None:
            return
        for values, rows in partitions.split(fitting, self._partition_by):
            self._keep(values, rows)
        while self._waiting_bytes > BUFFER_BYTES:
            self._write(max(self._open.values(), key=lambda each: each.waiting_bytes))

    def close(self) -> list[AddedFile]:
        for values in list(self._open):
            self._finish(values)
        return self._done

    def discard(self) -> None:
        """Delete what was written: it belongs to no table."""
        for values in list(self._open):
            opened = self._open.pop(values)
            opened.waiting.clear()
            self._shut(opened)
            self._done.append(self._added(opened, 0))
        remove(self._files, [each.path for each in self._done])
        self._done.clear()

    def _keep(self, values: partitions.Values, rows: pa.RecordBatch) -> None:
        # Removed and added again, so that the first entry is the least recently used.
        opened = self._open.pop(values, None) or self._opened(values)
        self._open[values] = opened
        opened.waiting.append(rows)
        opened.waiting_rows += rows.num_rows
        opened.waiting_bytes += rows.nbytes
        self._waiting_bytes += rows.nbytes
        if opened.waiting_rows >= GROUP_ROWS:
            self._write(opened)

    def _opened(self, values: partitions.Values) -> _Open:
        if len(self._open) >= MOST_OPEN:
            self._finish(next(iter(self._open)))
        folder = self._below + self._named(self._partition_by, values)
        name = f"{folder}part-{self._task}-{uuid4().hex}.zstd.parquet"
        stream = self._files.open_output_stream(name)
        collected: list[Any] = []
        writer = parquet.ParquetWriter(stream, self._file_schema, compression="zstd", metadata_collector=collected)
        return _Open(name, values, stream, writer, collected)

    def _write(self, opened: _Open) -> None:
        if opened.waiting:
            opened.writer.write_table(pa.Table.from_batches(opened.waiting), row_group_size=GROUP_ROWS)
        self._waiting_bytes -= opened.waiting_bytes
        opened.waiting, opened.waiting_rows, opened.waiting_bytes = [], 0, 0

    def _finish(self, values: partitions.Values) -> None:
        opened = self._open.pop(values)
        self._write(opened)
        size = self._shut(opened)
        self._done.append(self._added(opened, size))

    def _shut(self, opened: _Open) -> int:
        opened.writer.close()
        size = int(opened.stream.tell())
        opened.stream.close()
        return size

    def _added(self, opened: _Open, size: int) -> AddedFile:
        [metadata] = opened.collected
        return AddedFile(
            path=opened.path,
            size=size,
            values=dict(zip(self._partition_by, opened.values, strict=True)),
            rows=metadata.num_rows,
            statistics=statistics(metadata),
            written_at_ms=time.time_ns() // 1_000_000,
        )
