"""Changes rows of a table: by Delta's MERGE, once per version of an application, or by replacing partitions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.table import TableMerger

from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.storage import Storage, folder, resolved
from penstock.spark.lake.table import exists, is_done, open_table, properties

TRIES = 5
"""Attempts when other writers commit first. Each repeats the whole merge, so there are fewer than for an append."""


def merge(
    path: str,
    source: pa.Table,
    predicate: str,
    clauses: Callable[[TableMerger], TableMerger],
    *,
    app: str | None = None,
    version: int | None = None,
    marks: Mapping[str, int] | None = None,
    merge_schema: bool = False,
    storage: Storage | None = None,
) -> Mapping[str, Any] | None:
    """Merge rows, called `source`, into a table, called `target`; None when this version was merged before.

    `clauses` adds the actions for matching and other rows, such as
    `lambda rows: rows.when_matched_update_all().when_not_matched_insert_all()`. `marks` are versions of other
    applications that the commit records in the table.
    """
    for attempt in range(TRIES):
        table = open_table(path, storage)
        if is_done(table, app, version):
            return None
        # With the whole source in memory, delta-rs skips files of the target by its bounds.
        merger = table.merge(
            source, predicate, source_alias="source", target_alias="target", merge_schema=merge_schema,
            streamed_exec=False, commit_properties=properties(app, version, marks=marks),
        )  # fmt: skip
        try:
            return clauses(merger).execute()
        except CommitFailedError as error:
            lost = error
        time.sleep(random.uniform(0, 0.2 * 2**attempt))
    raise LakeError(f"{path}: {TRIES} merges lost against other writers; the last: {lost}")


def replace(
    path: str,
    rows: pa.Table,
    predicate: str,
    *,
    partition_by: Sequence[str],
    app: str | None = None,
    version: int | None = None,
    storage: Storage | None = None,
) -> None:
    """Replace the rows that match the predicate. Repeating it has no effect for readers."""
    write_deltalake(
        folder(path), rows, mode="overwrite",
        # A new table has nothing to replace.
        predicate=predicate if exists(path, storage) else None,
        partition_by=list(partition_by), storage_options=resolved(storage) or None,
        commit_properties=properties(app, version),
    )  # fmt: skip
