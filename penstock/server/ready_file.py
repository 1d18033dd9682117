"""A file that tells scripts where the server is, as long as it serves."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.config import Settings
from penstock.errors import Invalid, Unavailable


@contextmanager
def ready_file(settings: Settings) -> Iterator[Callable[[str], None]]:
    """Gives a function that writes the URL to the file of the settings; the file is removed at the end.

    A file that a killed server left behind is removed first: it must not tell that this one is ready.
    """
    path = settings.ready_file

    def write(url: str) -> None:
        if path is None:
            return
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            temporary.write_text(f"{url}\n")
            temporary.rename(path)
        except OSError as error:
            raise Unavailable(f"cannot write {path}: {error.strerror}") from None

    if path is not None:
        # Removing /dev/null or a folder would harm more than this server.
        if path.exists() and not path.is_file():
            raise Invalid(f"the ready file {path} exists, and is not a regular file", field="ready_file")
        path.unlink(missing_ok=True)
    try:
        yield write
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
