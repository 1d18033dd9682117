"""Upkeep of tables: small files into large ones, and files that no table needs any more removed. Needs no Spark."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.fs as arrow_fs
from deltalake import WriterProperties
from deltalake.exceptions import TableNotFoundError

from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.storage import Storage, below, filesystem, folder, reaching
from penstock.spark.lake.table import opened

FILE_BYTES = 134_217_728
RETENTION = timedelta(days=7)
DEPTH = 4
"""How far below the root tables are looked for."""


@dataclass(frozen=True, slots=True)
class Compacted:
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class TableSummary:
    path: str
    name: str
    """The path from the lake's root on; empty for a table that is the root itself."""
    version: int
    files: int
    rows: int
    bytes: int
    partition_by: tuple[str, ...]
    partitions: int


def compact(path: str, *, file_bytes: int = FILE_BYTES, storage: Storage | None = None) -> Compacted:
    """Small files of each partition become larger ones; the rows stay as they are, and appends may go on meanwhile."""
    table = opened(path, storage)
    done = table.optimize.compact(
        target_size=file_bytes, max_concurrent_tasks=2, writer_properties=WriterProperties(compression="ZSTD")
    )
    # A reader starts from the last checkpoint of the log instead of its beginning; older entries may go.
    opened(path, storage).create_checkpoint()
    opened(path, storage).cleanup_metadata()
    return Compacted(int(done["numFilesAdded"]), int(done["numFilesRemoved"]))


def vacuum(
    path: str, *, retention: timedelta = RETENTION, dry_run: bool = False, storage: Storage | None = None
) -> list[str]:
    """Remove files that the table does not need, when they are older than `retention`; gives their names.

    Those are files that were replaced, and those of tasks and drivers that were killed. A younger file may belong to a
    batch that is just being written, or to a reader that is still at it. Retention is in whole hours.
    """
    hours = math.ceil(retention.total_seconds() / 3600)
    return opened(path, storage).vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=True)


def tables(root: str, storage: Storage | None = None) -> Iterator[TableSummary]:
    """Every table at a place or below it, by name."""
    try:
        place = filesystem(root, storage or {})
    except TableNotFoundError:
        raise LakeError(f"there is nothing at {root}") from None
    with reaching(root):
        names = list(_found(place, "", DEPTH))
    for name in names:
        yield _summary(folder(root), name, storage)


def _found(place: arrow_fs.FileSystem, name: str, depth: int) -> Iterator[str]:
    folders = [each for each in place.get_file_info(arrow_fs.FileSelector(name)) if not each.is_file]
    if any(each.base_name == "_delta_log" for each in folders):
        yield name
    elif depth > 0:
        for each in sorted(folders, key=lambda found: found.path):
            # Checkpoints of queries and the like.
            if not each.base_name.startswith(("_", ".")):
                yield from _found(place, each.path, depth - 1)


def _summary(root: str, name: str, storage: Storage | None) -> TableSummary:
    path = below(root, name) if name else root
    table = opened(path, storage)
    actions = pa.table(table.get_add_actions())
    return TableSummary(
        path=path,
        name=name,
        version=table.version(),
        files=actions.num_rows,
        rows=compute.sum(actions.column("num_records")).as_py() or 0,
        bytes=compute.sum(actions.column("size_bytes")).as_py() or 0,
        partition_by=tuple(table.metadata().partition_columns),
        partitions=len({str(each) for each in table.partitions()}),
    )
