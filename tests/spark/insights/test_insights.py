"""The pipeline insights: the same numbers as counted by hand, however often it runs and whatever comes late."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from penstock.spark import lake
from penstock.spark.pipelines.insights import Insights
from penstock.spark.pipelines.insights import pipeline as insights_pipeline
from penstock.spark.pipelines.insights.numbers import COUNTS
from penstock.spark.pipelines.insights.writing import Tables
from penstock.spark.pipelines.run import run_pipeline
from tests.spark.insights.history import HOUR, NOW, History

pytestmark = pytest.mark.timeout(300)

COUNTED = (Path(__file__).parent / "history.sql").read_text("utf-8")
TENANTS = {1: "default", 7: "other"}

Key = tuple[str, str, str, datetime]
Numbers = dict[str, Any]


class Counting:
    """Runs the pipeline at moments of the test's choosing, and knows what it recorded."""

    def __init__(
        self, spark: SparkSession, dsn: str, database: psycopg.Connection, folder: Path, patch: pytest.MonkeyPatch
    ) -> None:
        self._spark, self._dsn, self._database, self._patch = spark, dsn, database, patch
        self.lake = str(folder / "lake")

    def run(self, moment: datetime, **settings: Any) -> str:
        """What the run has to say."""
        self._patch.setattr(insights_pipeline, "now", lambda database: moment)
        run_pipeline(Insights(**settings), spark=self._spark, url=self._dsn, lake=self.lake)
        row = self._database.execute("select note from penstock.pipeline_runs order by id desc limit 1").fetchone()
        assert row is not None
        return str(row[0])

    def recorded(self, step: str = "hour") -> dict[Key, Numbers]:
        with self._database.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            cursor.execute(
                """
                select t.name as tenant, r.*
                from penstock.insights as r join penstock.tenants as t on t.id = r.tenant_id
                where r.step = %s
                """,
                [step],
            )
            return {(row["kind"], row["tenant"], row["name"], row["starts_at"]): row for row in cursor}

    def in_lake(self, table: str) -> dict[Key, Numbers]:
        frame = lake.read(self._spark, f"{self.lake}/insights/{table}").withColumn("at", f.unix_micros("starts_at"))
        found: dict[Key, Numbers] = {}
        for row in frame.collect():
            moment = datetime.fromtimestamp(row["at"] / 1_000_000, NOW.tzinfo)
            key = (row["kind"], row["tenant"], row["name"], moment)
            assert key not in found
            found[key] = row.asDict()
        return found

    def counted(self, step: timedelta = HOUR) -> dict[Key, Numbers]:
        """By SQL over the whole history."""
        found: dict[Key, Numbers] = defaultdict(lambda: dict.fromkeys(COUNTS, 0) | {"latency": []})
        for kind, tenant, name, moment, what, number in self._database.execute(COUNTED):
            start = datetime.fromtimestamp(
                moment.timestamp() // step.total_seconds() * step.total_seconds(), NOW.tzinfo
            )
            numbers = found[(kind, TENANTS[tenant], name, start)]
            numbers[what] += [float(number)] if what == "latency" else number
        return dict(found)


@pytest.fixture
def counting(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Counting:
    return Counting(spark, dsn, database, tmp_path, monkeypatch)


def check(recorded: dict[Key, Numbers], counted: dict[Key, Numbers]) -> None:
    assert recorded.keys() == counted.keys()
    for key, numbers in counted.items():
        found = recorded[key]
        assert {count: found[count] for count in COUNTS} == {count: numbers[count] for count in COUNTS}, key
        exact = sorted(numbers["latency"])
        if not exact:
            assert (found["p50_s"], found["max_s"]) == (None, None), key
            continue
        # So few that a sketch holds all of them.
        expected = {name: exact[ceil(rank * len(exact)) - 1] for name, rank in (("p50_s", 0.5), ("p95_s", 0.95))}
        assert {name: found[name] for name in expected} == pytest.approx(expected), key
        assert found["max_s"] == pytest.approx(exact[-1]), key


@pytest.mark.slow
def test_every_count_is_the_one_that_sql_comes_to_however_often_it_runs(
    counting: Counting, database: psycopg.Connection, spark: SparkSession
) -> None:
    history = History(database)
    history.write(NOW - 27 * HOUR, NOW)

    counting.run(NOW)
    first = counting.recorded()
    check(first, counting.counted())
    check(counting.recorded("day"), counting.counted(24 * HOUR))
    assert {key: row["sent"] for key, row in counting.in_lake("hourly").items()} == {
        key: row["sent"] for key, row in first.items()
    }
    answers = "select question, name, before, now from penstock.findings(1, %s, true) order by 1, 2"
    told = [tuple(row) for row in database.execute(answers, [NOW])]
    kept = lake.read(spark, f"{counting.lake}/insights/findings").where("tenant = 'default'")
    assert sorted(map(tuple, kept.select("question", "name", "before", "now").collect())) == sorted(told)
    assert told

    # Two hours later: new things, late ones, and some that are too late for their hours.
    later = NOW + 2 * HOUR
    expected = counting.counted()
    history.write(NOW - HOUR, later)
    grown = counting.counted()
    for _ in range(3):
        history.event("orders", NOW - 10 * HOUR)
    database.execute(
        """
        insert into penstock.archive (id, tenant_id, queue, sent_at, archived_at, receives, priority, is_json, body)
        values (0, 1, 'a', %(at)s, %(at)s, 1, 0, false, '')
        """,
        {"at": NOW - 10 * HOUR},
    )
    note = counting.run(later)
    assert "; 3 events were too late to be counted" in note
    assert expected != grown
    check(counting.recorded(), grown)

    again = counting.run(later + timedelta(minutes=1))
    assert "; 0 events were too late to be counted" in again
    check(counting.recorded(), grown)
    check(counting.in_lake("hourly"), grown)
    assert counting.in_lake("daily").keys() == counting.recorded("day").keys()
    _check_errors(counting, database)
    assert len(_shown_in_the_documentation(spark, counting.lake)) == 7


def _shown_in_the_documentation(spark: SparkSession, folder: str) -> list[Row]:
    """The rows of the page's own example, without its condition on the days."""
    page = (Path(__file__).parents[3] / "docs" / "insights.md").read_text("utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = example.replace("/var/lib/lake", folder).replace(".isin(1, 7)", ".isin(*range(1, 8))")
    names: dict[str, Any] = {"spark": spark}
    exec(script.replace("\nmerged(", "\nshown = merged(").replace(".show()", ".collect()"), names)
    found: list[Row] = names["shown"]
    return found


def _check_errors(counting: Counting, database: psycopg.Connection) -> None:
    """Every failure has a reason, and the reasons are few."""
    recorded = database.execute(
        "select kind, sum(count), count(distinct shape) from penstock.insight_errors group by 1"
    )
    totals = {kind: (int(count), shapes) for kind, count, shapes in recorded}
    with_reason = dict.fromkeys(totals, 0)
    for (kind, *_), numbers in counting.counted().items():
        with_reason[kind] += numbers["failed" if kind == "job" else "dead"]

    assert {kind: count for kind, (count, _) in totals.items()} == with_reason
    assert {kind: shapes for kind, (_, shapes) in totals.items()} == {"job": 4, "delivery": 3, "stream": 3, "queue": 1}


@pytest.mark.slow
def test_a_late_event_opens_its_hour_again_and_nothing_else_changes(
    counting: Counting, database: psycopg.Connection
) -> None:
    history = History(database)
    history.event("orders", NOW - 6 * HOUR)
    history.event("orders", NOW - 7 * HOUR)
    history.dead_letter("orders", NOW - 8 * HOUR, NOW - 7 * HOUR)
    database.execute("select penstock.send('a', 'x')")
    database.execute("update penstock.messages set sent_at = %s", [NOW - 7 * HOUR])
    counting.run(NOW)

    # By now what is known of the hour is only in the insights; the event is within the lateness of the last event.
    database.execute("delete from pgque.dead_letter")
    database.execute("delete from penstock.messages")
    history.event("orders", NOW - 7 * HOUR)
    counting.run(NOW + HOUR)

    hour = (NOW - 7 * HOUR).replace(minute=0)
    for found in (counting.recorded(), counting.in_lake("hourly")):
        stream, queue = found[("stream", "default", "orders", hour)], found[("queue", "default", "a", hour)]
        assert [stream[count] for count in COUNTS] == [2, 0, 0, 1, 1]
        assert (stream["p50_s"], stream["max_s"], stream["dead_rate"]) == (3600.0, 3600.0, 0.5)
        assert queue["sent"] == 1
    day = counting.recorded("day")[("stream", "default", "orders", NOW.replace(hour=0, minute=0))]
    assert [day[count] for count in COUNTS] == [3, 0, 0, 1, 1]


@pytest.mark.slow
def test_a_run_that_was_cut_off_is_made_good_by_the_next(
    counting: Counting, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(database)
    history.write(NOW - 2 * HOUR, NOW)
    with monkeypatch.context() as broken:
        broken.setattr(Tables, "write", _fail)
        with pytest.raises(OSError, match="no space left"):
            counting.run(NOW)
    history.write(NOW - HOUR, NOW)

    counting.run(NOW + timedelta(minutes=1))

    check(counting.recorded(), counting.counted())
    check(counting.in_lake("hourly"), counting.counted())


def _fail(*_: object) -> None:
    raise OSError("no space left")


def test_a_run_without_anything_to_count_ends_well(counting: Counting) -> None:
    assert counting.run(NOW).startswith("0 rows")
