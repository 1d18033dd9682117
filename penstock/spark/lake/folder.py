"""Plain Parquet instead of Delta: a folder of files, for readers that do not know Delta.

There is no log, so a reader takes all files in the folder. Tasks write to a staging folder, and the driver moves the
files, under names made of query and batch: a repeated batch replaces its own files. This is not exactly once: while
files are moved, or after a kill in between, a reader sees part of a batch; and a batch that is repeated with fewer
tasks leaves files of its first attempt.

Files of killed tasks stay in the staging folder for a day; then the next batch removes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pyarrow.fs as arrow_fs

from penstock.spark.lake import storage as storages
from penstock.spark.lake.files import AddedFile
from penstock.spark.lake.storage import Storage
from penstock.spark.options import OptionError

STAGING = "_staging"
"""Next to the table's folder, not in it: some readers take all files below a folder, whatever their names."""
SETTLED = timedelta(days=1)
"""Older files belong to no batch any more."""


class Folder:
    """The folder of a table, and its staging folder."""

    def __init__(self, path: str, storage: Storage) -> None:
        parent, _, self._name = storages.folder(path).rpartition("/")
        if not self._name or parent.endswith(":/"):
            raise OptionError("tableFormat", f"plain Parquet needs a folder of its own, not the root {path}")
        storages.make(path)
        self.files = storages.filesystem(parent or "/", storage)
        self._staging = f"{STAGING}/{self._name}/"

    def staging(self) -> str:
        """Folder for an attempt of a task."""
        return f"{self._staging}{uuid4().hex}/"

    def move_in(self, tasks: Sequence[Sequence[AddedFile]], app: str | None, version: int) -> None:
        batch = f"{_plain(app)}-{version:08d}" if app is not None else uuid4().hex
        for task, added in enumerate(tasks):
            for number, each in enumerate(added):
                _, _, final = each.path.removeprefix(self._staging).partition("/")
                folder = f"{self._name}/{final}".rpartition("/")[0]
                self.files.create_dir(folder, recursive=True)
                self.files.move(each.path, f"{folder}/part-{batch}-{task:05d}-{number:03d}.zstd.parquet")
        self._remove({self._attempt(each.path) for added in tasks for each in added})
        self._remove(self._abandoned())

    def _abandoned(self) -> set[str]:
        selector = arrow_fs.FileSelector(self._staging.rstrip("/"), allow_not_found=True, recursive=True)
        found = [each for each in self.files.get_file_info(selector) if each.is_file]
        until = datetime.now(UTC) - SETTLED
        young = {self._attempt(each.path) for each in found if each.mtime is None or each.mtime > until}
        return {self._attempt(each.path) for each in found} - young

    def _attempt(self, path: str) -> str:
        return path.removeprefix(self._staging).partition("/")[0]

    def _remove(self, attempts: Iterable[str]) -> None:
        for attempt in attempts:
            with suppress(OSError):
                self.files.delete_dir(f"{self._staging}{attempt}")


def _plain(app: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "_", app)
