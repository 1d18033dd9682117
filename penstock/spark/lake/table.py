"""A Delta table: whether it exists, which batch an application wrote last, and the commit of new files.

Lock-free: a commit creates the next entry of the log, which only one writer can do. Others read the table again and
retry. A table records the last version of each application, so a repeated version adds nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions

from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.files import AddedFile
from penstock.spark.lake.schemas import missing
from penstock.spark.lake.storage import Storage, folder, resolved, store_errors

TRIES = 20
"""Attempts of a commit when other writers commit first."""


def exists(path: str, storage: Storage | None = None) -> bool:
    with store_errors(path):
        return DeltaTable.is_deltatable(folder(path), resolved(storage))


def open_table(path: str, storage: Storage | None = None, version: int | None = None) -> DeltaTable:
    try:
        with store_errors(path):
            return DeltaTable(folder(path), version=version, storage_options=resolved(storage))
    except TableNotFoundError:
        raise LakeError(f"there is no table at {path}") from None


def version(path: str, app: str, storage: Storage | None = None) -> int | None:
    """The last version that an application wrote; None when it has written nothing."""
    return open_table(path, storage).transaction_version(app) if exists(path, storage) else None


def properties(
    app: str | None, app_version: int | None, retries: int | None = None, marks: Mapping[str, int] | None = None
) -> CommitProperties:
    done = dict(marks or {})
    if app is not None and app_version is not None:
        done[app] = app_version
    known = [Transaction(name, version) for name, version in done.items()]
    return CommitProperties(app_transactions=known or None, max_commit_retries=retries)


def is_done(table: DeltaTable, app: str | None, app_version: int | None) -> bool:
    if app is None or app_version is None:
        return False
    last = table.transaction_version(app)
    return last is not None and last >= app_version


class Commit:
    """Adds new files to a table, once for each `app` and `app_version`."""

    def __init__(
        self,
        path: str,
        storage: Storage,
        schema: Schema,
        *,
        partition_by: Sequence[str] = (),
        app: str | None = None,
        app_version: int | None = None,
        merge_schema: bool = False,
        overwrite: bool = False,
    ) -> None:
        self._path = folder(path)
        self._storage = dict(storage)
        self._schema = schema
        self._partition_by = list(partition_by)
        self._app = app
        self._app_version = app_version
        self._merge_schema = merge_schema
        self._overwrite = overwrite

    def add(self, files: Sequence[AddedFile]) -> bool:
        """Whether the files were added; False when the table has this version already. Retries after a lost race."""
        lost: DeltaError
        for attempt in range(TRIES):
            try:
                return self._try(files)
            except CommitFailedError as error:
                lost = error
            except DeltaError as error:
                if "already exists" not in str(error):
                    raise
                lost = error
            time.sleep(random.uniform(0, min(0.05 * 2**attempt, 2.0)))
        raise LakeError(f"{self._path}: {TRIES} commits lost against other writers; the last: {lost}")

    def _try(self, files: Sequence[AddedFile]) -> bool:
        actions = [
            AddAction(each.path, each.size, each.values, each.written_at_ms, True, each.statistics) for each in files
        ]
        if not exists(self._path, self._storage):
            # Without retries: deltalake would repeat a lost creation after the winner's, without checking it.
            first = properties(self._app, self._app_version, retries=0)
            create_table_with_add_actions(
                self._path, self._schema, actions, partition_by=self._partition_by,
                storage_options=resolved(self._storage), commit_properties=first,
            )  # fmt: skip
            return True
        table = open_table(self._path, self._storage)
        if is_done(table, self._app, self._app_version):
            return False
        self._evolve(table)
        if not actions and not self._overwrite:
            # An empty batch is empty again when it is repeated, so it need not be recorded.
            return True
        mode = "overwrite" if self._overwrite else "append"
        done = properties(self._app, self._app_version)
        table.create_write_transaction([*actions], mode, table.schema(), self._partition_by, commit_properties=done)
        return True

    def _evolve(self, table: DeltaTable) -> None:
        columns = table.metadata().partition_columns
        if columns != self._partition_by:
            raise LakeError(f"{self._path} is partitioned by {columns}, not {self._partition_by}")
        found = missing(table, self._schema)
        if not found:
            return
        if not self._merge_schema:
            names = ", ".join(each.name for each in found)
            raise LakeError(f"{self._path} has no column {names}; option mergeSchema adds what is new")
        table.alter.add_columns(list(found))
        table.update_incremental()
