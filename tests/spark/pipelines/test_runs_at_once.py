"""Two runs of a pipeline at once, for the same: the second is refused while the first is at work, and harms nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.archive import Archive
from penstock.spark.pipelines.change_data import ChangeData, copy
from penstock.spark.pipelines.change_data.columns import ChangeDataError
from penstock.spark.pipelines.claims import ClaimedError
from penstock.spark.pipelines.importing import Import
from penstock.spark.pipelines.insights import Insights
from penstock.spark.pipelines.replay import Replay
from penstock.spark.pipelines.run import run_pipeline
from tests.spark.change_data.mirrored import Mirrored

pytestmark = pytest.mark.timeout(300)


def test_every_pipeline_claims_what_it_works_on() -> None:
    assert [
        Archive(streams=("a", "b")).claims("/lake"),
        Archive(messages=True, queues=("letters",), tenant="acme").claims("s3://bucket/lake/"),
        ChangeData(streams=("a",)).claims("/lake"),
        Insights().claims("/lake"),
        Replay(id="fix", to="a").claims("/lake"),
        Replay(id="fix", to="a", dry_run=True).claims("/lake"),
    ] == [
        ["the archive of stream 'a' in /lake", "the archive of stream 'b' in /lake"],
        ["the archive of messages of tenant acme in s3://bucket/lake"],
        ["the changes of stream 'a' in /lake"],
        ["the insights in /lake"],
        ["replay 'fix'"],
        [],
    ]


END_COPY = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where query like '%pg_try_advisory_xact_lock%' and pid <> pg_backend_pid()
"""


def test_a_table_is_copied_by_one_run_at_a_time_and_again_when_its_database_was_lost(
    spark: SparkSession, dsn: str, database: psycopg.Connection[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Again though all rows had been read: by then another run may have begun to copy."""
    mirrored = Mirrored(spark, dsn, database, tmp_path / "lake")
    mirrored.make("id int primary key")
    mirrored.sql("select pgque.track_table('public.t', 'others')", "insert into t values (1), (2)")
    fill, filled = copy._fill, []

    def begin_others_and_fill(*arguments: Any) -> None:
        with pytest.raises(ClaimedError, match=r"the changes of stream 'changes' in .* is locked by run \d+ of cdc"):
            mirrored.run()
        with pytest.raises(ChangeDataError, match=r"public\.t: another run is copying it into"):
            mirrored.run(streams=("others",))
        fill(*arguments)
        filled.append(True)
        if len(filled) == 1:
            mirrored.sql(END_COPY)

    monkeypatch.setattr(copy, "_fill", begin_others_and_fill)
    mirrored.run()

    assert len(filled) == 2
    assert mirrored.current() == [{"id": 1}, {"id": 2}]
    assert mirrored.history("id", "_op") == [{"id": 1, "_op": "copy"}, {"id": 2, "_op": "copy"}]


def test_a_file_is_imported_by_one_run_at_a_time(
    spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text('{"n": 1}\n')
    pipeline = Import(source="jsonl", paths=(str(file),), target="jobs", into="orders")
    given: dict[str, Any] = {"spark": spark, "url": dsn, "lake": str(tmp_path / "lake")}
    take, tried = Import._take, []

    def begin_another_then_take(*arguments: Any) -> None:
        monkeypatch.setattr(Import, "_take", take)
        with pytest.raises(ClaimedError, match=r"the import of jsonl .*orders\.jsonl.* is locked by run \d+ of import"):
            run_pipeline(pipeline, **given)
        tried.append(True)
        take(*arguments)

    monkeypatch.setattr(Import, "_take", begin_another_then_take)
    run_pipeline(pipeline, **given)
    run_pipeline(pipeline, **given)

    assert tried
    assert database.execute("select count(*) from penstock.jobs").fetchone() == (1,)
