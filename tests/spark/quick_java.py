"""A Java for the Sparks of the tests, which live for seconds.

No thorough compiling: a run of a pipeline takes half of the processor time without it. And most classes come ready from
an archive that one process of the tests makes for all: that halves the time to start once more.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from penstock.spark.java import java_home
from tests.system.serving import environment

FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_SCRIPT = """#!/bin/sh
exec "{java}" {flags} "$@"
"""

# As much of Spark as the tests have in common; its classes are archived when Java ends.
_LIFE = """
import sys
from penstock.spark.session import session
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


def home(kept: Path, own: Path) -> Path:
    """A Java home whose temporary files are in a folder of this test process; the archive is kept for the next."""
    java = java_home() / "bin" / "java"
    flags = [*FLAGS, f"-Djava.io.tmpdir={own}"]
    if (archive := _archive(kept, java)) is not None:
        # A Java with other classes finds that the archive is not for it, and would say so.
        flags += [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
    script = own / "java" / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(_SCRIPT.format(java=java, flags=" ".join(flags)))
    script.chmod(0o755)
    return own / "java"


def _archive(kept: Path, java: Path) -> Path | None:
    """Made by whoever comes first. None when this Java cannot make one."""
    of = f"{java} {java.stat().st_mtime_ns} {sys.prefix} {pyspark.__version__}"
    archive = kept / f"{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
        if not archive.exists():
            archive.touch()
    return archive if archive.stat().st_size else None


def _make(archive: Path) -> None:
    options = " ".join([*FLAGS, f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"])
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-c", _LIFE, options, work]
        subprocess.run(command, env=environment(), cwd=work, capture_output=True, timeout=300, check=False)
