"""Random changes by several sessions at once, and the lake that must be equal to the table then and now."""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark.pipelines.change_data import as_of
from tests.spark.change_data.mirrored import Mirrored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CHANGES = int(os.environ.get("PENSTOCK_TEST_CHANGES", "50000"))
SESSIONS = 4
ROUNDS = 7
COLUMNS = ("id", "name", "amount", "flag", "at", "note")

# No session waits while holding a lock: locks on keys are only tried, and a waiting session has just begun. So there
# are no deadlocks, and still sessions change the same rows right after each other, and at times while waiting.
CHURN = """
create procedure public.churn(i_seed float, i_changes integer, i_truncates integer) language plpgsql as $$
declare
  v_committed integer := 0;
  v_pending integer := 0;
  v_truncates integer := 0;
  v_key integer;
  v_other integer;
  v_kind float;
  v_count integer;
begin
  perform setseed(i_seed);
  while v_committed < i_changes loop
    v_key := 1 + floor(random() * 3000);
    v_other := 1 + floor(random() * 3000);
    v_kind := random();
    v_count := 0;
    if v_pending = 0 and v_truncates < i_truncates and v_committed > i_changes / 2 then
      truncate public.t;
      v_truncates := v_truncates + 1;
      v_count := 1;
    elsif v_pending = 0 and v_kind < 0.1 then
      update public.t set note = 'waited ' || v_kind where id = v_key;
      get diagnostics v_count = row_count;
      v_committed := v_committed + v_count;
      commit;
      continue;
    elsif pg_try_advisory_xact_lock(v_key) then
      if v_kind < 0.45 then
        insert into public.t values (v_key, md5(v_kind::text), v_kind * 1000, v_kind < 0.3, clock_timestamp(), null)
        on conflict (id) do update set name = excluded.name, amount = -excluded.amount, at = excluded.at;
        get diagnostics v_count = row_count;
      elsif v_kind < 0.70 then
        update public.t set amount = v_kind * 100000, flag = not flag, note = repeat('é"\\', (v_kind * 9)::integer)
        where id = v_key;
        get diagnostics v_count = row_count;
      elsif v_kind < 0.82 then
        delete from public.t where id = v_key;
        get diagnostics v_count = row_count;
      elsif pg_try_advisory_xact_lock(v_other) and not exists (select from public.t where id = v_other) then
        update public.t set id = v_other, name = 'moved' where id = v_key;
        get diagnostics v_count = row_count;
      end if;
    end if;
    v_pending := v_pending + v_count;
    if v_pending > 60 or v_pending > 0 and random() < 0.05 then
      if random() < 0.15 then
        rollback;
      else
        commit;
        v_committed := v_committed + v_pending;
      end if;
      v_pending := 0;
      if random() < 0.05 then
        perform pgque.ticker('changes');
        commit;
      end if;
    end if;
  end loop;
  commit;
end;
$$
"""

Row = tuple[Any, ...]


class Writers:
    def __init__(self, dsn: str, pool: Executor) -> None:
        self._dsn = dsn
        self._pool = pool

    def start(self, round_: int) -> list[Future[None]]:
        truncates = round_ in (2, 4)
        return [
            self._pool.submit(self._churn, (round_ * SESSIONS + number) / 100, truncates=truncates and number < 2)
            for number in range(SESSIONS)
        ]

    def _churn(self, seed: float, *, truncates: bool) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute("set lock_timeout = '60s'")
            changes = CHANGES // ROUNDS // SESSIONS + 1
            connection.execute("call public.churn(%s, %s, %s)", [seed, changes, int(truncates)])


def test_the_lake_is_the_table_now_and_at_every_moment_before(
    spark: SparkSession, dsn: str, database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    mirrored = Mirrored(spark, dsn, database, tmp_path / "lake")
    mirrored.make("id int primary key, name text, amount numeric(12, 3), flag bool, at timestamptz, note text")
    mirrored.sql(CHURN)
    moments: list[tuple[datetime, list[Row]]] = []
    with ThreadPoolExecutor(SESSIONS) as pool:
        writers = Writers(dsn, pool)
        for round_ in range(ROUNDS):
            at_work = writers.start(round_)
            if round_ > 0:
                # The first of these copies the table while it is being changed.
                mirrored.run(max_events=5000)
            for each in at_work:
                each.result(timeout=300)
            if round_ > 0:
                moments.append((mirrored.now(), source(database)))
    mirrored.run(max_events=20_000, compact_every=1)

    told = database.execute("select count(*) from pgque.event_template").fetchone()
    assert told is not None
    assert told[0] >= CHANGES
    assert tuples(mirrored.table("current").to_pyarrow_table(columns=list(COLUMNS)).to_pylist()) == source(database)
    assert len(moments) >= 5
    for moment, rows in moments:
        found = as_of(spark, mirrored.path("history"), moment).toArrow().select(list(COLUMNS))
        assert tuples(found.to_pylist()) == rows
    check_spans(mirrored)


def source(database: psycopg.Connection[Any]) -> list[Row]:
    return database.execute("select id, name, amount, flag, at, note from public.t order by id").fetchall()


def tuples(rows: list[dict[str, Any]]) -> list[Row]:
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def check_spans(mirrored: Mirrored) -> None:
    """Of each key at most one version at a time, and only the last one open."""
    names = ["id", "_valid_from", "_valid_to", "_first_offset", "_last_offset", "_is_current"]
    rows = mirrored.table("history").to_pyarrow_table(columns=names).to_pylist()
    rows.sort(key=lambda row: (row["id"], row["_first_offset"]))
    for row in rows:
        assert (row["_valid_to"] is None) == row["_is_current"]
        assert row["_is_current"] or row["_valid_from"] <= row["_valid_to"]
    for earlier, later in pairwise(rows):
        if earlier["id"] == later["id"]:
            assert not earlier["_is_current"]
            assert earlier["_valid_to"] <= later["_valid_from"]
            assert earlier["_last_offset"] <= later["_first_offset"]
