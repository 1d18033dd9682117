"""Plain Parquet instead of Delta: a folder of files, for readers that know nothing else.

There is no log, so a reader takes whatever lies in the folder. Tasks write beside it and the driver moves the files in,
under names made of the query and the batch: a batch that comes again replaces its own files. That is as near to once
as a folder comes. While files are being moved, or after a kill in the midst of it, a reader sees part of a batch; and
if the batch comes again cut into fewer tasks than before, files of the first time stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from penstock.spark.lake.files import AddedFile
from penstock.spark.lake.storage import Storage, filesystem

STAGING = "_staging/"
"""Spark and pyarrow leave out names that begin with an underscore."""


def staging() -> str:
    return f"{STAGING}{uuid4().hex}/"


def move_in(path: str, storage: Storage, tasks: Sequence[Sequence[AddedFile]], app: str | None, version: int) -> None:
    place = filesystem(path, storage)
    batch = f"{_plain(app)}-{version:08d}" if app is not None else uuid4().hex
    for task, files in enumerate(tasks):
        for number, each in enumerate(files):
            _, _, final = each.path.removeprefix(STAGING).partition("/")
            folder = final.rpartition("/")[0]
            name = f"part-{batch}-{task:05d}-{number:03d}.zstd.parquet"
            if folder:
                place.create_dir(folder, recursive=True)
            place.move(each.path, f"{folder}/{name}" if folder else name)
    # Another query may be staging its files there; then it stays.
    for attempt in {each.path.split("/")[1] for files in tasks for each in files}:
        with suppress(OSError):
            place.delete_dir(f"{STAGING}{attempt}")


def _plain(app: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "_", app)
