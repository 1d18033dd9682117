"""A run of a pipeline: what the pipeline works with, and what is reported while it runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.lake.checkpoints import checkpoints_of, remember_checkpoints
from penstock.spark.pipelines.batch_spans import BatchSpans
from penstock.spark.pipelines.causes import cause
from penstock.spark.pipelines.claims import ClaimedError, Claims
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.progress import Progress, QueryProgress, StreamPosition
from penstock.spark.pipelines.reporting import Reporter, Show, report_last
from penstock.spark.pipelines.run_log import RunLog, described, scrubbed

POLL_S = 0.5
STOP_TIMEOUT_S = 60.0
"""How long a stopped query may take to finish its batch. The next run repeats a batch that was cut off."""
STARTS = 3
SLOW_START = "Python worker failed to connect back"


class RunStopped(Exception):
    """The user stopped the run; what was written so far is complete."""


class Run:
    """What a pipeline works with. Made by `running`."""

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
        began: float | None = None,
    ) -> None:
        self.spark = spark
        self.url = url
        self.lake = _absolute(lake)
        self.follow = follow
        self.pipeline = pipeline.name
        self.state = "running"
        self.error: str | None = None
        self.results: list[dict[str, Any]] = []
        """A short table for the user. It is stored with the run."""
        self.interval_s: float = pipeline.interval_s if interval_s is None else interval_s
        self._spans = BatchSpans(url, pipeline.owner, pipeline.name)
        self._claims = claims
        self._checkpoints = checkpoints
        self._stop = threading.Event()
        self._claim_lost: ClaimedError | None = None
        self._started_at = time.monotonic()
        self._began = self._started_at if began is None else began
        self._queries: list[QueryProgress] = []
        self._rows = self._batches = 0
        self._note: str | None = None
        self._recent: list[tuple[float, int]] = [(self._started_at, 0)]
        self._lag: tuple[int | None, float | None] = (None, None)

    # For pipelines

    def trigger(self) -> dict[str, Any]:
        """For `writeStream.trigger(**run.trigger())`."""
        if not self.follow:
            return {"availableNow": True}
        return {"processingTime": f"{int(self.interval_s * 1000)} milliseconds"}

    def path(self, *parts: str) -> str:
        """A path below the lake."""
        return "/".join([self.lake.rstrip("/"), *parts])

    def checkpoint(self, name: str) -> str:
        root = checkpoints_of(self.lake, self._checkpoints)
        remember_checkpoints(self.lake, self.pipeline, root)
        return "/".join([root, self.pipeline, name])

    def watch(self, *queries: StreamingQuery) -> None:
        """Wait until all queries have ended or the run is stopped. The first error stops the others and is raised."""
        watched = [self._watched(query) for query in queries]
        pause = 0.05
        try:
            while any(query.isActive for query in queries) and not any(_failed(query) for query in queries):
                self._update(watched)
                if self._stop.wait(pause):
                    _finish(watched)
                    break
                pause = min(pause * 2, POLL_S)
        finally:
            for query in queries:
                if query.isActive:
                    query.stop()
            self._update(watched)
        for query in queries:
            if (error := query.exception()) is not None:
                raise error
        self.check()

    def note(self, text: str | None) -> None:
        """Set the line that says what the run is doing; None clears it."""
        self._note = text

    def count(self, rows: int) -> None:
        """Count rows that no streaming query processed; each call counts as one batch."""
        self._rows += rows
        self._batches += 1

    def check(self) -> None:
        """End the run here when it was stopped. For steps that are not streaming queries."""
        if self._stop.is_set():
            raise self._claim_lost or RunStopped

    @contextmanager
    def claimed(self, name: str) -> Iterator[None]:
        """Claim a name for the block. `Pipeline.claims` gives the names for a whole run."""
        if self._claims is None:
            yield
        else:
            with self._claims.taken(name):
                yield

    # For the code that runs a pipeline

    def stop(self) -> None:
        """Finish the current batches, then stop. May be called from a signal handler."""
        self._stop.set()

    def keep_claims(self) -> None:
        """Renew the claims; stop the run when another run has taken one, which needs a database restart."""
        try:
            if self._claims is not None:
                self._claims.keep()
        except ClaimedError as error:
            self._claim_lost = error
            self._stop.set()

    def progress(self) -> Progress:
        now, rows = time.monotonic(), self.rows
        self._recent = [(at, count) for at, count in self._recent if now - at < 10.0][-30:] or self._recent[-1:]
        at, count = (self._started_at, 0) if self.state != "running" else self._recent[0]
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
            note=self._full_note(),
        )

    @property
    def rows(self) -> int:
        return self._rows + sum(query.rows for query in self._queries)

    @property
    def batches(self) -> int:
        return self._batches + sum(query.batches for query in self._queries)

    def report(self, log: RunLog) -> None:
        self._lag = log.lag(self._positions())
        log.report(
            self.state,
            rows=self.rows,
            batches=self.batches,
            lag=self._lag,
            note=self._full_note(),
            error=self.error,
            progress={"queries": [query.described() for query in self._queries], "results": self.results[:100]},
        )

    def _full_note(self) -> str | None:
        """The pipeline's note, whether the first batch is running, and which events were lost."""
        is_first = self.state == "running" and not self.rows and any(query.last is None for query in self._queries)
        skipped = {stream: ticks for query in self._queries for stream, ticks in query.skipped.items()}
        lost = [
            f"skipped lost events of stream {stream!r}, ticks {ticks['from']} to {ticks['to']}"
            for stream, ticks in skipped.items()
        ]
        parts = [self._note, "processing first batch" if is_first else None, *lost]
        return "; ".join(filter(None, parts)) or None

    def _positions(self) -> dict[str, StreamPosition]:
        """How far each stream is read, by the query that is furthest behind."""
        found: dict[str, StreamPosition] = {}
        for query in self._queries:
            for stream, position in query.positions.items():
                found[stream] = min(position, found.get(stream, position), key=itemgetter("tick"))
        return found

    def _watched(self, query: StreamingQuery) -> QueryProgress:
        """The progress of a query. One that is started again, as in rounds, continues its counts."""
        watched = QueryProgress(query, on_batch=self._spans.add)
        before = next((each for each in self._queries if each.id == watched.id), None)
        if before is not None:
            watched = QueryProgress(
                query, before.rows, before.batches, before.positions, before.skipped, on_batch=self._spans.add
            )
        # One assignment: the reporter's thread reads the list at the same time.
        self._queries = [*(each for each in self._queries if each is not before), watched]
        return watched

    def _update(self, watched: list[QueryProgress]) -> None:
        for query in watched:
            query.update()


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
    claims: Claims | None = None,
    show: Show | None = None,
    began: float | None = None,
) -> Iterator[Run]:
    """A run with its row in the database, which is updated until the block ends.

    `claims` are those that `preflight.prepared` took before Spark was started, `began` is when that was, by
    `time.monotonic`.
    """
    settings = {**described(pipeline), "lake": scrubbed(_absolute(lake)), "follow": follow}
    log = RunLog.start(url, pipeline.owner, pipeline.name, settings)
    claimant = f"run {log.run_id} of {pipeline.name}"
    if claims is None:
        claims = Claims(url, claimant)
    else:
        claims.rename(claimant)
    run = Run(
        pipeline, spark=spark, url=url, lake=lake, follow=follow, interval_s=interval_s, claims=claims,
        checkpoints=checkpoints, began=began,
    )  # fmt: skip
    reporter = Reporter(run, url, log.run_id, show)
    reporter.start()
    try:
        claims.take(pipeline.claims(lake))
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
    """Run a pipeline to its end. `checkpoints` is a folder for Spark's checkpoints when the lake is not a folder."""
    settings: dict[str, Any] = {"follow": follow, "interval_s": interval_s, "checkpoints": checkpoints, "show": show}
    with running(pipeline, spark=spark, url=url, lake=lake, **settings) as run:
        run_to_end(pipeline, run)


def run_to_end(pipeline: Pipeline, run: Run) -> None:
    """Run the pipeline's queries. When Python was too slow to start, which a busy machine causes, start them again.

    Spark waits ten seconds for a new Python process, and no setting changes that. Checkpoints make a new start safe.
    """
    for _ in range(STARTS - 1):
        try:
            return pipeline.run(run)
        except StreamingQueryException as error:
            if SLOW_START not in str(error):
                raise
        run.check()
    pipeline.run(run)


def _failed(query: StreamingQuery) -> bool:
    return not query.isActive and query.exception() is not None


def _finish(watched: list[QueryProgress]) -> None:
    """Let each query finish its batch: the next run would repeat a batch that is cut off."""
    until = time.monotonic() + STOP_TIMEOUT_S
    batches = [_batch(each) for each in watched]
    for each, batch in zip(watched, batches, strict=True):
        while each.query.isActive and each.query.status["isTriggerActive"] and time.monotonic() < until:
            each.update()
            if _batch(each) != batch:
                break
            time.sleep(0.1)
        each.query.stop()


def _batch(progress: QueryProgress) -> str | None:
    return None if progress.last is None else progress.last["timestamp"]


def _absolute(lake: str) -> str:
    """Spark's workers have other working directories."""
    return lake if "://" in lake else os.path.abspath(lake)
