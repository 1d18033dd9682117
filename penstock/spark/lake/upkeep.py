"""Maintenance of tables: merging small files, and deleting unused ones. Needs no Spark."""

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
from penstock.spark.lake.storage import Storage, below, filesystem, folder, store_errors
from penstock.spark.lake.table import open_table

FILE_BYTES = 134_217_728
RETENTION = timedelta(days=7)
DEPTH = 4
"""Levels below the root that are searched for tables."""


@dataclass(frozen=True, slots=True)
class Compacted:
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class TableSummary:
    path: str
    name: str
    """Path relative to the lake; empty when the table is the root itself."""
    version: int
    files: int
    rows: int
    bytes: int
    partition_by: tuple[str, ...]
    partitions: int


def compact(path: str, *, file_bytes: int = FILE_BYTES, storage: Storage | None = None) -> Compacted:
    """Merge small files of each partition. The rows stay the same, and appends may continue meanwhile."""
    table = open_table(path, storage)
    done = table.optimize.compact(
        target_size=file_bytes, max_concurrent_tasks=2, writer_properties=WriterProperties(compression="ZSTD")
    )
    # Readers start from the last checkpoint of the log, so older entries can be deleted.
    open_table(path, storage).create_checkpoint()
    open_table(path, storage).cleanup_metadata()
    return Compacted(int(done["numFilesAdded"]), int(done["numFilesRemoved"]))


def vacuum(
    path: str, *, retention: timedelta = RETENTION, dry_run: bool = False, storage: Storage | None = None
) -> list[str]:
    """Delete unused files that are older than `retention`; returns their names.

    These are replaced files, and files of killed tasks and drivers. A younger file may belong to a batch that is being
    written, or to an active reader. Retention is rounded up to whole hours.
    """
    hours = math.ceil(retention.total_seconds() / 3600)
    return open_table(path, storage).vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=True)


def tables(root: str, storage: Storage | None = None) -> Iterator[TableSummary]:
    """All tables at a path or below it, sorted by name."""
    try:
        place = filesystem(root, storage or {})
    except TableNotFoundError:
        raise LakeError(f"there is no folder {root}") from None
    with store_errors(root):
        names = list(_found(place, "", DEPTH))
    for name in names:
        yield _summary(folder(root), name, storage)


def _found(place: arrow_fs.FileSystem, name: str, depth: int) -> Iterator[str]:
    folders = [each for each in place.get_file_info(arrow_fs.FileSelector(name)) if not each.is_file]
    if any(each.base_name == "_delta_log" for each in folders):
        yield name
    elif depth > 0:
        for each in sorted(folders, key=lambda found: found.path):
            # Not checkpoints of queries and other internal folders.
            if not each.base_name.startswith(("_", ".")):
                yield from _found(place, each.path, depth - 1)


def _summary(root: str, name: str, storage: Storage | None) -> TableSummary:
    path = below(root, name) if name else root
    table = open_table(path, storage)
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
