"""`replay` by several tasks: side by side where no order is asked for, and once all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.spark import lake
from penstock.spark.pipelines.pipeline import PipelineError
from penstock.spark.pipelines.replay import Replay
from penstock.spark.pipelines.run import run_pipeline
from tests.spark import streams

pytestmark = pytest.mark.timeout(300)

FILES, ROWS = 4, 25
"""Of the table, and in each file."""
KEYS = 5
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)

Send = Callable[[Replay], int]


@pytest.fixture
def place(spark: SparkSession, database: psycopg.Connection, tmp_path: Path) -> str:
    """A lake whose files overlap in time, so that no file by itself is a part of the order."""
    streams.make(database, "again")
    database.execute("select pgque.register_consumer('again', 'reader')")
    for file in range(FILES):
        rows = [
            (f"v{number:03}", f"k{number % KEYS}", number, BEGIN + timedelta(minutes=number))
            for number in range(file, FILES * ROWS, FILES)
        ]
        frame = spark.createDataFrame(rows, "value string, key string, offset bigint, timestamp timestamp")
        lake.append(frame.coalesce(1), str(tmp_path / "events"))
    [table] = lake.tables(str(tmp_path))
    assert (table.files, table.rows) == (FILES, FILES * ROWS)
    return str(tmp_path)


@pytest.fixture
def send(spark: SparkSession, dsn: str, place: str) -> Iterator[Send]:
    """Run a replay, and say how many tasks its last job had: the one that writes."""
    # So few rows would go to one task after all.
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")

    def run(replay: Replay) -> int:
        group = f"replay {replay.id}"
        spark.sparkContext.setJobGroup(group, group)
        run_pipeline(replay, spark=spark, url=dsn, lake=place)
        tracker = spark.sparkContext.statusTracker()
        job = tracker.getJobInfo(max(tracker.getJobIdsForGroup(group)))
        assert job is not None
        stage = tracker.getStageInfo(max(job.stageIds))
        assert stage is not None
        return int(stage.numTasks)

    yield run
    spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")


def sent(database: psycopg.Connection) -> list[tuple[str, str]]:
    """Values and keys, as a consumer finds them in its first batch."""
    streams.tick(database, "again")
    batch = database.execute("select pgque.next_batch('again', 'reader')").fetchone()
    assert batch is not None
    return list(database.execute("select ev_data, ev_extra4 from pgque.get_batch_events(%s)", batch))


def test_all_are_in_order_unless_it_is_said_otherwise(send: Send, database: psycopg.Connection) -> None:
    assert send(Replay(id="fix", to="again")) == 1

    assert [value for value, _ in sent(database)] == [f"v{number:03}" for number in range(FILES * ROWS)]


@pytest.mark.parametrize("order", ["none", "key"])
def test_several_tasks_send_each_row_once_however_often_it_is_run(
    send: Send, database: psycopg.Connection, order: str
) -> None:
    replay = Replay(id="fix", to="again", order=order)

    assert send(replay) > 1
    send(replay)

    assert sorted(value for value, _ in sent(database)) == [f"v{number:03}" for number in range(FILES * ROWS)]


def test_those_of_a_key_stay_in_order_while_others_are_sent_beside_them(
    send: Send, database: psycopg.Connection
) -> None:
    send(Replay(id="fix", to="again", order="key"))

    found = sorted(sent(database), key=lambda row: row[1])
    by_key = {key: [value for value, _ in rows] for key, rows in groupby(found, key=lambda row: row[1])}
    assert by_key == {f"k{key}": [f"v{number:03}" for number in range(key, FILES * ROWS, KEYS)] for key in range(KEYS)}


def test_one_that_failed_sent_nothing_of_any_task_and_may_be_run_again(
    send: Send, database: psycopg.Connection
) -> None:
    database.execute("select penstock.create_queue('small', %s)", [f'{{"max_length": {FILES * ROWS - 1}}}'])
    database.execute("select penstock.create_queue('letters')")

    with pytest.raises(PySparkException, match="maximum length"):
        send(Replay(id="fix", to="small", target="queue", order="none"))
    send(Replay(id="fix", to="letters", target="queue", order="none"))

    found = database.execute("select count(*), count(distinct body) from penstock.messages").fetchone()
    assert found == (FILES * ROWS, FILES * ROWS)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"order": "size"}, "use one of time, key, none"),
        ({"order": "key", "table": "plain"}, "key or group_id"),
        ({"table": "plain"}, "use --order none"),
    ],
    ids=["unknown", "no key", "no time"],
)
def test_an_order_that_cannot_be_is_refused(
    spark: SparkSession, dsn: str, place: str, settings: dict[str, Any], problem: str
) -> None:
    lake.append(spark.createDataFrame([("v",)], "value string"), f"{place}/plain")

    with pytest.raises(PipelineError, match=problem):
        run_pipeline(Replay(id="no", to="again", **settings), spark=spark, url=dsn, lake=place)
