"""A folder for the temporary files of one process and its Spark. The next run removes folders of killed processes.

A process holds a lock on its folder as long as it lives. A folder without a lock belongs to no process any more.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_LOCK = ".lock"


@cache
def scratch_folder() -> Path | None:
    """The folder of this process; None when others could write to it."""
    root = Path(tempfile.gettempdir()) / f"penstock-spark-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    status = root.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        return None
    # Under a lock, so that no process removes a folder that another has made and not locked yet.
    with _locked(root):
        _remove_abandoned(root)
        folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=root))
        # Not inherited by child processes, and released by the end of this one.
        fcntl.flock(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_abandoned(root: Path) -> None:
    for folder in root.iterdir():
        if folder.is_dir() and not _is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
