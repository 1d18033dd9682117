"""The Python that Spark starts on this machine: this one, without the archives that Spark adds to its path.

Spark makes its Python processes import `pyspark` from a zip archive. It holds no compiled files, so every process
compiles all of it, which takes longer than most batches. The installed package is the same, and is compiled.
"""

from __future__ import annotations

import os
import sys

from penstock.spark.running.scripts import with_script

_WITHOUT_ARCHIVES = """#!/bin/sh
path=
IFS=:
for entry in $PYTHONPATH; do
  case "$entry" in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) path="$path${{path:+:}}$entry" ;;
  esac
done
export PYTHONPATH="$path"
exec "{python}" "$@"
"""


def python_program() -> str:
    """The program for `PYSPARK_PYTHON`."""
    if "SPARK_HOME" in os.environ:
        # Another Spark than the installed package, perhaps of another version.
        return sys.executable
    script = with_script("python", _WITHOUT_ARCHIVES.format(python=sys.executable)) / "bin" / "python"
    # The folder for temporary files may be mounted without the right to execute.
    return str(script) if os.access(script, os.X_OK) else sys.executable
