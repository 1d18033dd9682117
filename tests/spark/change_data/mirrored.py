"""A tracked table and its copies in a lake, for tests of the change data pipeline."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from penstock.spark.pipelines.change_data import ChangeData, as_of
from penstock.spark.pipelines.run import run_pipeline

Rows = list[dict[str, Any]]


class Mirrored:
    """The table is `public.t`, its stream `changes`."""

    def __init__(self, spark: SparkSession, dsn: str, database: psycopg.Connection[Any], lake: Path) -> None:
        self.spark, self.dsn, self.database, self.lake = spark, dsn, database, lake
        database.execute("set search_path = public")

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.database.execute(statement.encode())

    def make(self, columns: str, *arguments: str) -> None:
        given = "".join(f", '{argument}'" for argument in arguments)
        self.sql(f"create table public.t ({columns})", f"select pgque.track_table('public.t', 'changes'{given})")

    def run(self, **settings: Any) -> None:
        given: dict[str, Any] = {"streams": ("changes",), "compact_every": 0} | settings
        run_pipeline(ChangeData(**given), spark=self.spark, url=self.dsn, lake=str(self.lake))

    def current(self) -> Rows:
        return self.rows("current", "_unfit", "_offset", "_changed_at")

    def history(self, *names: str) -> Rows:
        """The named columns of all versions, in the order of their ids and beginnings."""
        table = self.table("history").to_pyarrow_table()
        rows = table.sort_by([("id", "ascending"), ("_valid_from", "ascending"), ("_first_offset", "ascending")])
        found: Rows = rows.select(list(names)).to_pylist()
        return found

    def as_of(self, moment: datetime, *without: str) -> Rows:
        """Without `_unfit`, unless other columns are named to be left out."""
        found = as_of(self.spark, self.path("history"), moment).drop(*(without or ("_unfit",)))
        return ordered([row.asDict() for row in found.collect()])

    def path(self, kind: str) -> str:
        return str(self.lake / kind / "public.t")

    def table(self, kind: str) -> DeltaTable:
        return DeltaTable(self.path(kind))

    def rows(self, kind: str, *without: str) -> Rows:
        return ordered(self.table(kind).to_pyarrow_table().drop_columns(list(without)).to_pylist())

    def now(self) -> datetime:
        row = self.database.execute("select clock_timestamp()").fetchone()
        assert row is not None
        moment: datetime = row[0]
        return moment.astimezone(UTC)


def ordered(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])
