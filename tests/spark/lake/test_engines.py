"""Other engines read a table of the lake: the rows of its log, not the files of its folder. Without Spark."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
from deltalake import DeltaTable, Schema

from penstock.spark.lake.files import TaskFiles
from penstock.spark.lake.storage import filesystem, make
from penstock.spark.lake.table import Commit

SCHEMA = pa.schema([("n", pa.int64()), ("day", pa.date32()), ("type", pa.string())])
DAY = date(2026, 11, 18)


def written(path: Path) -> None:
    """Two commits, a repeated one, and a file of a killed task."""
    make(str(path))
    for batch, numbers in enumerate(([1, 2], [3], [3])):
        files = TaskFiles(filesystem(str(path), {}), SCHEMA, ["day", "type"], "", "00000")
        files.add(pa.record_batch([numbers, [DAY] * len(numbers), ["a/b"] * len(numbers)], schema=SCHEMA))
        commit = Commit(
            str(path), {}, Schema.from_arrow(SCHEMA), partition_by=["day", "type"], app="query",
            app_version=min(batch, 1),
        )  # fmt: skip
        commit.add(files.close())


def test_polars_and_duckdb_see_each_row_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    written(path)
    expected = [(number, DAY, "a/b") for number in (1, 2, 3)]

    assert len(list(path.rglob("*.parquet"))) == 3
    assert sorted(polars.read_delta(str(path)).select("n", "day", "type").rows()) == expected
    files = DeltaTable(str(path)).file_uris()
    query = "select n, day, type from read_parquet($files, hive_partitioning = true)"
    found = duckdb.execute(query, {"files": files}).fetchall()
    assert sorted(found) == expected
