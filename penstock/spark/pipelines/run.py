"""A run of a pipeline: what the pipeline works with, and what is told of it while it works."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from operator import itemgetter
from typing import Any, ClassVar, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.lake.checkpoints import checkpoints_of, remember_checkpoints
from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.storage import folder, is_folder, make
from penstock.spark.pipelines.causes import cause
from penstock.spark.pipelines.claims import ClaimedError, Claims
from penstock.spark.pipelines.progress import Place, Progress, QueryProgress
from penstock.spark.pipelines.reporting import Reporter, Show, report_last
from penstock.spark.pipelines.run_log import RunLog, described, scrubbed

INTERVAL_S = 10.0
"""How often a pipeline that follows looks for more."""
LOOK_S = 0.5
SETTLE_S = 60.0
"""How long a stopped query may take to finish the batch it is in. What is cut off is done again by the next run."""


class Pipeline(Protocol):
    """A frozen dataclass of settings. A field `tenant` says whose the run is.

    It may have more: `interval_s`, how often it looks for more unless someone says otherwise; `has_queries`, when it
    needs a place for checkpoints; `claims(lake)`, the names of what no other run may work on meanwhile; and what is
    asked before Spark is started, which takes a while: `check(follow)`, of settings alone, and `check_database(url)`.
    """

    name: ClassVar[str]

    def run(self, run: Run) -> None: ...


class PipelineError(Exception):
    """Something that the one who runs the pipeline can put right; its text says what."""


class RunStopped(Exception):
    """Someone asked the run to end; what was done so far is good."""


class Run:
    """What a pipeline is given. Made by `running`."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        spark: SparkSession,
        url: str,
        lake: str,
        follow: bool = False,
        interval_s: float | None = None,
        claims: Claims | None = None,
        checkpoints: str | None = None,
    ) -> None:
        self.spark = spark
        self.url = url
        self.lake = _absolute(lake)
        self.follow = follow
        self.pipeline = pipeline.name
        self.state = "running"
        self.error: str | None = None
        self.results: list[dict[str, Any]] = []
        """Rows of a table that a pipeline leaves for whoever ran it; stored with the run, so short and few."""
        self.interval_s: float = getattr(pipeline, "interval_s", INTERVAL_S) if interval_s is None else interval_s
        self._claims = claims
        self._checkpoints = checkpoints
        self._stop = threading.Event()
        self._lost: ClaimedError | None = None
        self._began = time.monotonic()
        self._queries: list[QueryProgress] = []
        self._rows = self._batches = 0
        self._note: str | None = None
        self._recent: list[tuple[float, int]] = [(self._began, 0)]
        self._lag: tuple[int | None, float | None] = (None, None)

    # For pipelines

    def trigger(self) -> dict[str, Any]:
        """For `writeStream.trigger(**run.trigger())`."""
        if not self.follow:
            return {"availableNow": True}
        return {"processingTime": f"{int(self.interval_s * 1000)} milliseconds"}

    def place(self, *parts: str) -> str:
        """A path below the lake."""
        return "/".join([self.lake.rstrip("/"), *parts])

    def checkpoint(self, name: str) -> str:
        place = checkpoints_of(self.lake, self._checkpoints)
        remember_checkpoints(self.lake, self.pipeline, place)
        return "/".join([place, self.pipeline, name])

    def watch(self, *queries: StreamingQuery) -> None:
        """Until all have ended, or the run is stopped. The error of one ends the others, and is raised."""
        watched = [self._watched(query) for query in queries]
        pause = 0.05
        try:
            while any(query.isActive for query in queries) and not any(_failed(query) for query in queries):
                self._look(watched)
                if self._stop.wait(pause):
                    _finish(watched)
                    break
                pause = min(pause * 2, LOOK_S)
        finally:
            for query in queries:
                if query.isActive:
                    query.stop()
            self._look(watched)
        for query in queries:
            if (error := query.exception()) is not None:
                raise error
        self.check()

    def note(self, text: str | None) -> None:
        """One line on what is being done, shown and stored; None when it is done."""
        self._note = text

    def count(self, rows: int) -> None:
        """Rows done by parts that are not streaming queries; each call is a batch."""
        self._rows += rows
        self._batches += 1

    def check(self) -> None:
        """Between the steps of parts that are not streaming queries: ends the run when it was told to stop."""
        if self._stop.is_set():
            raise self._lost or RunStopped

    @contextmanager
    def claimed(self, name: str) -> Iterator[None]:
        """What is known only now to be worked on, for the run alone; `claims` of a pipeline holds for all of a run."""
        if self._claims is None:
            yield
        else:
            with self._claims.taken(name):
                yield

    # For whoever runs it

    def stop(self) -> None:
        """End in good order: batches are finished, then the run is stopped. May be called from a signal handler."""
        self._stop.set()

    def keep_claims(self) -> None:
        """Ends the run when what it works on has become another's, which takes a database that was away."""
        try:
            if self._claims is not None:
                self._claims.keep()
        except ClaimedError as error:
            self._lost = error
            self._stop.set()

    def progress(self) -> Progress:
        now, rows = time.monotonic(), self.rows
        self._recent = [(at, count) for at, count in self._recent if now - at < 10.0][-30:] or self._recent[-1:]
        at, count = (self._began, 0) if self.state != "running" else self._recent[0]
        self._recent.append((now, rows))
        return Progress(
            pipeline=self.pipeline,
            state=self.state,
            rows=rows,
            batches=self.batches,
            rows_per_s=(rows - count) / max(now - at, 0.001),
            lag_events=self._lag[0],
            lag_s=self._lag[1],
            elapsed_s=now - self._began,
            note=self._told(),
        )

    @property
    def rows(self) -> int:
        return self._rows + sum(query.rows for query in self._queries)

    @property
    def batches(self) -> int:
        return self._batches + sum(query.batches for query in self._queries)

    def report(self, log: RunLog) -> None:
        self._lag = log.lag(self._places())
        log.report(
            self.state,
            rows=self.rows,
            batches=self.batches,
            lag=self._lag,
            note=self._told(),
            error=self.error,
            progress={"queries": [query.described() for query in self._queries], "results": self.results[:100]},
        )

    def _told(self) -> str | None:
        """The pipeline's note, and what no pipeline knows of: that Spark is busy, and which events are lost."""
        begins = self.state == "running" and not self.rows and any(query.last is None for query in self._queries)
        skipped = {stream: ticks for query in self._queries for stream, ticks in query.skipped.items()}
        lost = [
            f"skipped what was gone of stream {stream!r}, from tick {ticks['from']} to {ticks['to']}"
            for stream, ticks in skipped.items()
        ]
        said = [self._note, "the first batch is under way" if begins else None, *lost]
        return "; ".join(filter(None, said)) or None

    def _places(self) -> dict[str, Place]:
        """How far each stream is read by all queries: by the one that is the furthest behind."""
        found: dict[str, Place] = {}
        for query in self._queries:
            for stream, place in query.places.items():
                found[stream] = min(place, found.get(stream, place), key=itemgetter("tick"))
        return found

    def _watched(self, query: StreamingQuery) -> QueryProgress:
        """A query that is started again, as in rounds, goes on counting."""
        watched = QueryProgress(query)
        before = next((each for each in self._queries if each.id == watched.id), None)
        if before is not None:
            watched = QueryProgress(query, before.rows, before.batches, before.places, before.skipped)
        # In one go: the reporter reads the list meanwhile.
        self._queries = [*(each for each in self._queries if each is not before), watched]
        return watched

    def _look(self, watched: list[QueryProgress]) -> None:
        for query in watched:
            query.look()


def check(pipeline: Pipeline, follow: bool) -> None:
    """Raises when its settings cannot be."""
    if (asked := getattr(pipeline, "check", None)) is not None:
        asked(follow)


def check_checkpoints(pipeline: Pipeline, lake: str, checkpoints: str | None) -> None:
    """Raises when there is no place for those of its queries, or it is not the one that the lake knows."""
    if _has_queries(pipeline):
        remember_checkpoints(lake, pipeline.name, checkpoints_of(lake, checkpoints))
    elif checkpoints is not None:
        raise PipelineError(f"{pipeline.name} has no streaming queries: leave --checkpoints out")


def check_database(pipeline: Pipeline, url: str, lake: str | None = None) -> None:
    """Raises when the database lacks what the pipeline needs there, or another run works on the same."""
    if (asked := getattr(pipeline, "check_database", None)) is not None:
        asked(url)
    if lake is not None:
        with closing(Claims(url, f"a run of {pipeline.name}")) as claims:
            claims.take(_claims(pipeline, lake))


def check_lake(pipeline: Pipeline, lake: str) -> None:
    """Raises when the pipeline's queries cannot write there."""
    if _has_queries(pipeline) and is_folder(lake):
        try:
            make(lake)
            if not os.access(folder(lake), os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise LakeError(f"the lake {lake} cannot be written: {error.strerror}") from None


def _has_queries(pipeline: Pipeline) -> bool:
    return getattr(pipeline, "has_queries", False)


def _claims(pipeline: Pipeline, lake: str) -> Sequence[str]:
    asked = getattr(pipeline, "claims", None)
    return () if asked is None else asked(lake)


@contextmanager
def running(
    pipeline: Pipeline,
    *,
    spark: SparkSession,
    url: str,
    lake: str,
    follow: bool = False,
    interval_s: float | None = None,
    checkpoints: str | None = None,
    show: Show | None = None,
) -> Iterator[Run]:
    """A run with its row in the database, which is kept up to date until the block ends, one way or another."""
    settings = {**described(pipeline), "lake": scrubbed(_absolute(lake)), "follow": follow}
    log = RunLog.start(url, getattr(pipeline, "tenant", "default"), pipeline.name, settings)
    claims = Claims(url, f"run {log.run_id} of {pipeline.name}")
    run = Run(
        pipeline, spark=spark, url=url, lake=lake, follow=follow, interval_s=interval_s, claims=claims,
        checkpoints=checkpoints,
    )  # fmt: skip
    reporter = Reporter(run, url, log.run_id, show)
    reporter.start()
    try:
        claims.take(_claims(pipeline, lake))
        yield run
        run.state = "done"
    except (RunStopped, KeyboardInterrupt) as stopped:
        run.state = "stopped"
        if isinstance(stopped, KeyboardInterrupt):
            raise
    except BaseException as error:
        run.state, run.error = "failed", cause(error)
        raise
    finally:
        reporter.end()
        claims.close()
        report_last(run, log)
        if show is not None:
            show(run.progress())


def run_pipeline(
    pipeline: Pipeline,
    *,
    spark: SparkSession,
    url: str,
    lake: str,
    follow: bool = False,
    interval_s: float | None = None,
    checkpoints: str | None = None,
    show: Show | None = None,
) -> None:
    """Run a pipeline to its end. `checkpoints` is a folder for them, when the lake is none itself."""
    settings: dict[str, Any] = {"follow": follow, "interval_s": interval_s, "checkpoints": checkpoints, "show": show}
    with running(pipeline, spark=spark, url=url, lake=lake, **settings) as run:
        pipeline.run(run)


def _failed(query: StreamingQuery) -> bool:
    return not query.isActive and query.exception() is not None


def _finish(watched: list[QueryProgress]) -> None:
    """Let each query end the batch it is in: a batch that is cut off is work done twice."""
    until = time.monotonic() + SETTLE_S
    batches = [_batch(each) for each in watched]
    for each, batch in zip(watched, batches, strict=True):
        while each.query.isActive and each.query.status["isTriggerActive"] and time.monotonic() < until:
            each.look()
            if _batch(each) != batch:
                break
            time.sleep(0.1)
        each.query.stop()


def _batch(progress: QueryProgress) -> str | None:
    return None if progress.last is None else progress.last["timestamp"]


def _absolute(lake: str) -> str:
    """Spark's workers have working directories of their own."""
    return lake if "://" in lake else os.path.abspath(lake)
