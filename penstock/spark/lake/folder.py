"""Plain Parquet instead of Delta: a folder of files, for readers that know nothing else.

There is no log, so a reader takes whatever lies in the folder. Tasks write beside it and the driver moves the files in,
under names made of the query and the batch: a batch that comes again replaces its own files. That is as near to once
as a folder comes. While files are being moved, or after a kill in the midst of it, a reader sees part of a batch; and
if the batch comes again cut into fewer tasks than before, files of the first time stay.

What tasks that were killed have written stays beside the folder for a day, then the next batch removes it.
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
"""In the folder that the table's own lies in: some readers of a folder take all that is below it, however named."""
SETTLED = timedelta(days=1)
"""What is older belongs to no batch any more."""


class Folder:
    """The folder of a table and what lies beside it."""

    def __init__(self, path: str, storage: Storage) -> None:
        parent, _, self._name = storages.folder(path).rpartition("/")
        if not self._name or parent.endswith(":/"):
            raise OptionError("tableFormat", f"plain Parquet needs a folder of its own, not all of {path}")
        storages.make(path)
        self.files = storages.filesystem(parent or "/", storage)
        self._staging = f"{STAGING}/{self._name}/"

    def staging(self) -> str:
        """Where an attempt of a task may write."""
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
