"""Upkeep of the lake, by functions and by commands, and merging into it. No Spark is needed for any of this."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.table import TableMerger
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.cli import app
from penstock.spark import lake
from penstock.spark.lake.folder import Folder
from penstock.spark.lake.options import lake_options
from penstock.spark.lake.sink import LakeWriter
from penstock.spark.options import OptionError
from tests.cli.runner import CliRunner, Result


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake with two tables, one of them in four small files."""
    for number in range(4):
        table = pa.table({"n": [number], "k": ["a" if number < 2 else "b"]})
        write_deltalake(tmp_path / "lake" / "insights" / "hourly", table, mode="append", partition_by=["k"])
    write_deltalake(tmp_path / "lake" / "events", pa.table({"n": [1, 2]}))
    (tmp_path / "lake" / "_checkpoints" / "archive").mkdir(parents=True)
    return tmp_path / "lake"


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["lake", *map(str, arguments)], catch_exceptions=False)


def test_a_tree_lists_the_tables(root: Path) -> None:
    rows = json.loads(command("tree", root, "--json").stdout)

    assert [(row["table"], row["version"], row["files"], row["rows"], row["partitions"]) for row in rows] == [
        ("events", 0, 1, 2, 0),
        ("insights/hourly", 3, 4, 4, 2),
    ]
    assert [row["partitioned by"] for row in rows] == ["", "k"]
    assert json.loads(command("tree", root / "events", "--json").stdout)[0]["table"] == str(root / "events")


@pytest.mark.parametrize("verb", ["tree", "compact", "vacuum"])
def test_where_there_are_no_tables_every_command_says_so(verb: str, tmp_path: Path) -> None:
    assert command(verb, tmp_path).stderr == f"No tables found at {tmp_path}.\n"


def test_rows_for_a_table_of_another_kind_are_refused_by_what_is_there(root: Path) -> None:
    schema = StructType([StructField("id", LongType())])

    with pytest.raises(lake.LakeError, match=r"hourly is a table of n, k, partitioned by k; these rows have no k"):
        LakeWriter(lake_options({"path": str(root / "insights" / "hourly")}), schema, overwrite=False)


def test_a_tree_of_a_folder_that_is_not_there_makes_none(tmp_path: Path) -> None:
    result = command("tree", tmp_path / "none")

    assert (result.exit_code, f"there is no folder {tmp_path / 'none'}" in result.output) == (1, True)
    assert not (tmp_path / "none").exists()


def test_compaction_keeps_the_rows(root: Path) -> None:
    path = root / "insights" / "hourly"

    assert "merged 4 files into 2" in command("compact", root).stdout
    assert "merged 0 files into 0" in command("compact", root).stdout
    assert sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist()) == [0, 1, 2, 3]
    assert len(DeltaTable(path).file_uris()) == 2
    assert (path / "_delta_log" / "_last_checkpoint").exists()


def test_compaction_keeps_what_applications_wrote(tmp_path: Path) -> None:
    """A checkpoint of the log that forgot them would let a batch be written twice."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"n": [0]}))
    lake.merge(path, pa.table({"n": [1]}), "target.n = source.n", insert, app="a", version=7)
    lake.compact(path)

    assert lake.version(path, "a") == 7


def test_a_vacuum_removes_what_was_replaced_when_it_is_old(root: Path) -> None:
    path = root / "insights" / "hourly"
    command("compact", path)

    assert "0 files removed" in command("vacuum", path).stdout
    assert "4 files would be removed" in command("vacuum", path, "--retention", "0s", "--dry-run").stdout
    assert "4 files removed" in command("vacuum", path, "--retention", "0s").stdout
    assert len(list(path.rglob("*.parquet"))) == 2 + len(list(path.rglob("*.checkpoint.parquet")))
    assert sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist()) == [0, 1, 2, 3]


def test_a_vacuum_leaves_young_orphans(root: Path) -> None:
    orphan = root / "events" / "part-orphan.parquet"
    orphan.write_bytes(b"")

    assert lake.vacuum(str(root / "events"), retention=timedelta(hours=1)) == []
    assert orphan.exists()
    assert [Path(name).name for name in lake.vacuum(str(root / "events"), retention=timedelta(0))] == [orphan.name]


def insert(merger: TableMerger) -> TableMerger:
    return merger.when_matched_update_all().when_not_matched_insert_all()


def test_a_merge_happens_once_for_each_version(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1, 2], "n": [10, 20]}))
    changes = pa.table({"id": [2, 3], "n": [21, 30]})

    done = lake.merge(path, changes, "target.id = source.id", insert, app="cdc", version=4)
    again = lake.merge(path, changes, "target.id = source.id", insert, app="cdc", version=4)

    assert done is not None
    assert again is None
    assert DeltaTable(path).to_pyarrow_table().sort_by("id").to_pydict() == {"id": [1, 2, 3], "n": [10, 21, 30]}


def test_no_reader_of_a_folder_counts_what_a_killed_task_left_and_a_later_batch_removes_it(tmp_path: Path) -> None:
    table = tmp_path / "50% off" / "orders"
    schema = StructType([StructField("n", LongType()), StructField("k", StringType())])
    options = lake_options({"path": str(table), "tableFormat": "parquet", "partitionBy": "k"})

    def write(number: int) -> list[WriterCommitMessage | None]:
        batch = pa.RecordBatch.from_pydict({"n": [number], "k": ["a/b"]})
        return [LakeWriter(options, schema, overwrite=False).write(iter([batch]))]

    write(1)
    write(2)
    old, young = (table.parent / "_staging").rglob("*.parquet")
    os.utime(old, (0, 0))
    LakeWriter(options, schema, overwrite=False).commit(write(3))

    for place in (table, table / "**" / "*.parquet"):
        assert polars.read_parquet(place)["n"].to_list() == [3]
    assert (old.exists(), young.exists()) == (False, True)
    assert [path.name for path in table.iterdir()] == ["k=a%2Fb"]


def test_a_whole_store_is_no_folder_of_plain_parquet() -> None:
    with pytest.raises(OptionError, match="a folder of its own"):
        Folder("s3://bucket", {})


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(lake.LakeError, match="there is no table at"):
        lake.compact(str(tmp_path / "none"))


def test_an_option_of_the_store_must_be_a_pair(root: Path) -> None:
    result = CliRunner().invoke(app, ["lake", "tree", str(root), "--storage", "aws_region"])

    assert "is not of the form NAME=VALUE" in str(result.exception)


def test_a_part_of_a_table_is_replaced_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "t")

    def replaced(*rows: tuple[str, int], version: int) -> None:
        dates, numbers = [row[0] for row in rows], [row[1] for row in rows]
        among = ", ".join(f"'{date}'" for date in sorted(set(dates)))
        given = pa.table({"date": dates, "n": numbers})
        lake.replace(path, given, f"date in ({among})", partition_by=["date"], app="daily", version=version)

    replaced(("monday", 1), ("tuesday", 2), version=1)
    replaced(("tuesday", 3), ("wednesday", 4), version=2)

    assert sorted(DeltaTable(path).to_pyarrow_table()["n"].to_pylist()) == [1, 3, 4]
    assert lake.version(path, "daily") == 2


def test_a_merge_remembers_marks_beside_its_own_version(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"n": [1]})
    write_deltalake(path, rows)

    lake.merge(
        path, rows, "target.n = source.n", lambda merger: merger.when_matched_update_all(), app="a", version=3,
        marks={"moment": 17},
    )  # fmt: skip

    assert (lake.version(path, "a"), lake.version(path, "moment")) == (3, 17)
