"""Java for Spark sessions that live for seconds.

Only the quick compiler is used: a pipeline run then takes half the processor time. Most classes are loaded from a
class-data archive, if there is one: that saves 7 s of processor time at each start. To make it takes 56 s, so only runs
of slow tests do, which start Java many times; later runs use it too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from penstock.spark.running.java import java_home
from tests.system.serving import environment

FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_SCRIPT = """#!/bin/sh
exec "{java}" {flags} "$@"
"""

# The parts of Spark that most tests use; their classes are archived when Java ends.
_LIFE = """
import sys
from penstock.spark.running.session import session
spark = session("archive", master="local[2]", settings={"spark.driver.extraJavaOptions": sys.argv[1]})
rows = spark.range(10).selectExpr("id % 3 as key", "id").repartition(2).groupBy("key").count()
rows.write.parquet(sys.argv[2] + "/rows")
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
stream.writeStream.format("noop").option("checkpointLocation", sys.argv[2] + "/checkpoint").trigger(
    availableNow=True
).start().awaitTermination(60)
spark.read.parquet(sys.argv[2] + "/rows").mapInArrow(lambda batches: batches, "key bigint, count bigint").collect()
spark.stop()
"""


def home(own: Path, *, archiving: bool) -> Path:
    """A Java home whose temporary files are in a folder of this test process."""
    java = java_home() / "bin" / "java"
    flags = [*FLAGS, f"-Djava.io.tmpdir={own}"]
    if (archive := _archive(_shared(), java, archiving)) is not None:
        # Java warns about an archive that does not fit its classes.
        flags += [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
    script = own / "java" / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(_SCRIPT.format(java=java, flags=" ".join(flags)))
    script.chmod(0o755)
    return own / "java"


def _shared() -> Path:
    """A folder of this user alone, for archives that all test runs share."""
    folder = Path(tempfile.gettempdir()) / f"penstock-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise RuntimeError(f"{folder} belongs to another user, or others may write to it: remove it")
    return folder


def _archive(shared: Path, java: Path, archiving: bool) -> Path | None:
    """The archive, which the first process makes. None when there is none, or this Java cannot make one."""
    of = f"{java} {java.stat().st_mtime_ns} {sys.prefix} {pyspark.__version__}"
    archive = shared / f"{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"
    if archiving:
        with archive.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                _make(archive)
            if not archive.exists():
                archive.touch()
    return archive if archive.exists() and archive.stat().st_size else None


def _make(archive: Path) -> None:
    options = " ".join([*FLAGS, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"])
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-c", _LIFE, options, work]
        subprocess.run(command, env=environment(), cwd=work, capture_output=True, timeout=300, check=False)
