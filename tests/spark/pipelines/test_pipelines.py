"""Runs of pipelines: what a pipeline is given, and what the database knows of its runs."""

from __future__ import annotations

import json
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import psycopg
import pytest
from psycopg.rows import dict_row
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines import reporting
from penstock.spark.pipelines.causes import JAVA_ENDED, cause
from penstock.spark.pipelines.claims import ClaimedError, in_lake
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.preflight import prepared
from penstock.spark.pipelines.progress import Progress, QueryProgress
from penstock.spark.pipelines.run import SLOW_START, Run, run_pipeline, running
from tests.spark import streams

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Pipeline):
    """Events into Parquet files."""

    name: ClassVar[str] = "copy"
    stream: str = "orders"
    from_url: str | None = None
    most: int = 500_000

    def run(self, run: Run) -> None:
        run.note(f"copying {self.stream}")
        read = run.spark.readStream.format("penstock").options(
            url=run.url, subscribe=self.stream, startingOffsets="earliest", maxEventsPerTrigger=str(self.most)
        )
        write = read.load().writeStream.format("parquet").option("checkpointLocation", run.checkpoint("events"))
        run.watch(write.trigger(**run.trigger()).start(run.path("copied")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain(Pipeline):
    """Whatever a test wants to do in a run."""

    name: ClassVar[str] = "plain"

    def run(self, run: Run) -> None:
        raise AssertionError("not run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claiming(Pipeline):
    """Claims parts of a lake, and does nothing."""

    name: ClassVar[str] = "claiming"
    parts: tuple[str, ...] = ("orders",)

    def claims(self, lake: str) -> list[str]:
        return [in_lake(part, lake) for part in self.parts]

    def run(self, run: Run) -> None:
        run.check()


@dataclass(frozen=True)
class SlowToStart(Pipeline):
    """Fails as Spark does when a Python process took more than ten seconds to start."""

    name: ClassVar[str] = "slow"
    failures: int
    text: str = f"[STREAM_FAILED] {SLOW_START}."
    starts: list[int] = field(default_factory=list)

    def run(self, run: Run) -> None:
        self.starts.append(1)
        if len(self.starts) <= self.failures:
            raise StreamingQueryException(self.text)


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


def last_run(database: psycopg.Connection) -> dict[str, Any]:
    with database.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("select * from penstock.pipeline_runs order by id desc limit 1").fetchone()
    assert row is not None
    return row


def test_a_run_leaves_its_row_with_rows_batches_and_no_lag(
    spark: SparkSession, dsn: str, database: psycopg.Connection, lake: str
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["one", "two"])
    streams.tick(database, "orders")
    streams.send(database, "orders", ["three"])
    shown: list[Progress] = []

    run_pipeline(Copy(most=1), spark=spark, url=dsn, lake=lake, show=shown.append)

    row = last_run(database)
    assert (row["pipeline"], row["state"], row["rows"], row["batches"]) == ("copy", "done", 3, 2)
    assert (row["lag_events"], row["lag_s"], row["note"], row["error"]) == (0, 0.0, "copying orders", None)
    assert row["finished_at"] is not None
    assert row["settings"] == {"stream": "orders", "most": 1, "lake": lake, "follow": False}
    assert [query["rows"] for query in row["progress"]["queries"]] == [3]
    assert (shown[-1].state, shown[-1].rows) == ("done", 3)
    assert spark.read.parquet(f"{lake}/copied").count() == 3


def test_a_run_that_fails_says_why_in_one_line(
    spark: SparkSession, dsn: str, database: psycopg.Connection, lake: str
) -> None:
    with pytest.raises(Exception, match="nowhere"):
        run_pipeline(Copy(stream="nowhere"), spark=spark, url=dsn, lake=lake)

    row = last_run(database)
    assert row["state"] == "failed"
    assert row["error"] == "there is no stream 'nowhere'"


@pytest.mark.parametrize(("failures", "starts", "state"), [(0, 1, "done"), (2, 3, "done"), (3, 3, "failed")])
def test_a_query_whose_python_process_was_slow_to_start_is_started_again(
    dsn: str, database: psycopg.Connection, lake: str, failures: int, starts: int, state: str
) -> None:
    nobody: Any = None
    pipeline = SlowToStart(failures)

    with suppress(StreamingQueryException):
        run_pipeline(pipeline, spark=nobody, url=dsn, lake=lake)

    assert len(pipeline.starts) == starts
    assert last_run(database)["state"] == state


def test_a_query_that_fails_for_another_reason_is_not_started_again(dsn: str, lake: str) -> None:
    nobody: Any = None
    pipeline = SlowToStart(1, text="out of disk")

    with pytest.raises(StreamingQueryException, match="out of disk"):
        run_pipeline(pipeline, spark=nobody, url=dsn, lake=lake)

    assert len(pipeline.starts) == 1


def test_a_run_that_follows_ends_its_batch_when_stopped_and_the_next_goes_on(
    spark: SparkSession, dsn: str, database: psycopg.Connection, lake: str
) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["one", "two"])
    streams.tick(database, "orders")
    pipeline = Copy()
    settings: dict[str, Any] = {"spark": spark, "url": dsn, "lake": lake}
    found: list[Run] = []

    def stop(progress: Progress) -> None:
        if progress.rows:
            found[0].stop()

    with running(pipeline, follow=True, interval_s=0.2, show=stop, **settings) as run:
        found.append(run)
        pipeline.run(run)
    stopped = last_run(database)
    streams.send(database, "orders", ["three"])
    run_pipeline(pipeline, **settings)

    assert (stopped["state"], stopped["rows"], stopped["error"]) == ("stopped", 2, None)
    assert stopped["settings"]["follow"] is True
    values = sorted(row.value for row in spark.read.parquet(f"{lake}/copied").select("value").collect())
    assert values == ["one", "three", "two"]


def test_the_failure_of_one_query_ends_the_others(
    spark: SparkSession, dsn: str, database: psycopg.Connection, lake: str
) -> None:
    streams.make(database, "orders")
    queries: list[StreamingQuery] = []

    def run_both() -> None:
        with running(Plain(), spark=spark, url=dsn, lake=lake, follow=True) as run:
            for stream in ("orders", "nowhere"):
                read = spark.readStream.format("penstock").options(url=dsn, subscribe=stream).load()
                write = read.writeStream.format("noop").option("checkpointLocation", run.checkpoint(stream))
                queries.append(write.trigger(**run.trigger()).start())
            run.watch(*queries)

    with pytest.raises(Exception, match="nowhere"):
        run_both()

    assert [query.isActive for query in queries] == [False, False]
    assert last_run(database)["error"] == "there is no stream 'nowhere'"


class Py4JNetworkError(Exception):
    """As Py4J raises it."""


class Orphan:
    """A query whose Java is killed when someone asks how it is."""

    def __init__(self) -> None:
        self._is_dead = False

    @property
    def isActive(self) -> bool:  # noqa: N802
        first, self._is_dead = not self._is_dead, True
        raise Py4JNetworkError("Error while sending or receiving") if first else ConnectionRefusedError

    def __getattr__(self, name: str) -> str:
        if self._is_dead:
            raise ConnectionRefusedError
        return f"its {name}"


def test_a_run_whose_java_was_killed_has_failed_and_says_so(dsn: str, database: psycopg.Connection, lake: str) -> None:
    nobody: Any = None

    with (
        pytest.raises(ConnectionRefusedError) as error,
        running(Plain(), spark=nobody, url=dsn, lake=lake, follow=True) as run,
    ):
        run.watch(cast(StreamingQuery, Orphan()))

    row = last_run(database)
    assert (row["state"], row["error"]) == ("failed", JAVA_ENDED)
    assert [query["name"] for query in row["progress"]["queries"]] == ["its name"]
    # What the command says at last, when it could not stop Spark either.
    assert cause(error.value) == JAVA_ENDED


def test_a_query_that_is_started_again_goes_on_counting(
    spark: SparkSession, dsn: str, database: psycopg.Connection, lake: str
) -> None:
    streams.make(database, "orders")
    with running(Copy(), spark=spark, url=dsn, lake=lake) as run:
        for value in ("one", "two"):
            streams.send(database, "orders", [value])
            Copy().run(run)

    row = last_run(database)
    assert (row["rows"], row["batches"], len(row["progress"]["queries"])) == (2, 2, 1)


class TestClaims:
    """Runs that work on the same, one in the midst of the other. None of them needs Spark."""

    nobody: Any = None

    def run(self, dsn: str, lake: str, *parts: str) -> None:
        run_pipeline(Claiming(parts=parts), spark=self.nobody, url=dsn, lake=lake)

    def test_a_second_run_is_refused_and_told_which_the_first_is(
        self, dsn: str, database: psycopg.Connection, lake: str
    ) -> None:
        Path(lake).mkdir()
        link = Path(lake).parent / "link"
        link.symlink_to(lake)
        with running(Claiming(), spark=self.nobody, url=dsn, lake=lake):
            first = last_run(database)["id"]
            problem = f"orders in {lake} is locked by run {first} of claiming: wait until it has ended, or stop it"
            with pytest.raises(ClaimedError, match=problem):
                self.run(dsn, str(link), "bills", "orders")
            assert (last_run(database)["state"], last_run(database)["error"]) == ("failed", problem)
            # Before Spark is started, and then there is no run at all.
            with pytest.raises(ClaimedError, match=problem):
                prepared(Claiming(), url=dsn, lake=lake).__enter__()
            assert last_run(database)["id"] == first + 1
            self.run(dsn, lake, "bills")
            self.run(dsn, f"{lake}-other", "orders")

        with prepared(Claiming(), url=dsn, lake=lake):
            pass
        self.run(dsn, lake, "orders")

    def test_a_run_whose_spark_is_starting_has_its_claims_already(
        self, dsn: str, database: psycopg.Connection, lake: str
    ) -> None:
        with prepared(Claiming(), url=dsn, lake=lake) as claims:
            with pytest.raises(ClaimedError, match="is locked by a starting run of claiming"):
                prepared(Claiming(), url=dsn, lake=lake).__enter__()
            with running(Claiming(), spark=self.nobody, url=dsn, lake=lake, claims=claims):
                number = last_run(database)["id"]
                with pytest.raises(ClaimedError, match=f"is locked by run {number} of claiming: wait"):
                    prepared(Claiming(), url=dsn, lake=lake).__enter__()
        self.run(dsn, lake, "orders")

    def test_what_a_run_claims_for_a_while_is_free_afterwards(self, dsn: str, lake: str) -> None:
        given: dict[str, Any] = {"spark": self.nobody, "url": dsn, "lake": lake}
        with running(Claiming(parts=("a",)), **given) as one, running(Claiming(parts=("b",)), **given) as other:
            with one.claimed("a file"), pytest.raises(ClaimedError, match="a file is locked by run"):
                other.claimed("a file").__enter__()
            with other.claimed("a file"):
                pass

    def test_a_run_that_lost_its_session_claims_anew_or_ends(
        self, dsn: str, database: psycopg.Connection, lake: str
    ) -> None:
        """As when PostgreSQL was restarted."""
        given: dict[str, Any] = {"spark": self.nobody, "url": dsn, "lake": lake}
        with running(Claiming(), **given) as first:
            end_claims(database)
            first.keep_claims()
            first.check()
            with pytest.raises(ClaimedError):
                self.run(dsn, lake, "orders")

            end_claims(database)
            with running(Claiming(), **given):
                second = last_run(database)["id"]
                first.keep_claims()
                with pytest.raises(ClaimedError, match=f"is locked by run {second} of claiming"):
                    first.check()


def end_claims(database: psycopg.Connection) -> None:
    query = """
        select pg_terminate_backend(l.pid, 10000)
        from pg_locks as l
        join pg_stat_activity as a on a.pid = l.pid and a.application_name like 'penstock: run%'
        where l.locktype = 'advisory'
    """
    assert database.execute(query).fetchall() == [(True,)]


def test_lag_is_what_lies_behind_a_tick(database: psycopg.Connection) -> None:
    streams.make(database, "orders")
    streams.send(database, "orders", ["one"])
    behind = streams.tick(database, "orders")
    streams.send(database, "orders", ["two", "three"])
    streams.tick(database, "orders")
    streams.send(database, "orders", ["four"])

    lag = "select l.lag_events, l.lag_s > 50 from penstock.stream_lag(%s::jsonb, now() + interval '1 minute') as l"

    assert database.execute(lag, [f'{{"orders": {behind}, "gone": 7}}']).fetchone() == (3, True)
    assert database.execute(lag, ["{}"]).fetchone() == (None, None)


def test_batches_that_followed_a_look_at_nothing_are_all_counted() -> None:
    """A trigger that found nothing has the number of the batch to come."""

    class Told:
        id, name = "1", None
        recentProgress: ClassVar[list[Any]] = []  # noqa: N815

        @property
        def lastProgress(self) -> Any:  # noqa: N802
            return self.recentProgress[-1]

        def tell(self, batch: int, rows: int) -> None:
            sources = [{"numInputRows": rows}]
            entry = {"batchId": batch, "timestamp": f"{len(self.recentProgress):09}", "sources": sources}
            self.recentProgress.append(SimpleNamespace(json=json.dumps(entry)))

    told: Any = Told()
    progress = QueryProgress(told)
    for batches in ([(4, 7)], [(5, 0)], [(5, 10), (6, 20)], [(7, 40)]):
        for batch, rows in batches:
            told.tell(batch, rows)
        progress.update()

    assert (progress.rows, progress.batches) == (77, 4)


def test_a_run_says_that_it_processes_its_first_batch() -> None:
    """Until Spark has counted its rows there are none to show, for minutes perhaps."""
    nobody: Any = None
    query: Any = SimpleNamespace(id="1", name=None, lastProgress=None)
    run = Run(Copy(), spark=nobody, url="", lake="lake")
    assert run.progress().note is None

    watched = run._watched(query)
    watched.update()
    assert run.progress().note == "processing first batch"

    watched.last = {"batchId": 0}
    assert run.progress().note is None


def test_a_run_shows_life_while_it_is_busy_elsewhere(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, dsn: str, database: psycopg.Connection, lake: str
) -> None:
    monkeypatch.setattr(reporting, "SHOW_S", 0.05)
    monkeypatch.setattr(reporting, "REPORT_S", 0.1)
    seen = threading.Event()

    def look(progress: Progress) -> None:
        if last_seen(database) == 5:
            seen.set()

    with running(Plain(), spark=spark, url=dsn, lake=lake, show=look) as run:
        run.count(5)
        assert seen.wait(20)
        assert last_run(database)["state"] == "running"


def last_seen(database: psycopg.Connection) -> int:
    return int(last_run(database)["rows"])


def test_paths_in_a_lake_are_absolute_or_as_given(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    here = Run(Copy(), spark=spark, url="", lake="lake", follow=True, interval_s=2.5)
    there = Run(Copy(), spark=spark, url="", lake="s3://bucket/lake/")

    assert (here.path("a", "b"), here.checkpoint("x")) == ("/lake/a/b", "/lake/_checkpoints/copy/x")
    assert there.path("a") == "s3://bucket/lake/a"
    assert (here.trigger(), there.trigger()) == ({"processingTime": "2500 milliseconds"}, {"availableNow": True})


def test_the_example_of_the_page_runs(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    page = (Path(__file__).parents[3] / "docs/pipelines.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    # Spark's processes have the environment of the whole test run. Nor do they have its folder.
    example = example.replace("env:DATABASE_URL", dsn).replace('"orders.jsonl"', repr(str(tmp_path / "orders.jsonl")))
    exec(compile(example, "docs/pipelines.md", "exec"), {})

    assert database.execute("select count(*) from penstock.jobs").fetchone() == (2,)
    assert last_run(database)["rows"] == 2
