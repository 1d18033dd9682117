"""A table of the lake as a stream: by its log, each row once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from penstock.spark import lake
from penstock.spark.lake.errors import LakeError
from penstock.spark.lake.options import lake_options
from penstock.spark.lake.schemas import spark_schema
from penstock.spark.lake.source import LakeSource
from penstock.spark.lake.stream import ChangeFeedReader, LakeStreamReader

pytestmark = pytest.mark.timeout(120)

ALL = ReadAllAvailable()


def add(path: Path, *numbers: int, **columns: list[Any]) -> None:
    rows = pa.table({"n": pa.array(numbers, pa.int64()), "k": ["even" if n % 2 == 0 else "odd" for n in numbers]})
    for name, values in columns.items():
        rows = rows.append_column(name, pa.array(values))
    write_deltalake(str(path), rows, mode="append", partition_by=["k"], schema_mode="merge")


def reader(path: Path, **options: str) -> LakeStreamReader:
    source = LakeSource({"path": str(path), **options})
    found = source.streamReader(source.schema())
    assert isinstance(found, LakeStreamReader)
    return found


def read(stream: LakeStreamReader | ChangeFeedReader, start: dict[str, Any], end: dict[str, Any]) -> list[Any]:
    batches = [batch for each in stream.partitions(start, end) for batch in stream.read(each)]
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def test_a_stream_has_the_rows_that_are_there_and_then_those_that_are_added(tmp_path: Path) -> None:
    add(tmp_path / "t", 1, 2)
    stream = reader(tmp_path / "t")
    start = stream.initialOffset()

    first = stream.latestOffset(start, ALL)
    assert read(stream, start, first) == [(1, "odd"), (2, "even")]
    assert stream.latestOffset(first, ALL) == first

    add(tmp_path / "t", 3)
    lake.compact(str(tmp_path / "t"))
    second = stream.latestOffset(first, ALL)
    assert read(stream, first, second) == [(3, "odd")]
    assert stream.latestOffset(second, ALL) == second, "compaction adds no rows"


def test_a_first_batch_that_is_repeated_has_the_same_rows(tmp_path: Path) -> None:
    """Spark records only its end, and asks for the beginning again."""
    add(tmp_path / "t", 1, 2)
    stream = reader(tmp_path / "t")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    add(tmp_path / "t", 3)

    again = reader(tmp_path / "t")

    assert read(again, again.initialOffset(), end) == [(1, "odd"), (2, "even")]
    assert read(again, end, again.latestOffset(end, ALL)) == [(3, "odd")]


def test_a_large_version_is_split(tmp_path: Path) -> None:
    add(tmp_path / "t", 1, 2)
    add(tmp_path / "t", 3, 4)
    stream = reader(tmp_path / "t")
    offset, found = stream.initialOffset(), []
    while (end := stream.latestOffset(offset, ReadMaxFiles(1))) != offset:
        found.append(read(stream, offset, end))
        offset = end

    assert len(found) == 4
    assert sorted(row for batch in found for row in batch) == [(1, "odd"), (2, "even"), (3, "odd"), (4, "even")]


def test_a_stream_can_begin_with_a_version_or_with_what_is_new(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        add(tmp_path / "t", number)

    late, newest = reader(tmp_path / "t", startingVersion="1"), reader(tmp_path / "t", startingVersion="latest")

    start = late.initialOffset()
    assert read(late, start, late.latestOffset(start, ALL)) == [(2, "even"), (3, "odd")]
    start = newest.initialOffset()
    assert newest.latestOffset(start, ALL) == start


def test_removed_rows_are_an_error_or_skipped(tmp_path: Path) -> None:
    add(tmp_path / "t", 1, 2)
    strict, lenient = reader(tmp_path / "t"), reader(tmp_path / "t", skipChangeCommits="true")
    start = strict.latestOffset(strict.initialOffset(), ALL)
    DeltaTable(str(tmp_path / "t")).delete("n = 1")
    add(tmp_path / "t", 3)

    with pytest.raises(LakeError, match="version 1 removes or changes rows"):
        strict.latestOffset(start, ALL)
    assert read(lenient, start, lenient.latestOffset(start, ALL)) == [(3, "odd")]


def test_a_new_column_needs_a_new_start(tmp_path: Path) -> None:
    add(tmp_path / "t", 1)
    stream = reader(tmp_path / "t")
    start = stream.latestOffset(stream.initialOffset(), ALL)
    add(tmp_path / "t", 2, new=["x"])

    with pytest.raises(LakeError, match="new column new: start the query again"):
        stream.latestOffset(start, ALL)
    again = reader(tmp_path / "t")
    assert read(again, start, again.latestOffset(start, ALL)) == [(2, "even", "x")]


def test_a_version_that_left_the_log_is_an_error(tmp_path: Path) -> None:
    add(tmp_path / "t", 1)
    stream = reader(tmp_path / "t")
    start = stream.latestOffset(stream.initialOffset(), ALL)
    add(tmp_path / "t", 2)
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").rename(tmp_path / "gone.json")

    with pytest.raises(LakeError, match="version 1 is no longer in the log"):
        stream._added(start["version"])


def test_a_change_feed_has_updates_and_deletes(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"n": pa.array([1, 2], pa.int64())})
    write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    source = LakeSource({"path": path, "readChangeFeed": "true"})
    stream = source.streamReader(source.schema())
    assert isinstance(stream, ChangeFeedReader)
    DeltaTable(path).delete("n = 1")
    DeltaTable(path).update({"n": "n + 10"}, predicate="n = 2")
    start = stream.initialOffset()
    found = read(stream, start, stream.latestOffset(start, ALL))

    assert sorted((row[0], row[1], row[2]) for row in found) == [
        (1, "delete", 1), (1, "insert", 0), (2, "insert", 0), (2, "update_preimage", 2), (12, "update_postimage", 2),
    ]  # fmt: skip


def test_a_change_feed_must_be_enabled(tmp_path: Path) -> None:
    add(tmp_path / "t", 1)
    options = lake_options({"path": str(tmp_path / "t"), "readChangeFeed": "true"})
    stream = ChangeFeedReader(options, spark_schema(DeltaTable(str(tmp_path / "t"))))

    with pytest.raises(LakeError, match="has no change feed"):
        stream.latestOffset(stream.initialOffset(), ALL)


@pytest.mark.slow
def test_spark_moves_rows_from_table_to_table_once(spark: SparkSession, tmp_path: Path) -> None:
    add(tmp_path / "bronze", 1, 2)
    for number in (3, 4):
        query = (
            spark.readStream.format("penstock_lake").load(str(tmp_path / "bronze")).selectExpr("n * 10 as n", "k")
            .writeStream.format("penstock_lake").option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start(str(tmp_path / "silver"))
        )  # fmt: skip
        query.awaitTermination()
        add(tmp_path / "bronze", number)
    shutil.rmtree(tmp_path / "bronze")

    rows = lake.read(spark, str(tmp_path / "silver")).collect()

    assert sorted(row["n"] for row in rows) == [10, 20, 30]
