"""The statements of the hot path use their indexes: on a full table, on an empty one, and before any analyze.

The server's plans live as long as its connections: one made while the table was empty must serve when it is full.
A user's session plans by itself, and again after an analyze.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

from penstock.clock import FakeClock
from penstock.model import DEFAULT_TENANT, Outcome
from penstock.store.postgres.connections import PLANNING
from penstock.store.postgres.sql import sources
from penstock.store.postgres.store import PostgresStore
from tests import cluster
from tests.store.caller import Caller
from tests.store.postgres_only.sessions import until
from tests.store.statistics import FLUSH

NOW = datetime(2026, 1, 1, tzinfo=UTC)

INDEXES = {
    "send": None,
    "due": "messages_hidden",
    "head": "messages_ready",
    "barrier": "messages_placed",
    "run": "messages_blocked",
    "claim": "messages_ready",
    "claim_within": "messages_ready",
    "tids": "messages_pkey",
    "groups": "messages_pkey",
    "delete": "messages_pkey",
    "delete_in_queues": "messages_pkey",
    "finish": "messages_pkey",
    "archive": "messages_pkey",
    "receive": "messages_ready",
    "pop": "messages_ready",
    "start": "messages_ready",
}
"""Every hot statement, with the index by which it finds its messages."""

VARIABLES = {
    "p_queue.bin_id": ("bigint", "1"),
    "p_bin": ("bigint", "1"),
    "v_bin": ("bigint", "1"),
    "p_tenant": ("bigint", "1"),
    "p_queue": ("text", "'plain'"),
    "p_since": ("timestamptz", "'-infinity'"),
    "p_until": ("timestamptz", "'2026-01-01 00:00:30+00'"),
    "v_until": ("timestamptz", "'2026-01-01 00:00:30+00'"),
    "p_now": ("timestamptz", "'2026-01-01 00:00:00+00'"),
    "v_now": ("timestamptz", "'2026-01-01 00:00:00+00'"),
    "p_limit": ("integer", "10"),
    "v_limit": ("integer", "10"),
    "v_lease": ("bigint", "1"),
    "v_start": ("bigint", "0"),
    "p_start": ("bigint", "0"),
    "p_bytes": ("bigint", "16777216"),
    "v_place": ("bigint", "0"),
    "v_end": ("bigint", "9223372036854775807"),
    "v_head.group_id": ("text", "'group-7'"),
    "p_group": ("text", "'group-7'"),
    "v_barrier": ("bigint", "9223372036854775807"),
    "v_picked": ("bigint[]", "'{}'"),
    "p_tenants": ("bigint[]", "'{1,1}'"),
    "p_queues": ("text[]", "'{plain,plain}'"),
    "p_bodies": ("text[]", "'{a,b}'"),
    "p_json": ("boolean[]", "null"),
    "p_delays": ("integer[]", "null"),
    "p_priorities": ("integer[]", "null"),
    "p_groups": ("text[]", "null"),
    "p_dedups": ("text[]", "null"),
    "p_retentions": ("integer[]", "null"),
    "p_attributes": ("text[]", "null"),
    "p_headers": ("text[]", "null"),
    "p_traces": ("text[]", "null"),
    "p_sizes": ("integer[]", "null"),
    "p_ids": ("bigint[]", "'{1,2}'"),
    "p_leases": ("integer[]", "'{1,1}'"),
    "p_archive": ("boolean", "false"),
}
"""What stands for a value in the statements: its type, and a value to plan with."""

LEAVE_ALONE = """
alter table penstock.messages set (autovacuum_enabled = off);
alter index penstock.messages_expiry set (autosummarize = off);
"""
"""No worker of PostgreSQL's looks at the table: to summarize a range of it counts as reading it from end to end."""

SEED = """
select penstock.create_queue('plain'), penstock.create_queue('hidden'), penstock.create_queue('groups.fifo');
insert into penstock.messages (
  bin_id, id, place, visible_at, sent_at, expires_at, priority, state, is_json, group_id, body
)
select
  q.bin_id,
  n,
  penstock.place_of(100, n, false),
  timestamptz '2026-01-01 00:00:00+00' + case q.name when 'hidden' then n * interval '10 ms' else interval '0 s' end,
  '2026-01-01 00:00:00+00',
  '2026-01-05 00:00:00+00',
  100,
  case q.name when 'plain' then 0 when 'hidden' then 1 + n % 2 else case when n <= 2000 then 0 else 3 end end,
  false,
  case q.name when 'groups.fifo' then 'group-' || n % 2000 end,
  'body'
from (values ('plain', 100000), ('hidden', 20000), ('groups.fifo', 80000)) as w (name, count)
join penstock.queues as q using (name)
cross join lateral generate_series(1, w.count) as n;
select setval('penstock.message_ids', 200000);
"""


def hot_statements() -> dict[str, str]:
    """What stands between `-- hot: name` and `-- end` in the functions."""
    found: dict[str, str] = {}
    for _, text in sources("penstock"):
        for name, body in re.findall(r"-- hot: (\w+)\n(.*?)-- end\n", text, re.DOTALL):
            assert name not in found
            found[name] = body
    return found


def as_prepared(name: str, body: str) -> tuple[str, str]:
    """The statement with its variables as parameters, and the call that plans it."""
    body = re.sub(r"\n\s*into [^\n]+", "", body).strip().rstrip(";")
    if body.startswith("select\nfrom"):
        body = f"select exists ({body})"
    used: list[str] = []

    def parameter(match: re.Match[str]) -> str:
        if match[0] not in used:
            used.append(match[0])
        return f"${used.index(match[0]) + 1}"

    body = re.sub(r"\b[pv]_\w+(\.\w+)?", parameter, body)
    types = ", ".join(VARIABLES[variable][0] for variable in used)
    values = ", ".join(VARIABLES[variable][1] for variable in used)
    return f"prepare hot_{name}({types}) as {body}", f"explain (costs off) execute hot_{name}({values})"


@pytest.fixture(scope="module", params=["empty", "vacuumed empty", "never analyzed", "analyzed"])
def database(request: pytest.FixtureRequest, postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(LEAVE_ALONE)
            if request.param == "vacuumed empty":
                connection.execute("vacuum analyze penstock.messages")
            elif request.param != "empty":
                connection.execute(SEED)
            if request.param == "analyzed":
                connection.execute("analyze")
        yield dsn


@pytest.mark.parametrize("name", INDEXES)
def test_a_hot_statement_of_the_server_uses_its_index(database: str, name: str) -> None:
    assert_indexed(name, plan_of(database, name, PLANNING))


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("database", ["never analyzed", "analyzed"], indirect=True)
def test_a_hot_statement_of_a_user_uses_its_index(database: str, name: str, mode: str) -> None:
    assert_indexed(name, plan_of(database, name, {"plan_cache_mode": mode}))


@pytest.mark.parametrize("name", ["head", "claim", "claim_within", "receive", "pop", "start"])
def test_the_order_of_the_ready_messages_comes_from_the_index(database: str, name: str) -> None:
    assert_ordered(plan_of(database, name, PLANNING))


@pytest.mark.parametrize("name", ["head", "claim", "claim_within"])
@pytest.mark.parametrize("database", ["never analyzed", "analyzed"], indirect=True)
def test_the_order_of_the_ready_messages_comes_from_the_index_for_a_user_too(database: str, name: str) -> None:
    assert_ordered(plan_of(database, name, {}))


def test_a_function_that_plans_once_has_the_settings_of_the_server(database: str) -> None:
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            """
            select p.proname, p.proconfig
            from pg_proc as p
            where p.pronamespace = 'penstock'::regnamespace and p.proconfig::text like '%plan_cache_mode%'
            """
        ).fetchall()

    large = {"send_checked", "receive", "pop", "remember_start"}
    small = {"send", "send_one", "send_batch", "delete_one", "finish_batch"}
    assert {name for name, _ in rows} == large | small
    for name, settings in rows:
        needed = PLANNING.keys() if name in large else {"plan_cache_mode", "enable_seqscan"}
        assert {f"{setting}={PLANNING[setting]}" for setting in needed} <= set(settings)


def assert_ordered(lines: list[str]) -> None:
    """A sort would look at every ready message to find the first."""
    scan = next(number for number, line in enumerate(lines) if "messages_ready" in line)
    limit = max(number for number, line in enumerate(lines[:scan]) if "Limit" in line)
    assert not any("Sort" in line for line in lines[limit:scan]), "\n".join(lines)


def plan_of(dsn: str, name: str, settings: dict[str, str]) -> list[str]:
    prepare, explain = as_prepared(name, hot_statements()[name])
    with psycopg.connect(dsn) as connection:
        for setting, value in settings.items():
            connection.execute("select set_config(%s, %s, false)", [setting, value])
        connection.execute(prepare.encode())
        return [row[0] for row in connection.execute(explain.encode())]


def assert_indexed(name: str, plan: list[str]) -> None:
    shown = "\n".join(plan)
    assert "Seq Scan on messages" not in shown, shown
    if (index := INDEXES[name]) is not None:
        assert re.search(rf"Index (Only )?Scan (using|on) {index}", shown), shown
    if index == "messages_pkey":
        assert re.search(r"Index Cond: \(\(bin_id = .*\) AND \(id = ", shown), shown


def test_every_hot_statement_is_looked_at() -> None:
    assert hot_statements().keys() == INDEXES.keys()


async def test_no_verb_reads_the_messages_from_end_to_end(database: str) -> None:
    """Whatever else the functions say, PostgreSQL counts its scans."""
    sequential, indexed = await scans(database)
    await use_everything(database)
    sequential_after, indexed_after = await scans(database)

    assert sequential_after == sequential
    assert indexed_after > indexed


async def use_everything(dsn: str) -> None:
    store = PostgresStore(dsn)
    await store.open()
    caller = Caller(store, DEFAULT_TENANT, FakeClock(NOW))
    try:
        for name in ("dead", "dead.fifo", "plain", "groups.fifo"):
            await caller.make_queue(name)
        await caller.make_queue("bounded", max_length=1000)
        await caller.make_queue("work", max_receives=1, dead_letter_queue="dead")
        await caller.make_queue("work.fifo", max_receives=1, dead_letter_queue="dead.fifo")
        for name in ("plain", "groups.fifo", "bounded", "work", "work.fifo"):
            await caller.send(name, *"abcde", group_id="group-7")
            await caller.send_one(name, "a", dedup_id="once", group_id="group-8")
            messages = await caller.receive(name, 4, visibility_timeout_s=5)
            await caller.receive(name, 2, shuffle=True)
            await caller.release(name, messages.pop())
            assert await caller.delete(name, *messages) == [Outcome.DONE] * len(messages)
            await caller.peek(name, 3)
            await caller.counts(name)
        caller.clock.advance(seconds=60)
        for name in ("work", "work.fifo", "plain", "groups.fifo"):
            await caller.receive(name, 5)
        await caller.start_move("dead", "plain")
        await caller.run_moves()
    finally:
        await store.close()


async def scans(dsn: str) -> tuple[int, int]:
    """Sequential and by index, counted once nobody else is connected: a session reports what it did when it ends."""
    connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    async with connection:

        async def others() -> object:
            query = """
                select count(*)
                from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
            """
            row = await (await connection.execute(query)).fetchone()
            return row and row[0]

        await until(others, 0)
        for statement in FLUSH:
            await connection.execute(statement)
        query = "select seq_scan, idx_scan from pg_stat_user_tables where relid = 'penstock.messages'::regclass"
        row = await (await connection.execute(query)).fetchone()
    assert row is not None
    return row[0], row[1]
