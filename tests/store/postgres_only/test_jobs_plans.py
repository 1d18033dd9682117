"""The statements that jobs pass through use their indexes, and cost the same however many jobs there are.

The server's plans live as long as its connections: one made while the table was empty must serve when it is full.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import pytest

from penstock.clock import SystemClock
from penstock.model import DEFAULT_TENANT
from penstock.model.jobs import Completion, JobOutcome, LeaseRequest, NewJob
from penstock.store.postgres.connections import PLANNING
from penstock.store.postgres.sql import sources
from penstock.store.postgres.store import PostgresStore
from tests import cluster
from tests.store.statistics import FLUSH

NOW = datetime(2026, 1, 1, tzinfo=UTC)

INDEXES = {
    "enqueue": None,
    "promote": "jobs_delayed",
    "recover": "jobs_leased",
    "claim": "jobs_ready",
    "complete": "jobs_pkey",
}
"""Every statement between `-- job path:` and `-- end`, with the index by which it finds its jobs."""

VARIABLES = {
    "p_queue": ("integer", "1"),
    "p_queues": ("integer[]", "'{1,1}'"),
    "p_tenants": ("bigint[]", "'{1,1}'"),
    "p_payloads": ("text[]", "'{1,2}'"),
    "p_priorities": ("integer[]", "null"),
    "p_retries": ("integer[]", "null"),
    "p_run_ats": ("timestamptz[]", "null"),
    "p_backoffs": ("text[]", "null"),
    "v_existing": ("boolean[]", "null"),
    "p_numbers": ("bigint[]", "'{1,2}'"),
    "p_tokens": (
        "uuid[]",
        "'{00000000-0000-4000-8000-000000000000,00000000-0000-4000-8000-000000000000}'",
    ),
    "p_results": ("text[]", "null"),
    "p_workers": ("text[]", "'{a,b}'"),
    "p_start": ("bigint", "0"),
    "p_bytes": ("bigint", "16777216"),
    "p_limit": ("integer", "10"),
    "p_since": ("timestamptz", "'-infinity'"),
    "p_until": ("timestamptz", "'2026-01-01 00:00:30+00'"),
    "p_now": ("timestamptz", "'2026-01-01 00:00:00+00'"),
}

SEED = """
select penstock.make_job_queues(array[1, 1, 1]::bigint[], array['ready', 'leased', 'delayed'], '2026-01-01');
insert into penstock.jobs (
  queue_id, id, tenant_id, place, due_at, run_at, created_at, updated_at, priority, max_retries, state, lease_token,
  leased_at, worker, payload
)
select
  q.id, n, 1, penstock.job_place(0, n), timestamptz '2026-01-01' + n * interval '10 ms', '2026-01-01', '2026-01-01',
  '2026-01-01', 0, 3, w.state, case when w.state = 1 then gen_random_uuid() end, '2026-01-01', 'ada', '{}'
from (values ('ready', 0, 100000), ('leased', 1, 20000), ('delayed', 2, 20000)) as w (name, state, count)
join penstock.job_queues as q using (name)
cross join lateral generate_series(1, w.count) as n;
select setval('penstock.job_numbers', 200000);
"""


def statements() -> dict[str, str]:
    found: dict[str, str] = {}
    for _, text in sources("penstock"):
        for name, body in re.findall(r"-- job path: (\w+)\n(.*?)-- end\n", text, re.DOTALL):
            assert name not in found
            found[name] = body
    return found


def plan_of(dsn: str, name: str, settings: dict[str, str]) -> str:
    body = re.sub(r"\binto [vnr]\w+(, \w+)*(?= from|\n|;)", "", statements()[name]).strip().rstrip(";")
    body = body.replace("p_backoffs, existing\n", "p_backoffs, v_existing\n").replace(" numbers,", " p_numbers,")
    used: list[str] = []

    def parameter(match: re.Match[str]) -> str:
        if match[0] not in used:
            used.append(match[0])
        return f"${used.index(match[0]) + 1}"

    body = re.sub(r"\b[pv]_\w+", parameter, body)
    types = ", ".join(VARIABLES[variable][0] for variable in used)
    values = ", ".join(VARIABLES[variable][1] for variable in used)
    with psycopg.connect(dsn) as connection:
        for setting, value in settings.items():
            connection.execute("select set_config(%s, %s, false)", [setting, value])
        connection.execute(f"prepare job_{name}({types}) as {body}".encode())
        explain = f"explain (costs off) execute job_{name}({values})"
        return "\n".join(row[0] for row in connection.execute(explain.encode()))


@pytest.fixture(scope="module", params=["empty", "vacuumed empty", "never analyzed", "analyzed"])
def database(request: pytest.FixtureRequest, postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("alter table penstock.jobs set (autovacuum_enabled = off)")
            connection.execute("select penstock.make_job_day('2026-01-01')")
            if request.param == "vacuumed empty":
                connection.execute("vacuum analyze penstock.jobs")
            elif request.param != "empty":
                connection.execute(SEED)
            if request.param == "analyzed":
                connection.execute("analyze")
        yield dsn


def test_every_statement_of_the_job_path_is_looked_at() -> None:
    assert statements().keys() == INDEXES.keys()


@pytest.mark.parametrize("name", INDEXES)
def test_a_statement_of_the_job_path_uses_its_index(database: str, name: str) -> None:
    plan = plan_of(database, name, PLANNING)

    assert "Seq Scan on jobs" not in plan, plan
    if (index := INDEXES[name]) is not None:
        assert re.search(rf"Index (Only )?Scan using {index}", plan), plan


@pytest.mark.parametrize("name", ["promote", "recover", "claim"])
def test_the_order_of_the_jobs_comes_from_the_index(database: str, name: str) -> None:
    lines = plan_of(database, name, PLANNING).splitlines()
    scan = next(number for number, line in enumerate(lines) if str(INDEXES[name]) in line)
    limit = max(number for number, line in enumerate(lines[:scan]) if "Limit" in line)

    assert not any("Sort" in line for line in lines[limit:scan]), "\n".join(lines)


# Costs, counted in buffers, which do not depend on the machine

BATCH = 50
QUERY = """
    select sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)
    from pg_statio_user_tables
    where relid = 'penstock.jobs'::regclass
"""


@pytest.fixture
async def store(migrated_database: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(migrated_database, max_connections=2)
    await store.open()
    # What a vacuum reads would be counted too.
    await store._connections.pools()[0].execute("alter table penstock.jobs set (autovacuum_enabled = off)")
    yield store
    await store.close()


@pytest.fixture
async def analyst(migrated_database: str) -> AsyncIterator[Any]:
    """Reads, in a transaction that stays open: vacuum may remove nothing."""
    connection = await asyncpg.connect(migrated_database)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.fetchval("select count(*) from penstock.jobs")
        yield connection
    await connection.close()


async def spent(store: PostgresStore) -> int:
    for pool in store._connections.pools():
        for statement in FLUSH:
            await pool.execute(statement)
    return int(await store._connections.pools()[0].fetchval(QUERY))


async def cycle(store: PostgresStore) -> None:
    """Enqueue, lease and complete one batch."""
    now = SystemClock().now
    entries = [NewJob(tenant=DEFAULT_TENANT, queue="work", payload="{}") for _ in range(BATCH)]
    await store.jobs.enqueue_many(entries, now())
    await drain(store)


async def drain(store: PostgresStore) -> None:
    now = SystemClock().now
    request = LeaseRequest(tenant=DEFAULT_TENANT, queue="work", lease_s=1, workers=["w"] * BATCH)
    [leased] = await store.jobs.lease_many([request], now())
    assert len(leased.jobs) == BATCH
    done = [Completion(tenant=DEFAULT_TENANT, id=job.id, token=job.token) for job in leased.jobs]
    assert set((await store.jobs.complete_many(done, now()))[0]) == {JobOutcome.DONE}


async def test_the_cost_of_a_job_stays_flat_while_vacuum_is_held_off(store: PostgresStore, analyst: Any) -> None:
    tenths = []
    for _ in range(10):
        before = await spent(store)
        for _ in range(20):
            await cycle(store)
        tenths.append(await spent(store) - before)

    assert tenths[-1] <= 1.3 * tenths[0], tenths


async def test_a_lease_costs_the_same_with_a_hundred_times_the_jobs(store: PostgresStore) -> None:
    costs = []
    for more in (1_000, 99_000):
        for _ in range(more // 1000):
            entries = [NewJob(tenant=DEFAULT_TENANT, queue="work", payload="{}") for _ in range(1000)]
            await store.jobs.enqueue_many(entries, SystemClock().now())
        before = await spent(store)
        for _ in range(4):
            await drain(store)
        costs.append(await spent(store) - before)

    assert costs[1] <= 2 * costs[0], costs
