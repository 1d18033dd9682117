"""`--verify` finds rows of the lake that differ from their source, and `--repair` replaces them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from penstock.spark.pipelines.change_data import ChangeData
from penstock.spark.pipelines.change_data.columns import ChangeDataError
from penstock.spark.pipelines.run import Run, running
from tests.spark.change_data.mirrored import Mirrored

pytestmark = pytest.mark.timeout(300)

Results = dict[str, dict[str, Any]]


def verified(mirrored: Mirrored, *, repair: bool) -> Results:
    """The result of each table of the lake. A run that finds differences and does not repair them fails."""
    pipeline = ChangeData(streams=("changes",), compact_every=0, verify=True, repair=repair)
    found: list[Run] = []
    with (
        suppress(ChangeDataError),
        running(pipeline, spark=mirrored.spark, url=mirrored.dsn, lake=str(mirrored.lake)) as run,
    ):
        found.append(run)
        pipeline.run(run)
    kinds = ("missing", "extra", "different", "repeated")
    return {Path(row["in"]).parent.name: {kind: row[kind] for kind in kinds} for row in found[0].results}


def plant(mirrored: Mirrored) -> None:
    """Twenty differences in `current`, and three in the open versions of `history`."""
    current = mirrored.table("current")
    current.delete("id in (1, 2, 3, 4, 5)")
    current.update({"name": "'changed'"}, predicate="id in (6, 7, 8)")
    current.update({"amount": "null"}, predicate="id in (9, 10)")
    current.update({"at": "null"}, predicate="id = 11")
    current.update({"_unfit": "null"}, predicate="id = 12")
    current.update({"name": "null"}, predicate="id = 13")
    current.update({"name": "''"}, predicate="id = 14")
    rows = current.to_pyarrow_table()
    extra = rows.filter(pa.compute.is_in(rows["id"], pa.array([20, 21, 22], pa.int32())))
    moved = extra.set_column(0, "id", pa.array([120, 121, 122], pa.int32()))
    repeated = rows.filter(pa.compute.is_in(rows["id"], pa.array([23, 24, 25], pa.int32())))
    write_deltalake(current, pa.concat_tables([moved, repeated]), mode="append")
    history = mirrored.table("history")
    history.update({"name": "'changed'"}, predicate="id = 30")
    history.delete("id in (31, 32)")


def same(mirrored: Mirrored) -> bool:
    """Whether the open versions are the current rows. Spark returns times without their zone."""
    own = ("_unfit", "_offset", "_changed_at")
    return mirrored.as_of(mirrored.now(), "_unfit", "at") == mirrored.rows("current", *own, "at")


@pytest.mark.slow
def test_planted_differences_are_found_and_repaired(
    spark: SparkSession, dsn: str, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    mirrored = Mirrored(spark, dsn, database, tmp_path / "lake")
    mirrored.make("id int primary key, name text, amount numeric(8, 2), at timestamptz")
    mirrored.sql(
        "insert into t select n, 'row ' || n, n, case n when 12 then 'infinity' else now() end"
        " from generate_series(1, 40) as n"
    )
    mirrored.run()
    plant(mirrored)

    found = verified(mirrored, repair=False)
    # A change that is applied before the comparison, and one of a row that the lake lacks.
    mirrored.sql("update t set name = 'later' where id = 40", "update t set name = 'too' where id = 1")
    verified(mirrored, repair=True)
    after = verified(mirrored, repair=False)

    assert found == {
        "current": {"missing": 5, "extra": 3, "different": 9, "repeated": 3},
        "history": {"missing": 2, "extra": 0, "different": 1, "repeated": 0},
    }
    none = {"missing": 0, "extra": 0, "different": 0, "repeated": 0}
    assert after == {"current": none, "history": none}
    assert same(mirrored)
    assert [row["id"] for row in mirrored.current() if row["name"] in ("later", "too")] == [1, 40]
    [ended] = [row for row in mirrored.history("id", "name", "_ended_by") if row["_ended_by"] == "repair"]
    assert (ended["id"], ended["name"]) == (30, "changed")
    mirrored.sql("update t set name = 'last' where id in (30, 1, 7)", "delete from t where id = 2")
    mirrored.run()
    assert same(mirrored)


def test_verifying_does_not_follow() -> None:
    for repair in (False, True):
        with pytest.raises(ChangeDataError, match="omit --follow"):
            ChangeData(streams=("changes",), verify=not repair, repair=repair).check(follow=True)
