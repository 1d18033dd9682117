"""`penstock worker`: runs the tasks of an app."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import say
from penstock.errors import Invalid

if TYPE_CHECKING:
    from penstock.client.app import App

LOOK_S = 0.5
STOP_S = 40.0
"""How long a worker that is restarted may take to finish its jobs."""
SKIPPED = ("node_modules", "__pycache__", "site-packages")


def worker(
    app: Annotated[str, typer.Argument(metavar="MODULE:APP", help="App to run, such as `shop.tasks:app`.")],
    queues: Annotated[str | None, typer.Option(help="Queues, comma-separated. Default: those of all tasks.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Jobs of a queue that run at a time.")] = 10,
    lease: Annotated[int, typer.Option(min=1, help="Seconds of a lease; it is renewed while a job runs.")] = 30,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that running jobs have to end after SIGTERM.")] = 30.0,
    drain: Annotated[bool, typer.Option("--drain", help="Stop when no job is left.")] = False,
    reload: Annotated[bool, typer.Option("--reload", help="Restart when a Python file changes.")] = False,
) -> None:
    """Run the tasks of an app until SIGTERM or Ctrl-C. PENSTOCK_URL and PENSTOCK_TOKEN name the server."""
    if reload:
        raise typer.Exit(_reloading([each for each in sys.argv[1:] if each != "--reload"]))
    found = load(app)
    named = [each.strip() for each in queues.split(",") if each.strip()] if queues is not None else None
    _tell(found, sorted(named or found.queues), concurrency)
    found.work(named, drain=drain, concurrency=concurrency, lease_s=lease, grace_s=grace)


def load(name: str) -> App:
    """The app that `module:attribute` names; modules of the current folder are found first."""
    from penstock.client.app import App

    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise Invalid(f"'{name}' does not name an app: write MODULE:APP, such as shop.tasks:app", field="app")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise Invalid(f"there is no module '{module}' in {os.getcwd()} or on the path", field="app") from None
    except AttributeError:
        raise Invalid(f"module '{module}' has no '{attribute}'", field="app") from None
    if not isinstance(found, App):
        raise Invalid(f"'{name}' is not a penstock.App", field="app")
    if not found.tasks:
        raise Invalid(f"'{name}' has no tasks; its module must import those that define them", field="app")
    return found


def _tell(app: App, queues: Sequence[str], concurrency: int) -> None:
    """What the worker is about to do, and what looks like a misspelt queue."""
    say(f"Running jobs of {app.url}; Ctrl-C stops.")
    say(f"  queues  {', '.join(queues)}; up to {concurrency} jobs of each at a time")
    say(f"  tasks   {', '.join(app.tasks)}")
    for queue in queues:
        if queue not in app.queues:
            say(f"No task of the app has the queue {queue}; its tasks have {', '.join(sorted(app.queues))}.")


def _reloading(arguments: Sequence[str]) -> int:
    """Run the same command, and run it again whenever a Python file below the current folder changes."""
    # As Ctrl-C does: the command is stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    while True:
        before = _changes()
        child = subprocess.Popen([sys.executable, "-m", "penstock", *arguments])
        try:
            while child.poll() is None and _changes() == before:
                time.sleep(LOOK_S)
            if child.returncode is not None and _changes() == before:
                return child.returncode
        except KeyboardInterrupt:
            return 130
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()


def _changes() -> dict[str, int]:
    """When each Python file was changed last."""
    found: dict[str, int] = {}
    for folder, folders, files in os.walk("."):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in SKIPPED]
        for name in files:
            if name.endswith(".py"):
                path = Path(folder, name)
                try:
                    found[str(path)] = path.stat().st_mtime_ns
                except FileNotFoundError:
                    continue
    return found
