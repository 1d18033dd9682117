"""A Spark session that finds its Java, its Python and this package's data source by itself."""

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

from penstock.spark.environment import environment
from penstock.spark.java import deaf, java_home

HERE = "local[*,4]"
"""All cores of this machine. A task may fail three times, as it may on a cluster: one that lost its database does."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Filters that Spark offers are taken by the reader; without this Spark refuses to ask it.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Spark's own, and the variable that holds the address of the database with its password.
    "spark.redaction.regex": "(?i)secret|password|token|(access|account|sas)[._]?key|credential|database_url",
}
LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""For a master on this machine. A driver that serves executors on other machines must be reachable from them."""


def session(
    name: str = "penstock",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one: on `master`, at a Spark Connect `remote`, or where this process belongs.

    That is the cluster it was submitted to by `spark-submit`, or else this machine.
    """
    builder = SparkSession.builder.appName(name)
    chosen = dict(DEFAULTS)
    if remote is not None:
        builder = builder.remote(remote)
        # The rest is for whoever starts that server to decide.
        chosen = {key: value for key, value in DEFAULTS.items() if key.startswith("spark.sql.")}
    elif master is not None or not _submitted():
        master = master or HERE
        builder = builder.master(master)
        _prepare(master)
        if master.startswith("local"):
            chosen |= LOOPBACK
    chosen |= settings or {}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    if master is not None:
        _start_java({"spark.app.name": name, "spark.master": master, **chosen})
    return builder.getOrCreate()


def _submitted() -> bool:
    """Whether `spark-submit` started us: then Java runs already, and knows its master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _prepare(master: str) -> None:
    """What Spark's launcher, and the executors it starts here, take from the environment."""
    # Spark runs the tasks of a format that it found by itself with PYSPARK_DRIVER_PYTHON, if that is set: so it is not.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(java_home())
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _start_java(settings: Mapping[str, str]) -> None:
    """Apart from our process group, and deaf: a signal is ours to obey, and to end in good order needs Java.

    It does not outlive us: it ends when the pipe to its standard input does.
    """
    if SparkContext._gateway is None and not _submitted() and not is_remote():
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        with _interrupts_wait(), environment({"JAVA_HOME": str(deaf(Path(os.environ["JAVA_HOME"])))}):
            gateway = launch_gateway(conf, {"process_group": 0})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Until Java has started: it looks at the pipe that tells it to end when it has told us where it is, not before."""
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
