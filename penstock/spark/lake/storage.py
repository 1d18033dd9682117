"""Where a table lies: a folder, or a place in an object store. Both are reached through the same small interface."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs as arrow_fs
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from penstock.spark.lake.errors import LakeError

Storage = Mapping[str, str]
"""Options of the object store, as deltalake names them; `env:NAME` stands for a value from the environment."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_QUERY = re.compile(r"\?\S+")
"""Of an address: some stores take a signature there."""
_CODE = re.compile(r"<Code>([^<]*)</Code>")


def is_folder(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def folder(path: str) -> str:
    """A folder as deltalake and Spark both take it; an address of an object store stays as it is."""
    if not is_folder(path):
        return path.rstrip("/")
    return str(Path(path.removeprefix("file://")).absolute())


def below(root: str, *parts: str) -> str:
    return "/".join([root.rstrip("/"), *(part.strip("/") for part in parts)])


def resolved(storage: Storage | None) -> dict[str, str]:
    """As deltalake is told. Secrets are looked up where they are used: so they are in no plan and no log."""
    found = dict(storage or {})
    for name, value in found.items():
        if value.startswith("env:"):
            variable = value.removeprefix("env:")
            if not os.environ.get(variable):
                raise LakeError(f"the environment variable {variable}, which holds {name} of the store, is not set")
            found[name] = os.environ[variable]
    return found


def filesystem(path: str, storage: Storage) -> arrow_fs.FileSystem:
    """The files of a table by names relative to it. A file appears when it is closed, whole or not at all."""
    return arrow_fs.PyFileSystem(DeltaStorageHandler(folder(path), resolved(storage)))


@contextmanager
def reaching(path: str) -> Iterator[None]:
    """An object store that cannot be reached, or does not let us in, says so over many lines: one is made of them."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (OSError, DeltaError) as error:
        if is_folder(path):
            raise
        raise LakeError(f"{path} cannot be reached: {_in_one_line(str(error))}") from None


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


def _in_one_line(text: str) -> str:
    head, _, answer = _COLOURS.sub("", text).partition("<?xml")
    parts = [_QUERY.sub("", line.strip().removeprefix("↳").strip()) for line in head.splitlines()]
    code = _CODE.search(answer)
    return ": ".join([*filter(None, parts), *([code[1]] if code else [])])
