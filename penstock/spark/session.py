"""A Spark session that finds its Java, its Python and this package's data source by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from penstock.spark.java import java_home

HERE = "local[*,4]"
"""All cores of this machine. A task may fail three times, as it may on a cluster: one that lost its database does."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Filters that Spark offers are taken by the reader; without this Spark refuses to ask it.
    "spark.sql.python.filterPushdown.enabled": "true",
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
    for key, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _submitted() -> bool:
    """Whether `spark-submit` started us: then Java runs already, and knows its master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _prepare(master: str) -> None:
    """What Spark's launcher, and the executors it starts here, take from the environment."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(java_home())
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
