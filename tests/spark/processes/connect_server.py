"""A Spark Connect server as a process of its own, on a free port of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pyspark

from penstock.spark.running.java import java_home
from penstock.spark.running.python import python_program
from tests.spark.processes.killing import wait_until
from tests.system.serving import ROOT, environment

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
HERE = "127.0.0.1"


def spark_environment() -> dict[str, str]:
    """For Spark's own scripts: what `penstock.spark.running.session` does for sessions."""
    return environment({"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": python_program(), "SPARK_LOCAL_IP": HERE})


def program(name: str) -> str:
    return str(Path(pyspark.__file__).parent / "bin" / name)


class ConnectServer:
    def __init__(self, log: Path) -> None:
        self._log = log
        port = _free_port()
        self.address = f"sc://{HERE}:{port}"
        settings = {
            "spark.connect.grpc.binding.address": HERE,
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
        }
        command = [program("spark-submit"), "--class", MAIN, "--master", "local[2,4]"]
        command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "spark-internal"],
                cwd=ROOT, env=spark_environment(), stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        wait_until(lambda: self._listens(port), self._said)

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(60)

    def _listens(self, port: int) -> bool:
        assert self._process.poll() is None, self._said()
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((HERE, port)) == 0

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return int(probe.getsockname()[1])
