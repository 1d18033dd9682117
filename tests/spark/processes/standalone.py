"""A standalone cluster on this machine: a master and a worker, started from PySpark's own package.

Each has the environment of a machine of its own: what a task needs and only the driver has, it does not find.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import pyspark

from penstock.spark.running.java import java_home
from tests.spark.processes.connect_server import HERE, program

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
PATIENCE_S = 120.0
STOP_S = 30.0
LOOK_S = 0.1


class Standalone:
    """A master and a worker with one core and a gibibyte. The caller closes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port, self._page_port = _free_port(), _free_port()
        self.address = f"spark://{HERE}:{port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            self._master = self._started(
                "master", MASTER, "--host", HERE, "--port", str(port), "--webui-port", str(self._page_port)
            )
            self.wait_until(lambda: self._living(self._master) and self.state() is not None)
            self.start_worker()
        except BaseException:
            self.close()
            raise

    def start_worker(self) -> None:
        """A new one, until the master has taken it in."""
        where = self._folder / f"work-{len(self._processes)}"
        self._worker = self._started(
            "worker", WORKER, "--host", HERE, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g",
            "--work-dir", str(where), self.address,
        )  # fmt: skip
        self.wait_until(lambda: self._living(self._worker) and self.workers() == 1)

    def freeze_worker(self) -> None:
        """It and its executor do nothing from now on: what they have not finished, they do not finish."""
        os.killpg(self._worker.pid, signal.SIGSTOP)

    def kill_worker(self) -> None:
        """At once, with its executor, and until the master knows."""
        os.killpg(self._worker.pid, signal.SIGKILL)
        self._worker.wait(STOP_S)
        self.wait_until(lambda: self.workers() == 0)

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Not as often as one could: the master has to answer each time."""
        give_up = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < give_up, self.said()
            time.sleep(LOOK_S)

    def state(self) -> dict[str, Any] | None:
        """What the master tells of itself; None when it does not answer."""
        connection = HTTPConnection(HERE, self._page_port, timeout=5)
        try:
            connection.request("GET", "/json/")
            answer = connection.getresponse()
            found: dict[str, Any] | None = json.loads(answer.read()) if answer.status == 200 else None
            return found
        except (OSError, HTTPException, JSONDecodeError):
            # While it starts, every address shows its page for people.
            return None
        finally:
            connection.close()

    def workers(self) -> int:
        """How many are alive."""
        return sum(worker["state"] == "ALIVE" for worker in (self.state() or {}).get("workers", []))

    def finished(self) -> list[str]:
        """How the applications ended that have run here."""
        return [application["state"] for application in (self.state() or {}).get("completedapps", [])]

    def close(self) -> None:
        """In good order, the worker first; what does not end then is killed."""
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
                os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_S)
        self.wait_until(lambda: not any(_session(process.pid) for process in self._processes))

    def said(self) -> str:
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in logs)

    def _started(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        home = self._folder / f"{name}-{len(self._processes)}"
        home.mkdir(parents=True)
        with home.with_suffix(".log").open("wb") as output:
            process = subprocess.Popen(
                [program("spark-class"), *words],
                cwd=home, env=_environment(home), stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _living(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, self.said()
        return True


def _environment(home: Path) -> dict[str, str]:
    """Without the driver's: no path to this package, no Python, no address of a database."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": HERE,
        "SPARK_LOCAL_DIRS": str(home),
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }


def _session(pid: int) -> list[int]:
    """What a process has started: executors and their Python workers, which have process groups of their own."""
    found = []
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdigit() and os.getsid(int(path.name)) == pid:
                found.append(int(path.name))
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return int(probe.getsockname()[1])
