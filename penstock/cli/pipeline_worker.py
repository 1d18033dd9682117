"""`penstock pipeline worker`: runs pipelines that jobs ask for, such as those that schedules enqueue.

A job names a pipeline and its settings. The database, the lake and Spark's settings are those of the worker, so that
a job cannot choose another machine or program. Each run is a process of its own: Spark's memory ends with it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import run_pipelines
from penstock.cli.options import on_store
from penstock.cli.spark import Checkpoints, Conf, Lake, Master, Remote, Storage
from penstock.config import Settings, redact
from penstock.errors import Invalid, LeaseStale, NotFound, Unavailable

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.client.api.jobs import LeasedJob

QUEUE = "pipelines"
RUNNABLE = ("archive", "cdc", "insights", "replay", "tables")
"""Pipelines that jobs may ask for. `import` reads files of the worker's machine and other databases."""
UPKEEP = ("compact", "vacuum")
COMMON = {
    "lake", "checkpoints", "storage", "master", "remote", "follow", "interval", "conf", "verbose", "database_url",
    "data", "sqlite", "config", "help",
}  # fmt: skip
"""Options of a run that the worker decides about."""
LEASE_S = 120
BEAT_S = 20.0
POLL_S = 2.0
STOP_S = 90.0
"""How long a run may take to finish its batch when the worker is stopped."""
ERROR_LENGTH = 2000


def arguments(payload: Any) -> list[str]:
    """The command for a job, after `penstock` and without the worker's own options; raises `Invalid`."""
    if not isinstance(payload, Mapping) or not isinstance(payload.get("pipeline"), str):
        raise Invalid('the payload must be like {"pipeline": "archive", "settings": {"stream": ["orders"]}}')
    name, settings = payload["pipeline"], payload.get("settings", {})
    # A schedule adds fields about itself, which begin with an underscore.
    if unknown := [key for key in payload if key not in ("pipeline", "settings", "task") and not key.startswith("_")]:
        raise Invalid(f"unknown field {unknown[0]!r}")
    if not isinstance(settings, Mapping):
        raise Invalid("settings must be an object")
    if name in UPKEEP:
        return ["lake", name, *_options(name, settings, _upkeep_parameters(name))]
    if name not in RUNNABLE:
        raise NotFound(f"a job cannot run {name!r}; it can run {', '.join((*RUNNABLE, *UPKEEP))}")
    return ["pipeline", "run", name, *_options(name, settings, _parameters(run_pipelines.app, name, COMMON))]


def _upkeep_parameters(name: str) -> dict[str, Any]:
    from penstock.cli import lake

    return _parameters(lake.app, name, {"path", "storage", "help"})


def _parameters(app: typer.Typer, name: str, without: set[str]) -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return {each.name: each for each in group.commands[name].params if each.name not in without}


def _options(name: str, settings: Mapping[str, Any], known: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    positional: list[str] = []
    for key, value in settings.items():
        parameter = known.get(str(key).replace("-", "_"))
        if parameter is None:
            raise Invalid(f"{name} has no setting {key!r}; it has {', '.join(sorted(known))}")
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str | int | float | bool) for each in values):
            raise Invalid(f"setting {key!r} must be a text, a number, true or false, or a list of these")
        if parameter.param_type_name == "argument":
            positional += [str(each) for each in values]
        elif getattr(parameter, "is_flag", False):
            # A flag without an opposite, such as --compact, is off unless it is given.
            found += [*parameter.opts[:1]] if value is True else [*parameter.secondary_opts[:1]]
        else:
            # In one word, so that a value that begins with a hyphen is no option.
            found += [f"{parameter.opts[0]}={each}" for each in values]
    return [*found, *(["--", *positional] if positional else [])]


@on_store
def run_worker(
    settings: Settings,
    queue: Annotated[str, typer.Option(help="Queue of jobs to work on.")] = QUEUE,
    tenant: Annotated[str, typer.Option(help="Tenant that owns the jobs.")] = "default",
    lake: Lake = "lake",
    checkpoints: Checkpoints = None,
    storage: Storage = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    drain: Annotated[bool, typer.Option("--drain", help="End when no job is left.")] = False,
) -> None:
    """Run pipelines that jobs ask for, such as those that schedules enqueue."""
    from penstock.cli.database import Database
    from penstock.client import Client

    if settings.store in ("sqlite", "memory"):
        raise Invalid("pipelines require PostgreSQL")
    own = _own_options(lake, checkpoints, storage, master, remote, conf)
    opened = Database(settings, tenant, creates=False)
    with Client(transport=opened) as client, _stopping() as stopped:
        worker = PipelineWorker(client, own, _environment(settings), stopped.is_set)
        worker.work(queue, drain=drain)


class PipelineWorker:
    def __init__(
        self,
        client: Client,
        own: Mapping[str, list[str]],
        environment: Mapping[str, str],
        stopped: Callable[[], bool],
        *,
        beat_s: float = BEAT_S,
    ) -> None:
        self._jobs = client.jobs
        self._own = own
        self._environment = environment
        self._stopped = stopped
        self._beat_s = beat_s
        self._name = f"{socket.gethostname()}-{os.getpid()}"

    def work(self, queue: str, *, drain: bool) -> None:
        """One run at a time: each takes all cores."""
        wait_s = 0.0 if drain else POLL_S
        while not self._stopped():
            try:
                found = self._jobs.lease(queue, self._name, lease_seconds=LEASE_S, wait=wait_s)
            except Unavailable as error:
                # The database restarts, for example. The client has retried already.
                print(f"penstock: {redact(str(error))}", file=sys.stderr)
                continue
            for leased in found:
                self._settle(leased)
            if drain and not found:
                return

    def _settle(self, leased: LeasedJob) -> None:
        try:
            command = arguments(leased.job.payload)
        except (Invalid, NotFound) as error:
            self._jobs.nack(leased, str(error), retry=False)
            return
        if command[0] == "lake":
            command = [*command[:2], *self._own["upkeep"], *command[2:]]
        else:
            command = [*command[:3], *self._own["run"], *command[3:]]
        print(f"penstock: job {leased.job.id}: {' '.join(command)}", file=sys.stderr, flush=True)
        with tempfile.TemporaryFile() as log:
            code = self._run(leased, [sys.executable, "-m", "penstock", *command], log)
            if code is None:
                return
            reason = _last_line(log)
        if code == 0 and not self._stopped():
            self._jobs.ack(leased, {"pipeline": command[-1] if len(command) < 3 else command[2], "said": reason})
        elif self._stopped():
            self._jobs.nack(leased, "the worker was stopped", retry_after=0)
        else:
            self._jobs.nack(leased, redact(reason) or f"the run ended with exit code {code}")

    def _run(self, leased: LeasedJob, command: list[str], log: IO[bytes]) -> int | None:
        """The exit code; None when the lease was lost, so that another worker may have the job."""
        environment = {**os.environ, **self._environment}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(self._beat_s)
                if self._stopped():
                    return _stop(process)
                try:
                    self._jobs.heartbeat(leased, lease_seconds=LEASE_S)
                except LeaseStale:
                    _stop(process)
                    return None
                except Unavailable:
                    # The run itself waits for its database, too. A lease that ends meanwhile is noticed later.
                    continue
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _stop(process: subprocess.Popen[bytes]) -> int:
    process.terminate()
    try:
        return process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _last_line(log: IO[bytes]) -> str:
    log.seek(max(log.seek(0, os.SEEK_END) - 8 * ERROR_LENGTH, 0))
    lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("penstock: ")[:ERROR_LENGTH] if lines else ""


def _own_options(
    lake: str,
    checkpoints: str | None,
    storage: list[str] | None,
    master: str | None,
    remote: str | None,
    conf: list[str] | None,
) -> dict[str, list[str]]:
    if master is not None and remote is not None:
        raise Invalid("--master and --remote exclude each other")
    single = {"--checkpoints": checkpoints, "--master": master, "--remote": remote}
    stores = [f"--storage={each}" for each in storage or []]
    options = [f"{name}={value}" for name, value in single.items() if value is not None]
    return {
        "run": [f"--lake={lake}", *options, *stores, *(f"--conf={each}" for each in conf or [])],
        "upkeep": [lake, *stores],
    }


def _environment(settings: Settings) -> dict[str, str]:
    """The database for the processes of runs: in the environment, since process lists show arguments."""
    if settings.store == "postgres":
        return {"DATABASE_URL": settings.database_url or ""}
    return {} if settings.data is None else {"PENSTOCK_DATA": str(settings.data)}


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set. The run that is under way finishes its batch."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = {
        number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGTERM, signal.SIGINT)
    }  # fmt: skip
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
