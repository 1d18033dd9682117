"""What insights read of PostgreSQL: the last hours, however long the history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests import cluster

HISTORY = """
insert into penstock.archive (id, tenant_id, queue, sent_at, archived_at, receives, priority, is_json, body)
select n, 1, 'q' || n % 50, now() - n * interval '1 minute', now() - n * interval '1 minute', 1, 0, false, ''
from generate_series(30000, 1, -1) as n;
insert into penstock.deliveries (
  tenant_id, lane, due_at, state, attempts, subscription_id, created_at, finished_at, confirms, subscription_key,
  message_id, topic, endpoint, headers, body
)
select
  1, 1, now(), 2 + n % 2, 1, 1, now() - n * interval '1 minute', now() - n * interval '1 minute', false, '', '', 'news',
  'http://x', '', repeat('x', 100)
from generate_series(30000, 1, -1) as n;
select penstock.make_job_queues(array[1]::bigint[], array['mail'], now());
select penstock.make_job_day(now() - n * interval '1 day') from generate_series(0, 21) as n;
insert into penstock.finished_jobs (
  queue_id, id, tenant_id, run_at, created_at, finished_at, priority, max_retries, retry_count, attempts,
  lease_lost_count, state, payload
)
select 1, n, 1, now(), now() - n * interval '1 minute', now() - n * interval '1 minute', 0, 3, 0, 1, 0, 4, '{}'
from generate_series(1, 30000) as n;
insert into penstock.job_attempts
select 1, n, 1, now() - n * interval '1 minute', now() - n * interval '1 minute', 'ada', 'failed', 'no'
from generate_series(1, 30000) as n;
vacuum analyze penstock.archive, penstock.deliveries, penstock.finished_jobs, penstock.job_attempts;
"""


@pytest.fixture(scope="module")
def database(postgres_dsn: str) -> Iterator[psycopg.Connection]:
    """The tests only read."""
    with cluster.migrated_database(postgres_dsn) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        for statement in HISTORY.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        yield connection


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def test_the_facts_of_the_last_hours_are_read_without_their_history(database: psycopg.Connection) -> None:
    query = "explain (analyze, format json) select * from penstock.facts(now() - interval '2 hours', 'infinity')"
    row = database.execute(query).fetchone()
    assert row is not None

    read: dict[str, int] = {}
    for node in nodes(row[0][0]["Plan"]):
        if "Relation Name" in node:
            rows = (
                node["Actual Rows"]
                + node.get("Rows Removed by Filter", 0)
                + node.get("Rows Removed by Index Recheck", 0)
            )
            read[node["Relation Name"]] = max(read.get(node["Relation Name"], 0), rows)

    assert {name.rstrip("0123456789") for name in read} >= {"archive", "deliveries", "finished_jobs_", "job_attempts_"}
    # A partition has a day, and a summary of an index stands for many pages.
    assert {name: rows for name, rows in read.items() if rows > 12_000} == {}
    assert sum(rows for name, rows in read.items() if name.startswith("finished_jobs_")) <= 2 * 1440


def test_a_stream_that_no_tenant_could_own_is_the_default_tenants(migrated_database: str) -> None:
    odd = "t99999999999999999999:orders"
    with psycopg.connect(migrated_database, autocommit=True) as connection:
        connection.execute("select pgque.create_queue(%s)", [odd])
        connection.execute("select pgque.register_consumer(%s, 'c')", [odd])
        connection.execute(
            """
            insert into pgque.dead_letter (
              dl_queue_id, dl_consumer_id, dl_consumer_name, dl_reason, ev_id, ev_time, ev_txid, ev_type
            )
            select q.queue_id, c.co_id, c.co_name, 'no', 1, now(), '1', 't' from pgque.queue as q, pgque.consumer as c
            """
        )

        facts = connection.execute("select f.tenant, f.name from penstock.facts('-infinity', 'infinity') as f")

        assert facts.fetchall() == [("default", odd)]


def test_facts_of_another_time_are_left_out(database: psycopg.Connection) -> None:
    row = database.execute(
        """
        select min(f.at) >= now() - interval '50 hours', max(f.at) < now() - interval '49 hours', count(*) = 60 * 7
        from penstock.facts(now() - interval '50 hours', now() - interval '49 hours') as f
        """
    ).fetchone()

    assert row == (True, True, True)
