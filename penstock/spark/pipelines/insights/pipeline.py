"""The pipeline `insights`: how much went through, how fast, and what went wrong, per name and hour."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.pipelines.claims import in_lake
from penstock.spark.pipelines.insights import events
from penstock.spark.pipelines.insights.errors import top_errors
from penstock.spark.pipelines.insights.rollups import (
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
from penstock.spark.pipelines.insights.writing import Recorder, Tables
from penstock.spark.pipelines.run import Run

_NOW = "select (extract(epoch from now()) * 1000000)::bigint"
_OWNER = "^t([1-9][0-9]{0,17}):"
"""What the name of a tenant's stream begins with; more digits are no tenant's."""
_STREAMS = "select count(*) from pgque.queue as q where q.queue_name ~ $1"
_TENANTS = "select t.id, t.name from penstock.tenants as t"


def now(database: Database) -> datetime:
    """The database's clock: what it stores carries no other times."""
    return datetime.fromtimestamp(int(database.value(_NOW)) / 1_000_000, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insights:
    """Throughput, latencies, retries, dead letters and errors, per name and hour."""

    name: ClassVar[str] = "insights"
    has_queries: ClassVar[bool] = True
    interval_s: ClassVar[float] = 60.0
    """How often a run that follows counts anew, unless it is told otherwise."""

    streams: tuple[str, ...] = ()
    """All of them, unless named."""
    consumer: str = "insights"
    """Two lakes of one stream need two, else one may lose what the other has read."""
    skip_lost: bool = False
    """Whether to go on when a stream has lost events that were not counted: it was dropped and made anew, say."""
    lateness_s: int = 7200
    """How late something may come to be counted in its hour."""
    hours_kept_days: int = 90
    days_kept_days: int = 730
    """How long PostgreSQL keeps hours and errors, and days. The lake keeps everything."""

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
        """How many events were too late."""
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
        path = run.place("insights", "events")
        events.make_table(path)
        source = {"url": run.url, "consumer": self.consumer, "failOnDataLoss": str(not self.skip_lost).lower()}
        source |= {"subscribe": ",".join(self.streams)} if self.streams else {"subscribePattern": ".*"}
        if not self.streams and not database.value(_STREAMS, "."):
            return 0
        query = events.start(
            run.spark, path, source=source, lateness_s=self.lateness_s, checkpoint=run.checkpoint("events"),
            moment=moment,
        )  # fmt: skip
        run.watch(query)
        return events.late(run.spark, path, query)


class _Round:
    """Counts everything anew that happened in hours which are still open, and leaves the closed ones alone.

    An hour is closed once a run began later than its end and the lateness after it. Only a late event may open it
    again, and then only its stream's row is counted anew.
    """

    def __init__(self, settings: Insights, run: Run, database: Database, moment: datetime) -> None:
        self._settings = settings
        self._run = run
        self._spark: SparkSession = run.spark
        self._database = database
        self._moment = moment
        self._tables = Tables(*(run.place("insights", each) for each in ("hourly", "daily", "errors")))
        self._mark = self._tables.mark()
        self._since = None if self._mark is None else _hour(self._mark - timedelta(seconds=settings.lateness_s))
        self._counts = lake.read(self._spark, run.place("insights", "events"))
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
            rows = recorder.rollups(fresh, "hour") + recorder.rollups(daily, "day") + recorder.errors(errors)
            if self._since is not None:
                recorder.settle(self._since, *self._retention())
            kept_errors = self._with_kept(errors, self._tables.errors)
            self._tables.write(sorted(recorder.dates), hourly, daily, kept_errors, self._moment)
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
        """The counted events of these hours, as parts of their streams."""
        counts = self._counts
        if self._since is not None:
            counts = counts.where((f.col("hour") >= f.lit(self._since)) | f.col("hour").isin(*self._reopened))
        tenants = self._spark.createDataFrame(self._database.rows(_TENANTS), "tenant_id bigint, tenant string")
        tenant_id = f.regexp_extract("stream", _OWNER, 1)
        return (
            counts.withColumn("tenant_id", f.when(tenant_id == "", 1).otherwise(tenant_id.cast("bigint")))
            .join(f.broadcast(tenants), "tenant_id")
            .groupBy("tenant", f.regexp_replace("stream", _OWNER, "").alias("name"), f.col("hour").alias("starts_at"))
            .agg(f.sum("sent").alias("sent"), f.sum("retried").alias("retried"), f.sum("retried").alias("failed"))
            .withColumns({"kind": f.lit("stream"), "done": f.lit(0), "dead": f.lit(0)})
        )

    def _given_up(self) -> DataFrame:
        """What is known of the dead letters of hours that were closed: the letters themselves may be gone by now."""
        stored = lake.read(self._spark, self._tables.hourly)
        of_streams = stored.where((f.col("kind") == "stream") & f.col("starts_at").isin(*self._reopened))
        counts = {**dict.fromkeys(COUNTS, f.lit(0)), "failed": f.col("dead"), "dead": f.col("dead")}
        return of_streams.select(*KEY, "starts_at", *(counts[name].alias(name) for name in COUNTS), "max_s", "sketch")

    def _with_kept(self, fresh: DataFrame, path: str) -> DataFrame:
        """All of the dates that are written anew: what was counted, and what is stored of the closed hours."""
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
