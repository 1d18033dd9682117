"""Locations of tables: folders, and addresses in object stores, behind one small interface."""

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
"""Query string of a URL, which may hold a signature."""
_CODE = re.compile(r"<Code>([^<]*)</Code>")


def is_folder(path: str) -> bool:
    return "://" not in path or path.startswith("file:")


def folder(path: str) -> str:
    """An absolute path that deltalake and Spark accept; an address of an object store is unchanged."""
    if not is_folder(path):
        return path.rstrip("/")
    return str(Path(without_scheme(path)).absolute())


def without_scheme(path: str) -> str:
    """Spark's catalog writes `file:/folder`, others write `file:///folder`."""
    return path.removeprefix("file://").removeprefix("file:")


def below(root: str, *parts: str) -> str:
    return "/".join([root.rstrip("/"), *(part.strip("/") for part in parts)])


def resolved(storage: Storage | None) -> dict[str, str]:
    """The options for deltalake. Secrets are resolved where they are used, so no plan and no log has them."""
    found = dict(storage or {})
    for name, value in found.items():
        if value.startswith("env:"):
            variable = value.removeprefix("env:")
            if not os.environ.get(variable):
                raise LakeError(f"the environment variable {variable}, which holds {name} of the store, is not set")
            found[name] = os.environ[variable]
    return found


def filesystem(path: str, storage: Storage) -> arrow_fs.FileSystem:
    """The files of a table, by relative names. A file appears when it is closed, completely or not at all."""
    return arrow_fs.PyFileSystem(DeltaStorageHandler(folder(path), resolved(storage)))


@contextmanager
def store_errors(path: str) -> Iterator[None]:
    """Turn the long errors of an object store that is unreachable or denies access into one line."""
    try:
        yield
    except TableNotFoundError:
        raise
    except (OSError, DeltaError) as error:
        if is_folder(path):
            raise
        raise LakeError(f"{path} cannot be reached: {_in_one_line(str(error))}") from None


def make(path: str) -> None:
    """Create the folder; an object store has no folders."""
    if is_folder(path):
        Path(folder(path)).mkdir(parents=True, exist_ok=True)


def remove(files: arrow_fs.FileSystem, names: Iterable[str]) -> None:
    """Delete files that belong to no table. What cannot be deleted is left to `vacuum`."""
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
