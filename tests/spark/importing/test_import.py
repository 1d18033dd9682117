"""Importing from the tables of other queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from penstock.spark import lake
from penstock.spark.database import Database
from penstock.spark.pipelines.importing import Import
from penstock.spark.pipelines.importing.sources import Source
from penstock.spark.pipelines.importing.tally import MOST_SHOWN, Tally
from penstock.spark.pipelines.pipeline import PipelineError
from penstock.spark.pipelines.run import running
from tests import cluster
from tests.spark.importing import foreign

pytestmark = pytest.mark.timeout(300)


class Importer:
    """Runs imports into one database and one lake, and looks at what came."""

    def __init__(self, spark: SparkSession, dsn: str, database: psycopg.Connection, folder: Path) -> None:
        self._spark, self._dsn, self._folder = spark, dsn, folder
        self.database = database

    def __call__(self, source: str, **settings: Any) -> list[dict[str, Any]]:
        pipeline = Import(source=source, **settings)
        with running(pipeline, spark=self._spark, url=self._dsn, lake=str(self._folder)) as run:
            pipeline.run(run)
        return run.results

    def all(self, query: str) -> list[tuple[Any, ...]]:
        return self.database.execute(query).fetchall()

    def events(self, stream: str) -> list[tuple[Any, ...]]:
        [(number,)] = self.database.execute(
            "select q.queue_id from pgque.queue as q where q.queue_name = %s", [stream]
        ).fetchall()
        return self.all(f"select ev_type, ev_data, ev_extra1, ev_extra4 from pgque.event_{int(number)} order by ev_id")

    def note(self) -> str:
        [(note,)] = self.all("select r.note from penstock.pipeline_runs as r order by r.id desc limit 1")
        return str(note)

    def rejects(self) -> list[tuple[Any, ...]]:
        rows = lake.read(self._spark, str(self._folder / "rejects")).select("queue", "id", "reason").collect()
        return sorted(tuple(row) for row in rows)

    def counts(self) -> list[int]:
        row = self.database.execute(
            "select (select count(*) from penstock.messages), (select count(*) from penstock.jobs)"
        ).fetchone()
        assert row is not None
        return list(row)


@pytest.fixture
def load(spark: SparkSession, dsn: str, database: psycopg.Connection, tmp_path: Path) -> Importer:
    return Importer(spark, dsn, database, tmp_path / "lake")


@pytest.fixture
def other(postgres_dsn: str) -> Iterator[str]:
    """A database of someone else."""
    with cluster.empty_database(postgres_dsn) as found:
        yield found


MESSAGES = """
select q.name, m.body, m.priority, m.headers, m.visible_at
from penstock.messages as m
join penstock.queues as q on q.bin_id = m.bin_id
order by m.id
"""
JOBS = """
select q.name, j.payload::text, j.priority, j.run_at
from penstock.jobs as j
join penstock.job_queues as q on q.id = j.queue_id
order by j.id
"""


def test_queues_of_pgmq_from_another_database(load: Importer, other: str) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    with psycopg.connect(other) as there:
        there.execute(foreign.PGMQ)
        there.execute(
            "insert into pgmq.q_orders (vt, message, headers)"
            " values (now(), '{\"n\": 1}', '{\"a\": 1}'), (%s, '[2]', null)",
            [soon],
        )
        there.execute("insert into pgmq.q_old (vt, message) values (now(), '\"three\"'), (now(), null)")
        there.execute("insert into pgmq.a_orders (msg_id, vt, message) values (9, now(), '{}')")

    results = load("pgmq", from_url=other, rename=("old=older",), skip_rejects=True)
    again = load("pgmq", from_url=other, rename=("old=older",))

    rows = load.all(MESSAGES)
    assert [(name, body, headers) for name, body, _, headers, _ in rows] == [
        ("older", '"three"', None),
        ("orders", '{"n": 1}', {"a": 1}),
        ("orders", "[2]", None),
    ]
    assert abs(rows[2][4] - soon) < timedelta(seconds=2)
    assert [tuple(row.values()) for row in results] == [
        ("old", "queue older", 1, "", ""),
        ("old", "queue older", 1, "no payload", "2"),
        ("orders", "queue orders", 2, "", ""),
    ]
    assert load.rejects() == [("old", "2", "no payload")]
    assert again == []


def test_finished_work_only_when_asked_for_and_all_of_it_again_under_another_word(load: Importer) -> None:
    load.database.execute(foreign.PGMQ)
    load.database.execute("insert into pgmq.q_orders (vt, message) values (now(), '1')")
    load.database.execute("insert into pgmq.a_orders (msg_id, vt, message) values (7, now(), '2')")

    load("pgmq", queues=("orders",))
    first = load.counts()
    load("pgmq", queues=("orders",), finished=True)
    second = load.counts()
    load("pgmq", queues=("orders",), again="once more")

    assert [first[0], second[0], load.counts()[0]] == [1, 2, 3]


def test_events_of_pgq_that_a_consumer_has_yet_to_read(load: Importer) -> None:
    event = "insert into pgq.event_1_{} values (%s, now(), txid_current(), null, null, %s, %s, %s, %s, null, %s)"
    load.database.execute(foreign.PGQ)
    load.database.execute(event.format(0), [1, "seen", "read already", None, None, None])
    load.database.execute("insert into pgq.tick (tick_queue, tick_id, tick_event_seq) values (1, 5, 1)")
    load.database.execute("insert into pgq.consumer (co_name) values ('shop')")
    load.database.execute("insert into pgq.subscription (sub_queue, sub_consumer, sub_last_tick) values (1, 1, 5)")
    load.database.execute(event.format(0), [2, "click", "two", "extra", None, "key"])
    load.database.execute(event.format(1), [3, "click", "three", None, None, None])
    load.database.execute(event.format(1), [4, "click", "four", None, "more", None])

    with pytest.raises(PipelineError, match="2 rows imported; 1 rejected"):
        load("pgq", target="stream", consumer="shop")
    load.database.execute(event.format(1), [5, "click", "five", None, None, None])
    load("pgq", target="stream", consumer="shop")

    assert load.events("clicks") == [
        ("click", "two", "extra", "key"),
        ("click", "three", None, None),
        ("click", "five", None, None),
    ]
    assert load.rejects() == [("clicks", "4", "with extra2 or extra3")]


def test_jobs_of_river_keep_their_kind_their_order_and_their_delay(load: Importer) -> None:
    later = datetime.now(UTC) + timedelta(days=2)
    load.database.execute(foreign.RIVER)
    for state, args, kind, priority, queue, at in [
        ("available", '{"to": "ada"}', "email", 1, "default", None),
        ("running", "{}", "email", 4, "default", None),
        ("retryable", "[1, 2]", "sum", 2, "default", None),
        ("scheduled", '{"task": "own"}', "report", 1, "reports", later),
        ("pending", "{}", "waits", 1, "default", None),
        ("completed", "{}", "done", 1, "default", None),
        ("discarded", "{}", "done", 1, "default", None),
        ("cancelled", "{}", "done", 1, "default", None),
    ]:
        load.database.execute(
            "insert into public.river_job (state, args, kind, priority, queue, scheduled_at, max_attempts)"
            " values (%s, %s, %s, %s, %s, coalesce(%s, now()), 25)",
            [state, args, kind, priority, queue, at],
        )

    would = load("river", target="jobs", chunk=2, dry_run=True)
    empty = load.counts()
    did = load("river", target="jobs", chunk=2, skip_rejects=True)

    assert (empty, would) == ([0, 0], did)
    assert [tuple(row.values()) for row in did] == [
        ("default", "jobs default", 3, "", ""),
        ("default", "jobs default", 1, "in state pending", "5"),
        ("reports", "jobs reports", 1, "", ""),
    ]
    rows = load.all(JOBS)
    assert [(name, json.loads(payload), priority) for name, payload, priority, _ in rows] == [
        ("default", {"task": "email", "to": "ada"}, 0),
        ("default", {"task": "email"}, -3),
        ("default", {"task": "sum", "args": [1, 2]}, -1),
        ("reports", {"task": "report", "args": {"task": "own"}}, 0),
    ]
    assert abs(rows[3][3] - later) < timedelta(seconds=1)


@pytest.mark.parametrize("layout", ["9", "10"])
def test_jobs_of_pg_boss_in_both_layouts(load: Importer, layout: str) -> None:
    load.database.execute(foreign.BOSS_9 if layout == "9" else foreign.BOSS_10)
    start = "startafter" if layout == "9" else "start_after"
    made = "createdon" if layout == "9" else "created_on"
    for number, (state, priority, delay) in enumerate(
        [("created", 5, 0), ("retry", 0, 3600), ("active", -1, 0), ("completed", 0, 0), ("failed", 0, 0)]
    ):
        load.database.execute(
            f"insert into pgboss.job (name, data, state, priority, {start}, {made}) values ('mail', %s, %s, %s,"
            " now() + make_interval(secs => %s), now() + make_interval(secs => %s))",
            [json.dumps({"n": number}), state, priority, delay, number],
        )

    load("pg-boss", target="jobs")
    load("pg-boss", target="jobs")

    rows = load.all(JOBS)
    assert [(name, json.loads(payload), priority) for name, payload, priority, _ in rows] == [
        ("mail", {"n": 0}, 5),
        ("mail", {"n": 1}, 0),
        ("mail", {"n": 2}, -1),
    ]
    assert rows[1][3] - rows[0][3] > timedelta(minutes=59)


@pytest.mark.parametrize("layout", ["old", "new"])
def test_jobs_of_graphile_worker_in_both_layouts(load: Importer, layout: str) -> None:
    if layout == "old":
        load.database.execute(foreign.OLD_GRAPHILE)
        table, task = "jobs", "task_identifier"
    else:
        load.database.execute(foreign.GRAPHILE)
        load.database.execute("insert into graphile_worker._private_tasks (identifier) values ('resize')")
        table, task = "_private_jobs", "task_id"
    first = -(2**31) if layout == "old" else -(2**15)
    for payload, priority, attempts, at in [
        ('{"n": 0}', 0, 0, "now"),
        ('{"n": 1}', -7, 3, "now"),
        ('{"n": 2}', 3, 25, "now"),
        ('{"n": 3}', first, 0, "now"),
        ('{"n": 4}', 0, 0, "infinity"),
    ]:
        load.database.execute(
            f"insert into graphile_worker.{table} ({task}, payload, priority, attempts, run_at)"
            " values (%s, %s, %s, %s, %s)",
            ["resize" if layout == "old" else 1, payload, priority, attempts, at],
        )

    load("graphile-worker", target="jobs", skip_rejects=True)

    assert [(name, json.loads(payload), priority) for name, payload, priority, _ in load.all(JOBS)] == [
        ("resize", {"n": 0}, 0),
        ("resize", {"n": 1}, 7),
        ("resize", {"n": 3}, 32_767),
    ]
    assert load.rejects() == [("resize", "5", "delayed for ever")]


def test_a_database_is_known_by_its_cluster_and_its_number_or_by_the_name_it_is_given(other: str) -> None:
    with psycopg.connect(other, autocommit=True) as there:
        known = there.execute(
            "select c.system_identifier, d.oid from pg_control_system() as c, pg_database as d"
            " where d.datname = current_database()"
        ).fetchone()
        assert known is not None
        source = Source(database=Database(other), schema="public", consumer=None)
        assert source.identity() == f"{known[0]}/{known[1]}"
        source.database.close()

        # Some who sell databases keep this from their users.
        there.execute("revoke execute on function pg_control_system() from public")
        options = "&" if "?" in other else "?"
        poor = Database(f"{other}{options}options=-c%20role%3Dpg_read_all_data")
        with pytest.raises(PipelineError, match="identify it with --source-name"):
            Source(database=poor, schema="public", consumer=None).identity()
        poor.close()


def test_a_source_of_another_name_is_another_and_what_pg_boss_does_for_itself_is_left_out(load: Importer) -> None:
    load.database.execute(foreign.BOSS_10)
    load.database.execute(
        "insert into pgboss.job (name, data) values ('mail', '{}'), ('__pgboss__send-it', '{}'), ('__pgboss__x', null)"
    )

    counts = []
    for name in ("one", "one", "two"):
        load("pg-boss", target="jobs", source_name=name)
        counts.append(load.counts()[1])

    assert counts == [1, 1, 2]
    assert load.note() == "1 rows imported, 0 rejected; left out: __pgboss__send-it, __pgboss__x"


def test_what_is_told_has_an_end_and_rejects_come_before_it() -> None:
    tally = Tally()
    for number in range(MOST_SHOWN):
        tally.add("file", "queue", [(f"q{number}", None, 2, None), (f"q{number}", "empty", 1, "7")])

    shown = tally.rows()

    assert (tally.good, tally.bad, len(shown)) == (2000, 1000, MOST_SHOWN)
    assert {row["rejected because"] for row in shown} == {"empty"}
    assert tally.remarks() == "; 1,000 of 2,000 lines are shown"


def test_an_import_that_was_stopped_goes_on_where_it_ended(
    load: Importer, spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    load.database.execute(foreign.PGMQ)
    load.database.execute(
        "insert into pgmq.q_orders (vt, message) select now(), to_jsonb(n) from generate_series(1, 9) n"
    )
    pipeline = Import(source="pgmq", queues=("orders",), chunk=4)
    with running(pipeline, spark=spark, url=dsn, lake=str(tmp_path / "lake"), show=lambda _: None) as run:
        # Told to stop while it works on the first portion.
        note = run.note
        run.note = lambda text: (note(text), run.stop())[0]  # type: ignore[method-assign,func-returns-value]
        pipeline.run(run)
    stopped = (run.state, load.counts()[0])

    load("pgmq", queues=("orders",), chunk=4)

    assert stopped == ("stopped", 4)
    assert sorted(int(row[1]) for row in load.all(MESSAGES)) == list(range(1, 10))


def test_messages_of_a_fifo_queue_keep_their_groups_and_their_order(load: Importer) -> None:
    load.database.execute(foreign.PGMQ)
    load.database.execute(
        "insert into pgmq.q_orders (vt, message, headers) values"
        " (now(), '1', '{\"x-pgmq-group\": \"a\"}'), (now(), '2', null), (now(), '2', null)"
    )

    load("pgmq", queues=("orders",), into="orders.fifo")

    assert load.all("select group_id, body from penstock.messages order by id") == [
        ("a", "1"),
        ("default", "2"),
        ("default", "2"),
    ]


def test_what_is_not_there_is_said_before_anything_is_written(load: Importer) -> None:
    with pytest.raises(PipelineError, match="there is no river in schema 'public'"):
        load("river", target="jobs")
    load.database.execute(foreign.PGMQ)
    with pytest.raises(PipelineError, match="the source has no queue nothing"):
        load("pgmq", queues=("nothing",))
    with pytest.raises(PipelineError, match="use one of pgmq"):
        load("rabbit")
    load.database.execute(foreign.PGQ)
    with pytest.raises(PipelineError, match="no consumer 'nobody'"):
        load("pgq", target="stream", consumer="nobody")

    assert load.counts() == [0, 0]
