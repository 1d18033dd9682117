"""Where a table lies: a folder, or a place in an object store. Both are reached through the same small interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow.fs as arrow_fs
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

Storage = Mapping[str, str]
"""Options of the object store, as deltalake names them."""


def is_folder(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def folder(path: str) -> str:
    """A folder as deltalake and Spark both take it; an address of an object store stays as it is."""
    if not is_folder(path):
        return path.rstrip("/")
    return str(Path(path.removeprefix("file://")).absolute())


def below(root: str, *parts: str) -> str:
    return "/".join([root.rstrip("/"), *(part.strip("/") for part in parts)])


def filesystem(path: str, storage: Storage) -> arrow_fs.FileSystem:
    """The files of a table by names relative to it. A file appears when it is closed, whole or not at all."""
    return arrow_fs.PyFileSystem(DeltaStorageHandler(folder(path), dict(storage)))


def make(path: str) -> None:
    """A folder must be there before files are written; an object store has none."""
    if is_folder(path):
        Path(folder(path)).mkdir(parents=True, exist_ok=True)


def remove(files: arrow_fs.FileSystem, names: Iterable[str]) -> None:
    """What cannot be removed is left to `vacuum`: it belongs to no table."""
    for name in names:
        try:
            files.delete_file(name)
        except (OSError, DeltaError):
            continue
