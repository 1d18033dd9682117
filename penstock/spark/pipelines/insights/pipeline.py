"""The pipeline `insights`: counts, latencies and errors, per name and hour."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.queries import parse
from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.pipelines.claims import in_lake
from penstock.spark.pipelines.insights import events
from penstock.spark.pipelines.insights.errors import top_errors
from penstock.spark.pipelines.insights.numbers import (
    COUNTS,
    DAY_S,
    HOUR_S,
    KEY,
    date_of,
    merged,
    parts,
    starting,
    with_rate_per_second,
)
from penstock.spark.pipelines.insights.writing import Recorder, Tables, write_findings
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.run import Run
from penstock.spark.streams import Stream

SQL = parse((Path(__file__).parent / "insights.sql").read_text("utf-8"))

_OWNER = "^t([1-9][0-9]{0,17}):"
"""Prefix of the name of a tenant's stream; longer numbers belong to no tenant."""


def now(database: Database) -> datetime:
    """The time of the database's clock, which all stored timestamps come from."""
    return datetime.fromtimestamp(int(database.value(SQL["now"])) / 1_000_000, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insights(Pipeline):
    """Throughput, latencies, retries, dead letters and errors, per name and hour."""

    name: ClassVar[str] = "insights"
    has_queries: ClassVar[bool] = True
    interval_s: ClassVar[float] = 60.0

    streams: tuple[str, ...] = ()
    """Streams to count; empty means all."""
    consumer: str = "insights"
    """Consumer name. Use a different one for each lake: rotation keeps only what the consumer has not read."""
    skip_lost: bool = False
    """Whether to continue when a stream has lost events that were not counted, for example because it was dropped."""
    lateness_s: int = 7200
    """Seconds that an event may be late and still be counted in its hour."""
    hours_kept_days: int = 90
    days_kept_days: int = 730
    """Days that PostgreSQL keeps hourly rows and errors, and daily rows. The lake keeps everything."""

    def check_database(self, url: str) -> None:
        with closing(Database(url)) as database:
            for stream in self.streams:
                Stream(database, stream).check()

    def claims(self, lake: str) -> list[str]:
        return [in_lake("the insights", lake)]

    def run(self, run: Run) -> None:
        late = 0
        while True:
            due = time.monotonic() + run.interval_s
            late += self._round(run, late)
            if not run.follow:
                return
            while time.monotonic() < due:
                run.check()
                time.sleep(min(0.5, run.interval_s))

    def _round(self, run: Run, late_before: int) -> int:
        """Count once; returns how many events were too late."""
        database = Database(run.url)
        try:
            moment = now(database)
            late = self._count_events(run, database, moment)
            run.check()
            rows = _Round(self, run, database, moment).write()
        finally:
            database.close()
        run.count(rows)
        run.note(
            f"{rows} rows up to {moment:%Y-%m-%d %H:%M:%S} UTC; {late_before + late} events were too late to be counted"
        )
        return late

    def _count_events(self, run: Run, database: Database, moment: datetime) -> int:
        path = run.path("insights", "events")
        events.make_table(path)
        source = {"url": run.url, "consumer": self.consumer, "failOnDataLoss": str(not self.skip_lost).lower()}
        source |= {"subscribe": ",".join(self.streams)} if self.streams else {"subscribePattern": ".*"}
        if not self.streams and not database.value(SQL["count_streams"]):
            return 0
        query = events.start(
            run.spark, path, source=source, lateness_s=self.lateness_s, checkpoint=run.checkpoint("events"),
            moment=moment,
        )  # fmt: skip
        run.watch(query)
        return events.late(run.spark, path, query)


class _Round:
    """Counts the hours that are still open again, and leaves closed hours as they are.

    An hour is closed when a run started later than the end of the hour plus the allowed lateness. Only a late event
    opens it again, and then only the row of its stream is counted again.
    """

    def __init__(self, settings: Insights, run: Run, database: Database, moment: datetime) -> None:
        self._settings = settings
        self._run = run
        self._spark: SparkSession = run.spark
        self._database = database
        self._moment = moment
        self._tables = Tables(*(run.path("insights", each) for each in ("hourly", "daily", "errors")))
        self._mark = self._tables.mark()
        self._since = None if self._mark is None else _hour(self._mark - timedelta(seconds=settings.lateness_s))
        self._counts = lake.read(self._spark, run.path("insights", "events"))
        self._reopened = (
            []
            if self._mark is None or self._since is None
            else events.changed_hours(self._counts, self._mark, self._since)
        )

    def write(self) -> int:
        facts = self._facts().persist()
        fresh = self._hours(facts).persist()
        errors = _dated(top_errors(facts)).persist()
        self._tables.fit(fresh, errors)
        hourly = self._with_kept(fresh, self._tables.hourly).persist()
        daily = self._days(hourly).persist()
        try:
            recorder = Recorder(self._database, self._moment)
            rows = recorder.insights(fresh, "hour") + recorder.insights(daily, "day") + recorder.errors(errors)
            if self._since is not None:
                recorder.settle(self._since, *self._retention())
            kept_errors = self._with_kept(errors, self._tables.errors)
            self._tables.write(sorted(recorder.dates), hourly, daily, kept_errors, self._moment)
            write_findings(self._run.path("insights", "findings"), self._database, self._moment)
            return rows
        finally:
            for frame in (facts, fresh, errors, hourly, daily):
                frame.unpersist()

    def _facts(self) -> DataFrame:
        options = {"url": self._run.url, "table": "facts"}
        if self._since is not None:
            options["startingTimestamp"] = self._since.isoformat()
        facts = self._spark.read.format("penstock").options(**options).load()
        return facts.withColumn("starts_at", starting(f.col("at"), HOUR_S))

    def _hours(self, facts: DataFrame) -> DataFrame:
        together = parts(facts).unionByName(self._sent(), allowMissingColumns=True)
        if self._reopened:
            together = together.unionByName(self._given_up())
        rows = merged(together, [*KEY, "starts_at"])
        return _dated(with_rate_per_second(rows, HOUR_S, f.lit(self._moment)))

    def _sent(self) -> DataFrame:
        """The event counts of these hours, as parts of their streams."""
        counts = self._counts
        if self._since is not None:
            counts = counts.where((f.col("hour") >= f.lit(self._since)) | f.col("hour").isin(*self._reopened))
        tenants = self._spark.createDataFrame(self._database.rows(SQL["tenants"]), "tenant_id bigint, tenant string")
        tenant_id = f.regexp_extract("stream", _OWNER, 1)
        return (
            counts.withColumn("tenant_id", f.when(tenant_id == "", 1).otherwise(tenant_id.cast("bigint")))
            .join(f.broadcast(tenants), "tenant_id")
            .groupBy("tenant", f.regexp_replace("stream", _OWNER, "").alias("name"), f.col("hour").alias("starts_at"))
            .agg(f.sum("sent").alias("sent"), f.sum("retried").alias("retried"), f.sum("retried").alias("failed"))
            .withColumns({"kind": f.lit("stream"), "done": f.lit(0), "dead": f.lit(0)})
        )

    def _given_up(self) -> DataFrame:
        """Stored counts of dead letters in hours that were reopened: the dead letters themselves may be deleted."""
        stored = lake.read(self._spark, self._tables.hourly)
        of_streams = stored.where((f.col("kind") == "stream") & f.col("starts_at").isin(*self._reopened))
        counts = {**dict.fromkeys(COUNTS, f.lit(0)), "failed": f.col("dead"), "dead": f.col("dead")}
        return of_streams.select(*KEY, "starts_at", *(counts[name].alias(name) for name in COUNTS), "max_s", "sketch")

    def _with_kept(self, fresh: DataFrame, path: str) -> DataFrame:
        """All rows of the dates to rewrite: those just counted, and the stored rows of closed hours."""
        if self._since is None or not lake.exists(path):
            return fresh
        touched = f.col("date") >= f.lit(self._since.date())
        if self._reopened:
            touched |= f.col("date").isin(*{moment.date() for moment in self._reopened})
        is_reopened = f.col("starts_at").isin(*self._reopened) & (f.col("kind") == "stream")
        counted = f.col("starts_at") >= f.lit(self._since)
        if path == self._tables.hourly:
            counted |= is_reopened
        return fresh.unionByName(lake.read(self._spark, path).where(touched & ~counted))

    def _days(self, hourly: DataFrame) -> DataFrame:
        rows = merged(hourly.withColumn("starts_at", starting(f.col("starts_at"), DAY_S)), [*KEY, "starts_at"])
        return _dated(with_rate_per_second(rows, DAY_S, f.lit(self._moment)))

    def _retention(self) -> tuple[timedelta, timedelta]:
        return timedelta(days=self._settings.hours_kept_days), timedelta(days=self._settings.days_kept_days)


def _dated(frame: DataFrame) -> DataFrame:
    return frame.withColumn("date", date_of(f.col("starts_at")))


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
