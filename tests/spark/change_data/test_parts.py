"""Parts of change data that need no Spark: merges of two runs at once, types that grow, names of tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.table import TableMerger
from pyspark.sql.types import DecimalType, LongType, StringType

from penstock.spark.database import Database
from penstock.spark.pipelines.change_data import ChangeData
from penstock.spark.pipelines.change_data.columns import ChangeDataError, Column
from penstock.spark.pipelines.change_data.merges import merge_current, merge_history
from penstock.spark.pipelines.change_data.source import TableName, catalog_types, tracked
from penstock.spark.pipelines.change_data.tables import CURRENT, HISTORY, LakeTable
from penstock.spark.pipelines.run import Run

MOMENT = pa.timestamp("us", "UTC")
COLUMNS = [Column("id", LongType()), Column("name", StringType())]
Merge = Callable[[LakeTable, pa.Table, int], None]


def changes(*told: tuple[int, str, str, int]) -> pa.Table:
    """One change for each key: id, name, operation and offset."""
    ids, names, operations, offsets = zip(*told, strict=True)
    moments = pa.array([datetime(2026, 11, 16, 10, 0, offset, tzinfo=UTC) for offset in offsets], MOMENT)
    only, none = [True] * len(told), [None] * len(told)
    return pa.table({
        "id": pa.array(ids, pa.int64()), "name": names, "_unfit": pa.array(none, pa.string()),
        "__op": operations, "__offset": pa.array(offsets, pa.int64()), "__moment": moments,
        "__first": only, "__last": only, "__gone": [each == "DELETE" for each in operations],
        "__end_op": pa.array(none, pa.string()), "__end_offset": pa.array(none, pa.int64()),
        "__end_moment": pa.array(none, MOMENT),
        "__before_op": operations, "__before_offset": pa.array(offsets, pa.int64()), "__before_moment": moments,
    })  # fmt: skip


@pytest.fixture(scope="module")
def batches() -> list[pa.Table]:
    return [
        changes((1, "a", "INSERT", 1), (2, "b", "INSERT", 2)),
        changes((1, "a2", "UPDATE", 3), (3, "c", "INSERT", 4)),
        changes((3, "c", "DELETE", 5)),
    ]


def into_current(table: LakeTable, rows: pa.Table, batch: int) -> None:
    merge_current(table, rows, ["id"], ["id", "name"], None, ("query", batch))


def into_history(table: LakeTable, rows: pa.Table, batch: int) -> None:
    merge_history(table, rows, ["id"], ["id", "name"], None, ("query", batch), None)


@pytest.mark.parametrize(
    ("own", "merge"), [(CURRENT, into_current), (HISTORY, into_history)], ids=["current", "history"]
)
def test_a_merge_that_lost_to_the_same_batch_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: tuple[Column, ...], merge: Merge, batches: list[pa.Table]
) -> None:
    """As when a second run of the pipeline begins while the first is still in a batch."""
    alone, raced = LakeTable(str(tmp_path / "alone"), own), LakeTable(str(tmp_path / "raced"), own)
    for table in (alone, raced):
        table.make(COLUMNS)
    for number, rows in enumerate(batches):
        merge(alone, rows, number)
    merge(raced, batches[0], 0)
    execute = TableMerger.execute

    def beaten(merger: TableMerger) -> Any:
        monkeypatch.setattr(TableMerger, "execute", execute)
        for number in (1, 2):
            merge(LakeTable(raced.path, own), batches[number], number)
        return execute(merger)

    monkeypatch.setattr(TableMerger, "execute", beaten)
    merge(raced, batches[1], 1)

    assert rows_of(raced) == rows_of(alone)


def test_a_number_that_becomes_text_is_written_as_postgresql_writes_it(tmp_path: Path) -> None:
    table = LakeTable(str(tmp_path / "t"), CURRENT)
    table.make([Column("amount", DecimalType(20, 8))])
    amounts = [Decimal("0E-8"), Decimal("-0.00000001"), Decimal("12.50000000"), None]
    rows = pa.table({"amount": pa.array(amounts, pa.decimal128(20, 8))})
    write_deltalake(table.path, rows, mode="append", schema_mode="merge")
    table.changed()

    table.fit([Column("amount", StringType())])

    found = table.open().to_pyarrow_table()["amount"].to_pylist()
    assert found == ["0.00000000", "-0.00000001", "12.50000000", None]


ODD = TableName("public", "Orders of 2026")


def test_tables_are_named_as_the_catalog_names_them(
    dsn: str, database: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute('create table public."Orders of 2026" (id int primary key)')
    prepared = Mock(side_effect=InterruptedError)
    monkeypatch.setattr(ChangeData, "_prepare", prepared)

    def begin(*tables: str, install: bool) -> None:
        settings = ChangeData(streams=("changes",), tables=tables, install=install)
        settings.run(Run(settings, spark=Mock(), url=dsn, lake=str(tmp_path)))

    for wrong in ("public.typo", "Orders of 2026", 'public."Orders of 2026"'):
        with pytest.raises(ChangeDataError, match=r"there is no table .*; write tables as schema\.table"):
            begin(wrong, install=True)
    with pytest.raises(ChangeDataError, match=f"table {ODD} is not tracked by stream changes; write tables as"):
        begin(str(ODD), install=False)
    prepared.assert_not_called()

    with pytest.raises(InterruptedError):
        begin(str(ODD), install=True)
    with closing(Database(dsn)) as asked:
        assert [each.name for each in tracked(asked, "changes", [str(ODD)])] == [ODD]

    database.execute("""select pgque.untrack_table('public."Orders of 2026"', 'changes')""")
    LakeTable(f"{tmp_path}/current/{ODD.folder}", CURRENT).make(COLUMNS)
    with pytest.raises(InterruptedError):
        begin(str(ODD), install=False)


def test_a_virtual_column_is_not_copied(dsn: str, database: psycopg.Connection[Any]) -> None:
    """No change tells its value."""
    if database.info.server_version < 180000:
        pytest.skip("virtual columns are new in PostgreSQL 18")
    database.execute("create table public.t (n bigint, twice bigint generated always as (n * 2) virtual)")

    with closing(Database(dsn)) as asked:
        assert catalog_types(asked, TableName("public", "t")) == {"n": LongType()}


def rows_of(table: LakeTable) -> list[str]:
    return sorted(str(row) for row in table.open().to_pyarrow_table().to_pylist())


def test_a_default_that_the_lake_cannot_represent_is_told_beside_what_is_told_already(tmp_path: Path) -> None:
    table = LakeTable(str(tmp_path / "t"), CURRENT)
    write_deltalake(
        table.path,
        pa.table({
            "id": [1, 2], "until": pa.array([None, None], MOMENT), "_unfit": ['{"day":"infinity"}', None],
            "_offset": [1, 2], "_changed_at": pa.array([None, None], MOMENT),
        }),
    )  # fmt: skip
    row = pa.table({"until": pa.array([None], MOMENT), "_unfit": ['{"until":"infinity"}']})

    for _ in range(2):  # A run that is cut off before it has noted this repeats it.
        table.fill(row)

    rows = table.open().to_pyarrow_table(columns=["id", "_unfit"]).sort_by("id").to_pylist()
    assert [each["_unfit"] for each in rows] == ['{"day":"infinity","until":"infinity"}', '{"until":"infinity"}']
