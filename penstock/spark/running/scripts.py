"""Small scripts that start a program with other options, in folders that only this user can write to."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def with_script(name: str, text: str) -> Path:
    """A folder with the script at `bin/NAME`. The first process creates it, by one atomic rename."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    home = Path(tempfile.gettempdir()) / f"penstock-{name}-{os.getuid()}-{digest}"
    script = home / "bin" / name
    if _ours(home) and script.is_file() and script.read_text() == text:
        return home
    made = Path(tempfile.mkdtemp(prefix=f"penstock-{name}-"))
    (made / "bin").mkdir()
    (made / "bin" / name).write_text(text)
    (made / "bin" / name).chmod(0o755)
    try:
        made.rename(home)
    except OSError:
        # Another process was faster; or the path belongs to another user, and this copy is used once.
        return home if _ours(home) and script.is_file() else made
    return home


def _ours(home: Path) -> bool:
    """Whether only this user can write there: the script is executed."""
    try:
        status = home.lstat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
