"""Streams into the lake: each micro-batch once, across kills and with concurrent writers."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import polars
import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from penstock.spark import lake
from penstock.spark.lake.files import AddedFile, TaskFiles
from penstock.spark.lake.options import lake_options
from penstock.spark.lake.sink import LakeStreamWriter, Written
from penstock.spark.lake.storage import filesystem, make
from penstock.spark.lake.table import Commit
from tests.spark import streams

pytestmark = pytest.mark.timeout(300)


class Query:
    """A query from a stream into a table, as often as it is drained."""

    def __init__(self, spark: SparkSession, dsn: str, folder: Path) -> None:
        self._spark = spark
        self._dsn = dsn
        self._folder = folder
        self.path = folder / "events"

    def drain(self, **options: str) -> None:
        source = self._spark.readStream.format("penstock").options(
            url=self._dsn, subscribe="orders", startingOffsets="earliest"
        )
        query = (
            source.load().select("value", "type")
            .writeStream.format("penstock_lake").options(partitionBy="type", **options)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True).start(str(self.path))
        )  # fmt: skip
        query.awaitTermination()

    def forget_last_commit(self) -> None:
        """As after a kill between the commit of the sink and that of Spark."""
        commits = self._folder / "checkpoint" / "commits"
        newest = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        newest.unlink()
        (commits / f".{newest.name}.crc").unlink(missing_ok=True)

    def values(self) -> list[str]:
        seen = sorted(row["value"] for row in lake.read(self._spark, str(self.path)).collect())
        assert sorted(polars.scan_delta(str(self.path)).collect()["value"].to_list()) == seen
        assert sorted(DeltaTable(str(self.path)).to_pyarrow_table()["value"].to_pylist()) == seen
        return seen


@pytest.fixture
def query(spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path) -> Query:
    streams.make(database, "orders")
    streams.send(database, "orders", ["a", "b"])
    return Query(spark, dsn, tmp_path)


def test_a_micro_batch_that_comes_again_adds_nothing(query: Query, database: psycopg.Connection) -> None:
    query.drain()
    streams.send(database, "orders", ["c"])
    query.drain()
    query.forget_last_commit()
    query.drain()

    assert query.values() == ["a", "b", "c"]
    assert len(list(query.path.rglob("*.parquet"))) == len(DeltaTable(str(query.path)).file_uris())


def test_files_of_a_killed_task_are_seen_by_nobody_and_collected(query: Query) -> None:
    query.drain()
    orphan = query.path / "type=plain" / "part-00000-orphan.zstd.parquet"
    orphan.write_bytes(next(query.path.rglob("*.parquet")).read_bytes())

    assert query.values() == ["a", "b"]
    assert lake.vacuum(str(query.path)) == [], "it may still be needed by a batch under way"
    assert [Path(name).name for name in lake.vacuum(str(query.path), retention=timedelta(0))] == [orphan.name]
    assert not orphan.exists()
    assert query.values() == ["a", "b"]


def test_a_batch_of_plain_parquet_that_comes_again_replaces_its_files(query: Query, spark: SparkSession) -> None:
    query.drain(tableFormat="parquet")
    query.forget_last_commit()
    query.drain(tableFormat="parquet")

    back = spark.read.parquet(str(query.path))
    assert sorted(row["value"] for row in back.collect()) == ["a", "b"]
    assert sorted(polars.read_parquet(query.path)["value"].to_list()) == ["a", "b"]


def test_plain_parquet_shows_files_of_a_batch_that_was_killed(query: Query, spark: SparkSession) -> None:
    """The caveat of plain Parquet: no log says which files count."""
    query.drain(tableFormat="parquet")
    [file] = query.path.rglob("*.parquet")
    (file.parent / "part-killed-00000001-00000-000.zstd.parquet").write_bytes(file.read_bytes())

    assert spark.read.parquet(str(query.path)).count() == 4


SCHEMA = pa.schema([("n", pa.int64())])


def written(path: Path, number: int) -> list[AddedFile]:
    make(str(path))
    files = TaskFiles(filesystem(str(path), {}), SCHEMA, (), "", "00000")
    files.add(pa.record_batch({"n": [number]}))
    return files.close()


def commit(path: Path, number: int, app: str | None = None) -> bool:
    return Commit(str(path), {}, Schema.from_arrow(SCHEMA), app=app, app_version=1).add(written(path, number))


@pytest.mark.parametrize(("apps", "rows"), [(list("abcdefgh"), 8), (["same"] * 8, 1)], ids=["different", "same"])
def test_writers_at_once_commit_each_version_once(tmp_path: Path, apps: list[str], rows: int) -> None:
    """Among them the one that makes the table."""
    start = threading.Barrier(len(apps))
    done: list[bool] = []

    def write(number: int, app: str) -> None:
        start.wait()
        done.append(commit(tmp_path / "t", number, app))

    threads = [threading.Thread(target=write, args=each) for each in enumerate(apps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert done.count(True) == rows
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == rows


def test_files_that_the_table_names_are_not_removed_when_their_batch_comes_again(tmp_path: Path) -> None:
    """As after a commit whose answer got lost on the way."""
    path, schema = str(tmp_path / "t"), StructType([StructField("n", LongType())])
    files = written(tmp_path / "t", 1)
    writer = LakeStreamWriter(lake_options({"path": path}), schema)
    for _ in range(2):
        writer.commit([Written(files, "query")], 0)

    assert DeltaTable(path).to_pyarrow_table()["n"].to_pylist() == [1]


def test_a_task_keeps_few_files_open_and_little_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.lake.files.MOST_OPEN", 2)
    monkeypatch.setattr("penstock.spark.lake.files.BUFFER_BYTES", 100)
    schema = pa.schema([("n", pa.int64()), ("k", pa.string())])
    files = TaskFiles(filesystem(str(tmp_path), {}), schema, ["k"], "", "00000")

    for start in range(0, 30, 3):
        files.add(pa.record_batch({"n": [start, start + 1, start + 2], "k": ["a", "b", "c"]}))
        assert len(files._open) <= 2
        assert files._waiting_bytes <= 100
    done = files.close()

    assert sum(each.rows for each in done) == 30
    assert {each.values["k"] for each in done} == {"a", "b", "c"}


def test_a_task_that_fails_leaves_no_files(tmp_path: Path) -> None:
    files = TaskFiles(filesystem(str(tmp_path), {}), SCHEMA, (), "", "00000")
    files.add(pa.record_batch({"n": [1]}))
    files.discard()

    assert list(tmp_path.rglob("*.parquet")) == []
