"""A Spark session that finds Java, Python and this package's data source by itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from penstock.spark.running.environment import environment
from penstock.spark.running.java import ignoring_signals, java_home
from penstock.spark.running.python import python_program
from penstock.spark.running.scratch import scratch_folder

LOCAL_MASTER = "local[*,4]"
"""All cores of this machine. A task is retried three times, as on a cluster, for example when it lost its database."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Needed for filter push-down: Spark fails reads of a source that offers it otherwise.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Spark's default, and the variable that holds the database URL with its password.
    "spark.redaction.regex": "(?i)secret|password|token|(access|account|sas)[._]?key|credential|database_url",
}
LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""For a master on this machine. Executors on other machines must be able to reach the driver."""


def session(
    name: str = "penstock",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one on `master` or at the Spark Connect server `remote`.

    Without either, it runs on the cluster that `spark-submit` submitted this process to, or on this machine.
    """
    builder = SparkSession.builder.appName(name)
    chosen = dict(DEFAULTS)
    if remote is not None:
        builder = builder.remote(remote)
        # The other settings belong to the server.
        chosen = {key: value for key, value in DEFAULTS.items() if key.startswith("spark.sql.")}
    elif master is not None or not _submitted():
        master = master or LOCAL_MASTER
        builder = builder.master(master)
        _prepare(master)
        if master.startswith("local"):
            chosen |= LOOPBACK
    chosen |= settings or {}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    if master is not None:
        _start_java({"spark.app.name": name, "spark.master": master, **_temporary_files(master, chosen), **chosen})
    return builder.getOrCreate()


def _submitted() -> bool:
    """Whether `spark-submit` started this process: then Java is running, and knows its master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _prepare(master: str) -> None:
    """Set the variables that Spark's launcher and local executors read."""
    # PYSPARK_DRIVER_PYTHON is left alone: if set, Spark runs tasks of automatically registered formats with it.
    is_local = master.startswith("local")
    if os.environ.get("PYSPARK_PYTHON") in (None, python_program()):
        # An earlier session of this process may have been on this machine; others do not have its script.
        os.environ["PYSPARK_PYTHON"] = python_program() if is_local else sys.executable
    os.environ["JAVA_HOME"] = str(java_home())
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _temporary_files(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Put temporary files where the next run finds what a killed one has left. Clusters have their own folders."""
    if not master.startswith("local") or "SPARK_LOCAL_DIRS" in os.environ or (folder := scratch_folder()) is None:
        return {}
    found = {"spark.local.dir": str(folder)}
    if "spark.driver.extraJavaOptions" not in settings:
        found["spark.driver.extraJavaOptions"] = f"-Djava.io.tmpdir={folder}"
    return found


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java in its own process group, ignoring signals: stopping a run cleanly needs Java.

    Java ends with this process, because the pipe to its standard input closes.
    """
    if SparkContext._gateway is None and not _submitted() and not is_remote():
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        with _interrupts_wait(), environment({"JAVA_HOME": str(ignoring_signals(Path(os.environ["JAVA_HOME"])))}):
            gateway = launch_gateway(conf, {"process_group": 0})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until Java has started: before, Java does not watch the pipe that tells it to end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
