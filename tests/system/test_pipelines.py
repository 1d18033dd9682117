"""`penstock pipeline`, as far as it goes without a Spark."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
import typer
from pyspark.errors import PySparkRuntimeError

from penstock.cli import app, command_line, progress
from penstock.cli import spark as command
from penstock.errors import Invalid, Unavailable
from penstock.model.pipelines import PIPELINES
from penstock.spark.pipelines.causes import cause, is_own_error, start_failure
from penstock.spark.pipelines.pipeline import Pipeline, PipelineError
from penstock.spark.pipelines.progress import Progress
from penstock.spark.pipelines.run import Run
from penstock.spark.pipelines.run_log import described, scrubbed
from penstock.store.postgres.migrate import migrate
from tests.cli.runner import CliRunner
from tests.docs.pages import page, plain, quoted, rows, section
from tests.docs.test_pages import COMMANDS, EVERY_COMMAND, options
from tests.system.serving import environment, penstock

MODULES = {
    "archive": "archive:Archive",
    "cdc": "change_data:ChangeData",
    "import": "importing:Import",
    "insights": "insights:Insights",
    "replay": "replay:Replay",
    "tables": "tables.pipeline:Tables",
}


def pipeline_class(name: str) -> Any:
    module, _, found = MODULES[name].partition(":")
    return getattr(importlib.import_module(f"penstock.spark.pipelines.{module}"), found)


def test_help_does_not_wait_for_spark() -> None:
    code = "import sys; from penstock.cli import app; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), timeout=60)

    assert done.returncode == 0


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_has_a_command_and_says_what_it_does_in_one_way(name: str) -> None:
    found = command_line().commands["pipeline"].commands["run"].commands[name]
    summary = (pipeline_class(name).__doc__ or "").splitlines()[0]

    assert pipeline_class(name).name == name
    assert (PIPELINES[name], (found.help or "").splitlines()[0]) == (summary, summary)


def test_pipelines_and_runs_are_listed(fresh_database: str) -> None:
    asyncio.run(migrate(fresh_database))
    none = penstock("pipeline", "runs", "--database-url", fresh_database)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("select penstock.start_pipeline_run('default', 'cdc', '{}', now())")
        connection.execute(
            "select penstock.report_pipeline_run(1, 'failed', 7, 2, 3, 1.25, null, 'it broke', '{}', now())"
        )
    listed = penstock("pipeline", "list", "--json", "--database-url", fresh_database)
    runs = penstock("pipeline", "runs", "cdc", "--database-url", fresh_database)
    unknown = penstock("pipeline", "runs", "nothing", "--database-url", fresh_database)

    assert (none.stdout, none.stderr) == ("", "No pipeline has run yet.\n")
    found = {row["name"]: row["last_run"] for row in json.loads(listed.stdout)}
    assert list(found) == list(PIPELINES)
    assert (found["cdc"]["state"], found["cdc"]["rows"], found["cdc"]["lag_events"]) == ("failed", 7, 3)
    assert found["archive"] is None
    assert "it broke" in runs.stdout
    assert (unknown.returncode, "there is no pipeline 'nothing'" in unknown.stderr) == (4, True)


@pytest.mark.parametrize("arguments", [["list"], ["runs"], ["run", "insights"]], ids=["list", "runs", "run"])
def test_pipelines_need_postgresql(arguments: list[str], tmp_path: Path) -> None:
    penstock("migrate", "--sqlite", tmp_path / "q.db")
    done = penstock("pipeline", *arguments, "--sqlite", tmp_path / "q.db")

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("penstock: pipelines ")
    assert "PostgreSQL" in done.stderr


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pyspark'] = None; from penstock.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "pipeline", "run", "insights", "--sqlite", str(tmp_path / "q.db")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "pip install 'penstock[spark]'" in done.stderr
    assert "Traceback" not in done.stderr


# Commands with a pipeline of the test's own, and no Spark behind it


@dataclass(frozen=True, slots=True, kw_only=True)
class Small(Pipeline):
    """Does what a test wants."""

    name: ClassVar[str] = "small"
    do: Any

    def run(self, run: Run) -> None:
        self.do(run)


@pytest.fixture
def run(fresh_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    @contextmanager
    def no_spark(*_: object) -> Iterator[None]:
        yield None

    asyncio.run(migrate(fresh_database))
    monkeypatch.setattr(command, "spark_session", no_spark)
    monkeypatch.setenv("DATABASE_URL", fresh_database)
    monkeypatch.chdir(tmp_path)

    def start(do: Any, **options: Any) -> dict[str, Any]:
        made = command.on_spark(lambda start: start(Small(do=do)))
        try:
            made(**options)
        finally:
            with psycopg.connect(fresh_database) as connection:
                row = connection.execute(
                    "select state, error, note, rows from penstock.pipeline_runs order by id desc limit 1"
                ).fetchone()
        assert row is not None
        return dict(zip(("state", "error", "note", "rows"), row, strict=True))

    return start


def test_what_a_run_found_out_is_printed(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def work(run: Run) -> None:
        run.count(12)
        run.note("nearly there")
        run.results = [{"what": "apples", "rows": 12}]

    assert run(work) == {"state": "done", "error": None, "note": "nearly there", "rows": 12}
    printed = capsys.readouterr()
    assert "apples" in printed.out
    assert "small · done · 12 rows" in printed.err


def test_of_a_run_that_is_done_nothing_is_said_to_be_going_on(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = pipeline_class("cdc")
    for name in ("_prepare", "_start"):
        monkeypatch.setattr(pipeline, name, lambda *_: None)
    monkeypatch.setattr(Run, "watch", lambda *_: None)

    assert run(pipeline(streams=("orders",)).run) == {"state": "done", "error": None, "note": None, "rows": 0}


def test_a_failure_is_one_line_and_a_code(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def work(run: Run) -> None:
        run.results = [{"rejected": 3}]
        raise PipelineError("postgresql://ada:secret@host/db does not answer")

    with pytest.raises(typer.Exit) as ended:
        run(work)

    assert ended.value.exit_code == 1
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1] == "penstock: postgresql://…@host/db does not answer"
    assert "rejected" in printed.out
    assert "Traceback" not in printed.err


def test_verbose_shows_where_it_failed(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        run(lambda run: 1 / 0, verbose=True)

    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_a_signal_stops_a_run_in_good_order(run: Any, number: int) -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    steps = []

    def work(run: Run) -> None:
        steps.append("begun")
        os.kill(os.getpid(), number)
        steps.append("finished what was under way")
        run.check()
        steps.append("not here")

    assert run(work, follow=True)["state"] == "stopped"
    assert steps == ["begun", "finished what was under way"]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def test_options_that_cannot_be_are_refused(run: Any) -> None:
    with pytest.raises(Invalid, match="--master and --remote exclude each other"):
        command.on_spark(lambda start: None)(master="local", remote="sc://x")
    with pytest.raises(Invalid, match="is not of the form KEY=VALUE"):
        command.on_spark(lambda start: None)(conf=["x"])
    with pytest.raises(Unavailable, match="penstock\\[spark\\]"), command.one_line_errors(False):
        raise ModuleNotFoundError("No module named 'deltalake'", name="deltalake")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["archive"], "nothing to archive: give --stream or --messages"),
        (["cdc"], "give at least one --stream"),
        (["cdc", "--stream", "s", "--install"], "--install needs --table for each table, and exactly"),
        (["replay", "r", "--to", "s", "--follow"], "replay sends what the lake has now and ends: omit"),
        (["replay", "r", "--to", "s", "--since", "noon"], "'noon' is not a timestamp like 2026-11-16T08:00:00Z"),
        (["import", "csv", "x.csv", "--into", "s", "--follow"], "import ends when all is imported: omit --follow"),
        (["import", "csv"], "files need paths"),
    ],
    ids=["archive", "cdc", "install", "replay", "moment", "import", "files"],
)
def test_options_are_looked_at_before_anything_is_started(
    arguments: list[str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.stores.postgres", None)

    done = CliRunner().invoke(app, ["pipeline", "run", *arguments])

    assert (done.exit_code, done.stderr.startswith(f"penstock: {problem}")) == (1, True), done.stderr


def test_a_pipeline_does_not_migrate_a_database_but_says_what_is_missing(
    fresh_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "spark_session", None)
    monkeypatch.setenv("DATABASE_URL", fresh_database)

    done = CliRunner().invoke(app, ["pipeline", "run", "archive", "--messages"])

    said = f"{done.stderr}{done.exception}"
    assert done.exit_code == 1
    assert "is not up to date, missing: 0001_" in said
    assert "run `penstock migrate` first" in said
    with psycopg.connect(fresh_database) as connection:
        made = connection.execute("select to_regnamespace('penstock'), to_regnamespace('pgque')").fetchone()
        assert made == (None, None)
        asyncio.run(migrate(fresh_database))
        connection.execute("update penstock.migrations set sha256 = '' where name = 'functions'")
        connection.commit()

    done = CliRunner().invoke(app, ["pipeline", "run", "archive", "--messages"])

    assert "missing: functions. If" in f"{done.stderr}{done.exception}"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that answers nothing: its queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = int(server.getsockname()[1])
        waiting = []
        for _ in range(3):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            waiting.append(client)
        yield port
        for client in waiting:
            client.close()


@pytest.mark.parametrize(
    ("option", "scheme", "kind"),
    [("--remote", "sc", "Spark Connect server"), ("--master", "spark", "Spark master")],
    ids=["remote", "master"],
)
def test_a_spark_server_that_does_not_answer_is_named_within_seconds(
    option: str, scheme: str, kind: str, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.stores.postgres", None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    nowhere = {
        f"{scheme}://127.0.0.1:{closed}": "Connection refused",
        f"{scheme}://127.0.0.1:{silent_port}": "timed out",
        f"{scheme}://nowhere.invalid:7077": "",
    }
    for address, reason in nowhere.items():
        began = time.monotonic()
        done = CliRunner().invoke(app, ["pipeline", "run", "insights", option, address])
        took = time.monotonic() - began

        assert done.exit_code == 1
        assert done.stderr.startswith(f"penstock: no {kind} answers at {address}: {reason}"), done.stderr
        assert done.stderr.count("\n") == 1
        assert took < 5


def test_what_a_pipeline_reads_is_checked_before_spark_is_started(
    fresh_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "spark_session", None)
    monkeypatch.setenv("DATABASE_URL", fresh_database)
    monkeypatch.chdir(tmp_path)
    asyncio.run(migrate(fresh_database))
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        connection.execute("select pgque.create_queue('orders')")
        connection.execute("create table public.bills (id bigint primary key)")
        connection.execute("select pgque.track_table('public.bills', 'orders')")
    where = "write tables as schema.table, spelled as in the catalog and without quotes"
    refused = {
        ("replay", "r", "--to", "orders"): "there is no table at lake/events",
        ("import", "jsonl", "none.jsonl", "--into", "q"): "there are no files none.jsonl",
        ("import", "pgmq"): "there is no pgmq in schema 'pgmq' of the source database",
        ("insights", "--stream", "nowhere"): "there is no stream 'nowhere'",
        ("cdc", "--stream", "orders", "--table", "public.none", "--install"): f"there is no table public.none; {where}",
        ("cdc", "--stream", "orders", "--table", "public.none"): (
            f"table public.none is not tracked by stream orders; {where}"
        ),
    }
    for arguments, problem in refused.items():
        done = CliRunner().invoke(app, ["pipeline", "run", *arguments])
        assert (done.exit_code, done.stderr) == (1, f"penstock: {problem}\n")


def test_a_database_is_looked_at_before_spark_is_started(fresh_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "spark_session", None)
    monkeypatch.setenv("DATABASE_URL", fresh_database)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        asyncio.run(migrate(fresh_database))
        connection.execute("select pgque.create_queue('orders')")
        refused = {
            ("replay", "r", "--to", "again"): "there is no stream 'again'",
            ("replay", "r", "--to", "orders", "--target", "queue"): "there is no queue 'orders'",
            ("archive", "--stream", "orders", "--stream", "again"): "there is no stream 'again'",
            ("cdc", "--stream", "orders"): "no table is tracked by stream orders: call pgque.track_table, or run with"
            " --install",
            ("cdc", "--stream", "nowhere"): "there is no stream 'nowhere'",
        }
        for arguments, problem in refused.items():
            done = CliRunner().invoke(app, ["pipeline", "run", *arguments])
            assert (done.exit_code, done.stderr) == (1, f"penstock: {problem}\n")
        assert connection.execute("select count(*) from pgque.subscription").fetchone() == (0,)


def test_a_lake_that_cannot_be_written_is_told_before_spark_is_started(
    fresh_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "spark_session", None)
    monkeypatch.setenv("DATABASE_URL", fresh_database)
    with psycopg.connect(fresh_database, autocommit=True) as connection:
        asyncio.run(migrate(fresh_database))
        connection.execute("select pgque.create_queue('orders')")
    (tmp_path / "file").touch()
    lake = str(tmp_path / "file" / "lake")

    done = CliRunner().invoke(app, ["pipeline", "run", "archive", "--stream", "orders", "--lake", lake])

    assert (done.exit_code, done.stderr) == (1, f"penstock: the lake {lake} cannot be written: Not a directory\n")


def test_a_pipeline_has_a_pace_of_its_own_unless_told() -> None:
    nobody: Any = None
    paces = [
        Run(each, spark=nobody, url="", lake="", interval_s=given).interval_s
        for each, given in ((Small(do=None), None), (Small(do=None), 3.0), (pipeline_class("insights")(), None))
    ]

    assert paces == [10.0, 3.0, 60.0]


def shown(**changes: Any) -> Progress:
    values: dict[str, Any] = {
        "pipeline": "archive", "state": "running", "rows": 12_345, "batches": 3, "rows_per_s": 99.6, "lag_events": None,
        "lag_s": None, "elapsed_s": 61.0, "note": None,
    }  # fmt: skip
    return Progress(**{**values, **changes})


def test_a_line_of_progress() -> None:
    assert progress.line(shown()) == "archive · running · 12,345 rows · 100 rows/s · 3 batches · 1m01s"
    assert progress.line(shown(lag_events=7, lag_s=1.5, elapsed_s=3725.0, note="orders")) == (
        "archive · running · 12,345 rows · 100 rows/s · 3 batches · lag 7 events, 1.5s · 1h02m · orders"
    )


def test_a_log_gets_a_line_when_there_is_something_new(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.display() as show:
        for change in ({}, {"rows": 12_346}, {"note": "other"}, {"note": "other", "state": "done"}):
            show(shown(**change))

    assert [line.split(" · ")[1] for line in capsys.readouterr().err.splitlines()] == ["running", "running", "done"]


JAVA = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Lost task 0.0
Traceback (most recent call last):
  File "worker.py", line 3, in main
adbc_driver_manager.OperationalError: could not connect
 SQLSTATE: XXKST
\tat org.apache.spark.Some.where(Some.scala:1)
Caused by: java.lang.IllegalStateException: deeper
\t... 3 more
"""


def test_the_cause_of_a_failure_in_one_line() -> None:
    assert cause(RuntimeError(JAVA)) == "OperationalError: could not connect"
    assert (
        cause(RuntimeError("penstock.x.StreamError: there is no stream 'a'\n\tat org.apache"))
        == "there is no stream 'a'"
    )
    assert cause(RuntimeError("first\nCaused by: java.io.IOException: disk full")) == "IOException: disk full"
    assert cause(KeyError()) == "KeyError"
    around = RuntimeError("around")
    around.__cause__ = ValueError("the cause password=hunter2")
    assert cause(around) == "the cause password=…"
    assert not is_own_error(around)
    # As Py4J has it.
    java = RuntimeError(
        "An error occurred while calling o155.start.\n: java.io.IOException: mkdir of /l failed\n\tat x"
    )
    assert cause(java) == "IOException: mkdir of /l failed"


def test_an_error_of_ours_says_all_there_is_to_say() -> None:
    ours = PipelineError("there are no files x.csv")
    ours.__cause__ = RuntimeError("[PATH_NOT_FOUND] Path does not exist: file:/x.csv")
    told = RuntimeError(JAVA.replace("adbc_driver_manager.OperationalError", "penstock.spark.streams.StreamError"))

    assert (cause(ours), is_own_error(ours)) == ("there are no files x.csv", True)
    assert (cause(told), is_own_error(told)) == ("could not connect", True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('Exception in thread "main" org.apache.spark.SparkException: Master must be', "Master must be"),
        ("Error occurred during initialization of VM\nToo small maximum heap", "Too small maximum heap"),
        ("26/11/16 11:07:07 ERROR Utils: Error: no", None),
    ],
    ids=["main", "vm", "none"],
)
def test_a_log_tells_why_java_did_not_start(line: str, told: str | None) -> None:
    assert start_failure(f"WARNING: Using incubator modules\n{line}\n\tat org.apache.spark.deploy\n") == told


@pytest.mark.parametrize("told", ["Error: no such class", "something else"], ids=["told", "not told"])
def test_a_spark_that_does_not_start_says_why(
    told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def no_session(*_: object, **__: object) -> None:
        os.write(2, f"{told}\n".encode())
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr("penstock.spark.running.session.session", no_session)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with pytest.raises(typer.Exit), command.one_line_errors(False), command.spark_session("x", None, {}, False):
        raise AssertionError("it has started")

    said, logs = capsys.readouterr().err, list(tmp_path.iterdir())
    if told.startswith("Error"):
        assert (said, logs) == ("starting Spark\npenstock: Spark did not start: no such class\n", [])
    else:
        assert f"Spark's log is in {logs[0]}" in said
        assert "[JAVA_GATEWAY_EXITED]" in said


def test_settings_are_kept_without_secrets() -> None:
    from penstock.spark.pipelines.importing import Import

    kept = described(Import(source="pgmq", from_url="postgresql://u:p@h/d", paths=("s3://key:word@bucket/x",), chunk=5))

    assert kept == {
        "source": "pgmq", "target": "queue", "from_url": "…", "paths": ["s3://…@bucket/x"], "finished": False,
        "dry_run": False, "skip_rejects": False, "tenant": "default", "chunk": 5,
    }  # fmt: skip
    assert scrubbed("postgresql://h/d?password=x&y") == "postgresql://h/d?password=…"


def test_the_page_about_pipelines_is_true() -> None:
    from penstock.cli.run_pipelines import Origin
    from penstock.spark.pipelines.importing import SOURCES

    text = page("docs/pipelines.md")
    listed = {plain(row[0]): row[1] for row in rows(text.partition("## Running")[0])}
    given = {option for row in rows(section(text, "## Running")) for option in quoted(row[0])}
    sources = [plain(row[0]) for row in rows(section(text, "## Import")) if row[0].startswith("`") and len(row) == 4]
    shared = set.intersection(*(options(COMMANDS[f"penstock pipeline run {name}"]) for name in PIPELINES))

    assert listed == PIPELINES
    assert given == shared - options(EVERY_COMMAND["penstock pipeline list"])
    assert [*SOURCES] == sources == [origin.value for origin in Origin]
