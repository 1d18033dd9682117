"""A Spark session that finds its Java, its Python and this package's data source by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from penstock.spark.java import java_home

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Filters that Spark offers are taken by the reader; without this Spark refuses to ask it.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(
    name: str = "penstock",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one: on `master` (this machine when None), or at a Spark Connect `remote`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
    else:
        os.environ["JAVA_HOME"] = str(java_home())
        builder = builder.master(master or "local[*]")
        elsewhere = master is not None and not master.startswith("local")
        for key, value in DEFAULTS.items():
            # A driver that serves executors on other machines must be reachable from them.
            if not (elsewhere and key.startswith("spark.driver.")):
                builder = builder.config(key, value)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
