"""Changes that were rotated away before the pipeline has read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.spark import streams
from tests.spark.change_data.mirrored import Mirrored
from tests.spark.reading.queries import rotate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_changes_that_are_gone_are_an_error_or_skipped_and_told_of(
    spark: SparkSession, dsn: str, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    mirrored = Mirrored(spark, dsn, database, tmp_path / "lake")
    mirrored.make("id int primary key, name text")
    mirrored.sql("insert into t values (1, 'copied'), (2, 'copied')")
    mirrored.run()
    mirrored.sql("select pgque.unregister_consumer('changes', 'cdc-changes')")
    for number in range(4):
        mirrored.sql(f"update t set name = 'gone {number}' where id = 1")
        streams.tick(database, "changes")
        rotate(database, "changes")
    mirrored.sql("update t set name = 'seen' where id = 2")

    with pytest.raises(
        StreamingQueryException, match=r"stream 'changes': tick \d+ no longer exists, the oldest tick is \d+"
    ):
        mirrored.run()
    # The run that failed has brought its consumer back, but not what was gone by then.
    mirrored.run(skip_lost=True)

    assert {row["id"]: row["name"] for row in mirrored.current()}[2] == "seen"
    row = database.execute("select note from penstock.pipeline_runs order by id desc limit 1").fetchone()
    assert row is not None
    assert row[0].startswith("skipped lost events of stream 'changes', ticks ")
