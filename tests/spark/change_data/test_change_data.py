"""Change data: tables of PostgreSQL in the lake, as they are and as they were."""

from __future__ import annotations

import pickle
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StringType

from penstock.spark import lake
from penstock.spark.pipelines.change_data import batch, copy, merges, pipeline
from penstock.spark.pipelines.change_data.columns import ChangeDataError, Column
from penstock.spark.pipelines.change_data.tables import CURRENT, LakeTable
from tests.spark.change_data.mirrored import Mirrored

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def mirrored(spark: SparkSession, dsn: str, database: psycopg.Connection[Any], tmp_path: Path) -> Mirrored:
    return Mirrored(spark, dsn, database, tmp_path / "lake")


TERMINATE = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where query like '%pg_try_advisory_xact_lock%' and pid <> pg_backend_pid()
"""


class BrokenError(Exception):
    pass


def broken(*_: Any, **__: Any) -> None:
    raise BrokenError


def test_rows_are_copied_and_then_follow_every_kind_of_change(mirrored: Mirrored) -> None:
    mirrored.make("id int primary key, name text")
    mirrored.sql("insert into t select n, 'row ' || n from generate_series(1, 5) as n")
    mirrored.run()
    assert mirrored.current() == [{"id": n, "name": f"row {n}"} for n in range(1, 6)]
    copied = mirrored.now()

    mirrored.sql(
        "insert into t values (6, 'new')", "update t set name = 'changed' where id = 1", "delete from t where id = 2",
        "update t set id = 30 where id = 3",
    )  # fmt: skip
    mirrored.run(compact_every=1)

    after = [(1, "changed"), (30, "row 3"), (4, "row 4"), (5, "row 5"), (6, "new")]
    assert mirrored.current() == [{"id": n, "name": name} for n, name in after]
    assert mirrored.as_of(copied) == [{"id": n, "name": f"row {n}"} for n in range(1, 6)]
    assert mirrored.as_of(mirrored.now()) == mirrored.current()
    assert [
        row.asDict() for row in lake.read(mirrored.spark, mirrored.path("current")).select("id").sort("id").collect()
    ]
    assert len(mirrored.table("current").file_uris()) == 1


@pytest.mark.slow
def test_every_version_of_a_batch_is_in_the_history(mirrored: Mirrored) -> None:
    mirrored.make("id int primary key, name text")
    mirrored.sql("insert into t values (1, 'a'), (2, 'x')")
    mirrored.run()
    mirrored.sql(
        "update t set name = 'b' where id = 1", "update t set name = 'c' where id = 1", "delete from t where id = 1",
        "insert into t values (1, 'd')", "delete from t where id = 2", "insert into t values (3, 'short')",
        "delete from t where id = 3",
    )  # fmt: skip
    mirrored.run()

    assert [tuple(row.values()) for row in mirrored.history("id", "name", "_op", "_ended_by", "_is_current")] == [
        (1, "a", "copy", "update", False),
        (1, "b", "update", "update", False),
        (1, "c", "update", "delete", False),
        (1, "d", "insert", None, True),
        (2, "x", "copy", "delete", False),
        (3, "short", "insert", "delete", False),
    ]
    spans = mirrored.history("id", "_valid_from", "_valid_to", "_first_offset", "_last_offset")[:4]
    for earlier, later in pairwise(spans[:3]):
        assert earlier["_valid_to"] == later["_valid_from"]
        assert earlier["_last_offset"] == later["_first_offset"]
    assert spans[2]["_valid_to"] <= spans[3]["_valid_from"]


@pytest.mark.slow
def test_a_truncate_takes_what_was_before_it_and_leaves_what_came_after(mirrored: Mirrored) -> None:
    mirrored.make("id int primary key, name text")
    mirrored.sql("insert into t values (1, 'kept till now'), (2, 'changed before'), (3, 'comes back')")
    mirrored.run()
    before = mirrored.now()
    mirrored.sql("update t set name = 'changed' where id = 2", "insert into t values (4, 'short')", "truncate t")
    empty = mirrored.now()
    mirrored.sql("insert into t values (3, 'back'), (5, 'new')")
    mirrored.run()

    assert mirrored.current() == [{"id": 3, "name": "back"}, {"id": 5, "name": "new"}]
    assert [row["id"] for row in mirrored.as_of(before)] == [1, 2, 3]
    assert mirrored.as_of(empty) == []
    assert mirrored.as_of(mirrored.now()) == mirrored.current()
    ends = {(row["id"], row["name"]): row["_ended_by"] for row in mirrored.history("id", "name", "_ended_by")}
    assert ends == {
        (1, "kept till now"): "truncate",
        (2, "changed before"): "update",
        (2, "changed"): "truncate",
        (3, "comes back"): "truncate",
        (3, "back"): None,
        (4, "short"): "truncate",
        (5, "new"): None,
    }

    mirrored.sql("truncate t")
    mirrored.run()
    assert mirrored.current() == []
    assert not any(row["_is_current"] for row in mirrored.history("_is_current"))


@pytest.mark.slow
def test_a_change_that_began_earlier_and_came_later_does_not_turn_time_back(mirrored: Mirrored) -> None:
    mirrored.make("id int primary key, name text")
    mirrored.sql("insert into t values (1, 'a')")
    mirrored.run()
    with psycopg.connect(mirrored.dsn) as old:
        old.execute("select now()")
        mirrored.sql("update t set name = 'b'")
        mirrored.run()
        old.execute("update public.t set name = 'c'")
        old.commit()
    mirrored.run()

    spans = mirrored.history("name", "_valid_from", "_valid_to")
    assert [row["name"] for row in spans] == ["a", "b", "c"]
    assert spans[1]["_valid_from"] <= spans[1]["_valid_to"] == spans[2]["_valid_from"]


class TestSnapshot:
    @pytest.mark.slow
    def test_a_transaction_that_the_copy_does_not_see_is_applied_and_one_that_it_sees_is_not(
        self, mirrored: Mirrored
    ) -> None:
        mirrored.make("id int primary key, name text")
        mirrored.sql("insert into t values (1, 'a'), (2, 'b')")
        mirrored.sql("select pgque.register_consumer('changes', 'cdc-changes')", "insert into t values (3, 'seen')")
        with psycopg.connect(mirrored.dsn) as late:
            late.execute("update public.t set name = 'late' where id = 1")
            mirrored.sql("update t set name = 'seen too' where id = 2")
            mirrored.run()
            assert mirrored.current() == [
                {"id": 1, "name": "a"},
                {"id": 2, "name": "seen too"},
                {"id": 3, "name": "seen"},
            ]
            late.commit()
        mirrored.run()

        assert [tuple(row.values()) for row in mirrored.history("id", "name", "_op")] == [
            (1, "a", "copy"), (1, "late", "update"), (2, "seen too", "copy"), (3, "seen", "copy"),
        ]  # fmt: skip

    def test_a_copy_that_was_cut_off_is_made_anew(self, mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
        mirrored.make("id int primary key, name text")
        mirrored.sql("insert into t values (1, 'a'), (2, 'b')")
        with monkeypatch.context() as patch:
            patch.setattr(LakeTable, "set", broken)
            with pytest.raises(BrokenError):
                mirrored.run()
        mirrored.sql("delete from t where id = 1", "insert into t values (3, 'c')")
        mirrored.run()

        assert mirrored.current() == [{"id": 2, "name": "b"}, {"id": 3, "name": "c"}]
        assert [tuple(row.values()) for row in mirrored.history("id", "_op")] == [(2, "copy"), (3, "copy")]

    def test_a_copy_that_lost_its_snapshot_is_begun_anew(
        self, mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mirrored.make("id int primary key, name text")
        mirrored.sql("insert into t values (1, 'a')")
        fill = copy._fill

        def cut_off(*arguments: Any) -> None:
            monkeypatch.setattr(copy, "_fill", fill)
            mirrored.sql("insert into t values (2, 'b')", TERMINATE)
            raise BrokenError

        monkeypatch.setattr(copy, "_fill", cut_off)
        mirrored.run()

        assert mirrored.current() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
        assert [row["_op"] for row in mirrored.history("_op")] == ["copy", "copy"]

    def test_a_table_that_is_tracked_later_is_copied_with_its_first_change(
        self, mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mirrored.sql("create table t (id int primary key, name text)", "insert into t values (1, 'untold')")
        mirrored.sql("select pgque.create_queue('changes') + pgque.register_consumer('changes', 'cdc-changes')")
        mirrored.sql("select pgque.track_table('public.t', 'changes')", "insert into t values (2, 'told')")
        # As if it had been tracked right after the run began.
        monkeypatch.setattr(pipeline, "tracked", lambda *_: iter(()))
        mirrored.run()

        assert mirrored.current() == [{"id": 1, "name": "untold"}, {"id": 2, "name": "told"}]
        assert [row["_op"] for row in mirrored.history("_op")] == ["copy", "copy"]

    def test_without_a_snapshot_the_changes_that_are_left_are_applied(self, mirrored: Mirrored) -> None:
        mirrored.sql("create table t (id int primary key, name text)", "insert into t values (1, 'untold')")
        mirrored.run(snapshot=False, install=True, tables=("public.t",), history=False)
        mirrored.sql(
            "insert into t values (2, 'told')",
            "select pgque.send('changes', '{\"op\":\"INSERT\",\"table\":[]}'::text, '{}'::text)",
        )
        mirrored.run(snapshot=False, history=False)

        assert mirrored.current() == [{"id": 2, "name": "told"}]
        assert not (mirrored.lake / "history").exists()

    @pytest.mark.slow
    def test_a_history_is_not_left_behind(self, mirrored: Mirrored) -> None:
        mirrored.make("id int primary key")
        mirrored.run()

        with pytest.raises(ChangeDataError, match=r"public\.t has a history"):
            mirrored.run(history=False)


class TestSchemas:
    @pytest.mark.slow
    def test_columns_come_and_go_and_grow(self, mirrored: Mirrored) -> None:
        mirrored.make("id int primary key, amount numeric(6, 2), gone text")
        mirrored.sql("insert into t values (1, 10.50, 'x'), (2, 20, 'y')")
        mirrored.run()
        mirrored.sql(
            "alter table t add column extra text", "alter table t drop column gone",
            "alter table t alter column id type bigint", "alter table t alter column amount type numeric(20, 4)",
            "insert into t values (5000000000, 123456789.1234, 'new')", "update t set extra = 'old' where id = 1",
        )  # fmt: skip
        mirrored.run()

        assert mirrored.current() == [
            {"id": 1, "amount": Decimal("10.5000"), "gone": None, "extra": "old"},
            {"id": 2, "amount": Decimal("20.0000"), "gone": "y", "extra": None},
            {"id": 5000000000, "amount": Decimal("123456789.1234"), "gone": None, "extra": "new"},
        ]
        assert [tuple(row.values()) for row in mirrored.history("id", "gone", "extra", "_is_current")] == [
            (1, "x", None, False), (1, None, "old", True), (2, "y", None, True), (5000000000, None, "new", True),
        ]  # fmt: skip

    @pytest.mark.slow
    def test_a_column_that_is_added_with_a_default_is_in_every_row_at_once(self, mirrored: Mirrored) -> None:
        mirrored.make("id int primary key, name text")
        mirrored.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
        mirrored.run()
        mirrored.sql("update t set name = 'before' where id = 1", "update t set name = 'x' where id = 3")
        mirrored.sql(
            "alter table t add column level int default 7", "alter table t add column since date default '2026-01-02'",
            "alter table t add column until timestamptz default 'infinity'", "alter table t add column plain text",
            "update t set name = 'after', level = 8 where id = 3",
        )  # fmt: skip
        mirrored.run()
        others = {"since": date(2026, 1, 2), "until": None, "plain": None}
        rows = [
            {"id": 1, "name": "before", "level": 7, **others},
            {"id": 2, "name": "b", "level": 7, **others},
            {"id": 3, "name": "after", "level": 8, **others},
        ]
        assert mirrored.current() == rows
        assert mirrored.as_of(mirrored.now()) == rows
        assert [row["_unfit"] for row in mirrored.rows("current")] == ['{"until":"infinity"}'] * 3

        # Nothing else changes, so there is no event to apply. The second default is another one for each row.
        mirrored.sql("alter table t add column late bool not null default true")
        mirrored.run()
        mirrored.sql("alter table t add column number float8 default random()")
        mirrored.run()

        assert [(row["late"], row["number"]) for row in mirrored.current()] == [(True, None)] * 3
        assert mirrored.as_of(mirrored.now()) == mirrored.current()
        runs = mirrored.database.execute(
            "select progress->'results' from penstock.pipeline_runs order by id desc limit 1"
        )
        [[results]] = runs.fetchall()
        assert [(each["table"], each["new column"]) for each in results] == [("public.t", "number")]

    def test_a_column_that_was_added_and_not_filled_is_filled_by_the_next_run(
        self, mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mirrored.make("id int primary key")
        mirrored.sql("insert into t values (1)")
        mirrored.run()
        mirrored.sql("alter table t add column level int default 7")
        with monkeypatch.context() as patched:
            patched.setattr(LakeTable, "fill", broken)
            with pytest.raises(BrokenError):
                mirrored.run()
        mirrored.run()

        assert mirrored.current() == mirrored.as_of(mirrored.now()) == [{"id": 1, "level": 7}]

    def test_a_type_that_is_another_one_is_named(self, mirrored: Mirrored) -> None:
        mirrored.make("id int primary key, born timestamptz")
        mirrored.sql("insert into t values (1, now())")
        mirrored.run()
        mirrored.sql("alter table t alter column born type text", "insert into t values (2, 'yesterday')")

        with pytest.raises(StreamingQueryException, match=r"public\.t: column 'born' is string now"):
            mirrored.run()

    def test_changes_that_the_copy_has_seen_are_not_looked_at(self, mirrored: Mirrored) -> None:
        """So a new copy is a way out, whatever they are; and a column that is ignored by now is no obstacle."""
        mirrored.make("id int, code int primary key, name text, _op text", "rekey", "ignore=_op")
        current = LakeTable(mirrored.path("current"), CURRENT)
        current.make([Column("id", IntegerType()), Column("code", IntegerType()), Column("name", StringType())])
        checkpoint = mirrored.lake / "checkpoint"
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text('{"id": "query"}')
        apply = batch.ApplyChanges(
            url=mirrored.dsn, stream="changes", tables=(), current=str(mirrored.lake / "current"), history=None,
            snapshot=True, checkpoint=str(checkpoint), compact_every=0,
        )  # fmt: skip
        head = '{"op":"INSERT","table":["public","t"],"pkey":["%s"]}'
        told = [
            (head % "id", '{"id":1,"code":10,"name":"seen"}', 1, mirrored.now(), 50),
            (head % "code", '{"id":2,"code":20,"name":"new","_op":"x"}', 2, mirrored.now(), 150),
        ]
        columns = "type string, value string, offset long, timestamp timestamp, txid long"
        events = mirrored.spark.createDataFrame(told, columns)

        current.set(key='["code"]', snapshot="40:40:")
        with pytest.raises(ChangeDataError, match=r"public\.t: its key changed .* run again with a snapshot"):
            apply(events, 0)
        current.set(snapshot="100:100:")
        apply(events, 0)

        assert mirrored.current() == [{"id": 2, "code": 20, "name": "new"}]

    def test_a_key_that_the_lake_cannot_hold_is_named_by_the_copy(self, mirrored: Mirrored) -> None:
        mirrored.make("id int, until timestamptz default 'infinity', day date, a int, primary key (id, until)")
        mirrored.sql("insert into t (id, a, day) values (1, 1, '12026-11-16')")
        with pytest.raises(ChangeDataError, match=r"public\.t: a value of the key column until .* with pkey="):
            mirrored.run()

        # What the copy left behind is of another type by now.
        mirrored.sql("alter table t alter column a type text", "select pgque.track_table('t', 'changes', 'pkey=id')")
        mirrored.run()

        copied = mirrored.table("history").to_pyarrow_table()
        assert copied["a"].to_pylist() == ["1"]
        assert copied["day"].to_pylist() == [None]
        assert copied["_unfit"].to_pylist() == ['{"until":"infinity","day":"12026-11-16"}']

    def test_values_have_the_types_of_their_columns(self, mirrored: Mirrored) -> None:
        mirrored.sql("create domain price as numeric(8, 2)", "create type mood as enum ('glad')")
        mirrored.make(
            'id int primary key, small int2, big int8, flag bool, real float4, "Real 2" float8, price price,'
            " free numeric, day date, at timestamptz, local timestamp, bytes bytea, doc jsonb, mood mood, tags text[],"
            " fixed char(4), secret text",
            "rekey", "ignore=secret",
        )  # fmt: skip
        values = (
            "1, 2, 9007199254740993, true, 1.5, 0.1, 12.30, 1.50, '2026-02-28', '2026-01-01 10:00:00.123456+02',"
            " '2026-01-01 10:00:00.5', '\\x00ff', '{\"a\": 1}', 'glad', '{a,b}', 'ab', 'hidden'"
        )
        mirrored.sql("set datestyle = 'German'", f"insert into t values (1{values[1:]})")
        mirrored.run()
        mirrored.sql(f"insert into t values (2{values[1:]})")
        mirrored.sql("insert into t (id, day, at, price, free) values (3, '0044-03-15 BC', 'infinity', 'NaN', 'NaN')")
        mirrored.sql("insert into t (id, day, local) values (4, '5874897-12-31', '10000-01-01')")
        mirrored.run()

        first, second, odd, far = mirrored.current()
        assert first | {"id": 2} == second
        assert first == {
            "id": 1, "small": 2, "big": 9007199254740993, "flag": True, "real": 1.5, "Real 2": 0.1,
            "price": Decimal("12.30"), "free": "1.50", "day": date(2026, 2, 28),
            "at": datetime(2026, 1, 1, 8, 0, 0, 123456, UTC), "local": datetime(2026, 1, 1, 10, 0, 0, 500000),
            "bytes": b"\x00\xff", "doc": '{"a": 1}', "mood": "glad", "tags": "{a,b}", "fixed": "ab  ",
        }  # fmt: skip
        assert (odd["day"], odd["at"], odd["price"], odd["free"]) == (None, None, None, "NaN")
        assert (far["day"], far["local"]) == (None, None)
        unfit = [row["_unfit"] for row in mirrored.rows("current") if row["id"] > 2]
        assert unfit == [
            '{"price":"NaN","day":"0044-03-15 BC","at":"infinity"}',
            '{"day":"5874897-12-31","local":"10000-01-01T00:00:00"}',
        ]
        mirrored.sql("reset datestyle")
        assert [row["_unfit"] for row in mirrored.as_of(mirrored.now(), "id")] == [None, None, *unfit]

    def test_a_table_without_a_key_is_named(self, mirrored: Mirrored) -> None:
        mirrored.make("id int")

        with pytest.raises(ChangeDataError, match=r"public\.t has no key"):
            mirrored.run()


def test_what_is_done_to_a_batch_can_be_sent_to_where_it_is_done() -> None:
    apply = batch.ApplyChanges(
        url="env:DATABASE_URL", stream="s", tables=("a.b",), current="c", history=None, snapshot=True, checkpoint="d",
        compact_every=1,
    )  # fmt: skip

    assert pickle.loads(pickle.dumps(apply)) == apply


@pytest.mark.slow
class TestCrashes:
    def test_a_batch_that_was_cut_off_between_its_commits_and_after_them_is_applied_once(
        self, mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mirrored.make("id int primary key, name text")
        mirrored.sql("insert into t values (1, 'a'), (2, 'b')")
        mirrored.run()
        mirrored.sql(
            "update t set name = 'c' where id = 1", "delete from t where id = 2", "insert into t values (3, 'd')"
        )
        merge = merges.merge_history

        def merged_and_broken(*arguments: Any) -> None:
            merge(*arguments)
            raise BrokenError

        monkeypatch.setattr(batch, "merge_history", broken)
        with pytest.raises(StreamingQueryException):
            mirrored.run()
        assert mirrored.current() == [{"id": 1, "name": "c"}, {"id": 3, "name": "d"}]
        versions = mirrored.table("current").version(), mirrored.table("history").version()

        monkeypatch.setattr(batch, "merge_history", merged_and_broken)
        with pytest.raises(StreamingQueryException):
            mirrored.run()
        monkeypatch.setattr(batch, "merge_history", merge)
        mirrored.run()

        assert mirrored.table("current").version() == versions[0]
        assert mirrored.table("history").version() == versions[1] + 1
        assert [tuple(row.values()) for row in mirrored.history("id", "name", "_is_current")] == [
            (1, "a", False), (1, "c", True), (2, "b", False), (3, "d", True),
        ]  # fmt: skip

    def test_a_query_without_its_checkpoint_is_refused(self, mirrored: Mirrored) -> None:
        mirrored.make("id int primary key, name text")
        mirrored.run()
        mirrored.sql("insert into t values (1, 'a')")
        mirrored.run()
        shutil.rmtree(mirrored.lake / "_checkpoints")
        mirrored.sql("insert into t values (2, 'b')")

        with pytest.raises(StreamingQueryException, match="holds changes applied by another query"):
            mirrored.run()

        shutil.rmtree(mirrored.lake)
        mirrored.run()
        assert mirrored.current() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
