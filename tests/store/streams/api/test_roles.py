"""Who may call what, and what nobody can do through it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from penstock.store.postgres.sql import sources
from tests.store.postgres_only.roles import role_in
from tests.store.streams.calls import Api, api_of

NO_PRIVILEGE = "42501"
PINNED = "search_path=pg_catalog, pg_temp"

READING = {
    "version": "pgque.version()",
    "status": "pgque.status()",
    "get_queue_info": "pgque.get_queue_info()",
    "get_consumer_info": "pgque.get_consumer_info()",
    "queue_stats": "pgque.queue_stats()",
    "consumer_stats": "pgque.consumer_stats()",
    "queue_health": "pgque.queue_health()",
    "throughput": "pgque.throughput('{queue}', '1 hour', '1 minute')",
    "latency_percentiles": "pgque.latency_percentiles('{queue}', 'app', '1 hour')",
    "error_rate": "pgque.error_rate('{queue}', '1 hour', '1 minute')",
    "in_flight": "pgque.in_flight('{queue}')",
    "stuck_consumers": "pgque.stuck_consumers()",
    "otel_metrics": "pgque.otel_metrics()",
}
WRITING = {
    "insert_event": "pgque.insert_event('{queue}', 'kind', 'a')",
    "send": "pgque.send('{queue}', 'a')",
    "send_batch": "pgque.send_batch('{queue}', 'kind', array['a'])",
    "send_once": "pgque.send_once('{queue}', 'kind', 'a', 'key')",
    "send_at": "pgque.send_at('{queue}', 'kind', 'a', now() + interval '1 hour')",
    "register_consumer": "pgque.register_consumer('{queue}', 'new')",
    "register_consumer_at": "pgque.register_consumer_at('{queue}', 'new', null)",
    "unregister_consumer": "pgque.unregister_consumer('{queue}', 'app')",
    "subscribe": "pgque.subscribe('{queue}', 'new')",
    "unsubscribe": "pgque.unsubscribe('{queue}', 'app')",
    "next_batch": "pgque.next_batch('{queue}', 'app')",
    "next_batch_info": "pgque.next_batch_info('{queue}', 'app')",
    "next_batch_custom": "pgque.next_batch_custom('{queue}', 'app', null, null, null)",
    "get_batch_info": "pgque.get_batch_info({batch})",
    "get_batch_events": "pgque.get_batch_events({batch})",
    "get_batch_cursor": "pgque.get_batch_cursor({batch}, 'cursor', 1)",
    "finish_batch": "pgque.finish_batch({batch})",
    "event_retry": "pgque.event_retry({batch}, {event}, 0)",
    "batch_retry": "pgque.batch_retry({batch}, 0)",
    "receive": "pgque.receive('{queue}', 'app')",
    "receive_coop": "pgque.receive_coop('{queue}', 'crew', 'one')",
    "ack": "pgque.ack({batch})",
    "nack": "pgque.nack({batch}, row({event}, 0, '', '', 0, now(), '', '', '', '')::pgque.message)",
    "event_dead": "pgque.event_dead({batch}, {event}, 'why')",
    "dlq_inspect": "pgque.dlq_inspect('{queue}')",
    "subscribe_subconsumer": "pgque.subscribe_subconsumer('{queue}', 'crew', 'one')",
    "unsubscribe_subconsumer": "pgque.unsubscribe_subconsumer('{queue}', 'crew', 'one')",
    "touch_subconsumer": "pgque.touch_subconsumer('{queue}', 'crew', 'one')",
    "subscribe_partitioned": "pgque.subscribe_partitioned('{queue}', 'parts', 2)",
    "unsubscribe_partitioned": "pgque.unsubscribe_partitioned('{queue}', 'parts')",
    "claim_part": "pgque.claim_part('{queue}', 'parts')",
    "ticker": "pgque.ticker('{queue}')",
    "force_tick": "pgque.force_tick('{queue}')",
    "force_next_tick": "pgque.force_next_tick('{queue}')",
    "tick_if_waiting": "pgque.tick_if_waiting('{queue}')",
    "tick_now": "pgque.tick_now('{queue}')",
    "expect_events": "pgque.expect_events('{queue}')",
    "test_send": "pgque.test_send('{queue}', '1')",
    "test_consume": "pgque.test_consume('{queue}', 'app', 'default')",
    "assert_empty": "pgque.assert_empty('{other}')",
    "assert_dlq_empty": "pgque.assert_dlq_empty('{queue}')",
}
ADMINISTERING = {
    "create_queue": "pgque.create_queue('{queue}-new')",
    "drop_queue": "pgque.drop_queue('{queue}', true)",
    "set_queue_config": "pgque.set_queue_config('{queue}', 'max_retries', '1')",
    "pause_queue": "pgque.pause_queue('{queue}')",
    "resume_queue": "pgque.resume_queue('{queue}')",
    "grant_queue": "pgque.grant_queue('{queue}', 'pgque_reader', 'produce')",
    "dlq_replay": "pgque.dlq_replay(-1)",
    "dlq_replay_all": "pgque.dlq_replay_all('{queue}')",
    "dlq_purge": "pgque.dlq_purge('{queue}')",
    "maint": "pgque.maint()",
    "stop": "pgque.stop()",
    "insert_event_raw": "pgque.insert_event_raw('{queue}', null, null, null, null, 'kind', 'a', '', '', '', '')",
}
TRIGGERS = {
    *("jsontriga", "logutriga", "sqltriga", "trigger_options", "trigger_columns", "row_values", "row_expression"),
    *("json_value", "json_row", "url_text", "url_row", "sql_insert", "sql_key", "sql_update", "encode_change"),
    *("key_changes", "change_matters", "event_field", "check_trigger", "describe_change", "write_change", "log_change"),
    *("track_table", "untrack_table", "change_triggers"),
}
"""Run with the rights of the role that changes the table, and are therefore granted along with sending."""

OF_THE_CALLER = {"seq_getval", "seq_setval"}
"""Find names by the search_path of the caller, and have the rights of the caller."""

ADMINISTRATORS_OWN = {"get_batch_cursor", "call_extra_maint", "upgrade_schema", *OF_THE_CALLER}
"""Run SQL of the caller, or change the installation itself: with the rights of the caller."""

CALLS = READING | WRITING | ADMINISTERING
MAY = {
    "pgque_reader": set(READING),
    "pgque_writer": set(READING) | set(WRITING),
    "pgque_admin": set(CALLS),
}


@pytest.fixture
def api(streams_dsn: str) -> Iterator[Api]:
    with api_of(streams_dsn, "app", max_retries=3) as api:
        api.send("a")
        api.tick()
        yield api


@pytest.mark.parametrize("role", [None, *MAY])
def test_a_role_may_call_what_it_is_for(api: Api, role: str | None) -> None:
    [message] = api.receive()
    may = set()
    with api_of(api.dsn) as other, role_in(api.dsn, *([role] if role else [])) as user:
        for function, call in CALLS.items():
            call = call.format(queue=api.queue, other=other.queue, batch=message.batch_id, event=message.msg_id)
            with api.connection.transaction(force_rollback=True):
                api.run(f"set local role {user}")
                try:
                    api.rows(f"select * from {call}")
                    may.add(function)
                except psycopg.errors.InsufficientPrivilege:
                    pass

    assert may == (MAY[role] if role else set())


def test_nothing_else_is_granted(api: Api) -> None:
    granted: dict[str, set[str]] = {}
    for name, role in api.rows(
        """
        select p.proname, coalesce(nullif(a.grantee, 0)::regrole::text, 'public')
        from pg_proc as p
        cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
        where p.pronamespace = 'pgque'::regnamespace and a.grantee <> p.proowner
        """
    ):
        granted.setdefault(role, set()).add(name)

    assert granted.keys() == {"pgque_reader", "pgque_writer", "pgque_admin"}
    assert granted["pgque_reader"] == set(READING)
    assert granted["pgque_writer"] == set(READING) | set(WRITING) | TRIGGERS


def test_tables_are_granted_to_nobody(api: Api) -> None:
    granted = api.rows(
        """
        select c.relname, a.grantee from pg_class as c cross join lateral aclexplode(c.relacl) as a
        where c.relnamespace = 'pgque'::regnamespace and a.grantee <> c.relowner
        """
    )

    assert granted == []


def test_the_public_may_not_even_look_into_the_schema(api: Api) -> None:
    assert not api.one("select has_schema_privilege('public', 'pgque', 'usage')")
    for role in MAY:
        assert api.one("select has_schema_privilege(%s, 'pgque', 'usage')", role)
        assert not api.one("select has_schema_privilege(%s, 'pgque', 'create')", role)


def test_every_function_pins_its_search_path(api: Api) -> None:
    unpinned = api.rows(
        """
        select p.proname, p.prosecdef from pg_proc as p
        where p.pronamespace = 'pgque'::regnamespace and not coalesce(p.proconfig @> array[%s], false)
        """,
        PINNED,
    )

    assert sorted(unpinned) == [(name, False) for name in sorted(OF_THE_CALLER)]


def test_whatever_writes_acts_with_the_rights_of_its_owner(api: Api) -> None:
    """Except for those that run SQL of the caller. Functions that only compute need nobody's rights."""
    invokers = api.rows(
        """
        select p.proname from pg_proc as p
        where p.pronamespace = 'pgque'::regnamespace and not p.prosecdef and p.provolatile = 'v'
        """
    )

    assert {name for (name,) in invokers} <= TRIGGERS | ADMINISTRATORS_OWN


def test_administrators_call_no_function_that_trusts_a_table_or_row_it_is_given(api: Api) -> None:
    """Such a function would empty or read any table of the owner, or run any SQL as the owner."""
    trusting = api.rows(
        """
        select p.oid::regprocedure::text from pg_proc as p
        cross join lateral unnest(p.proargtypes) as a (type)
        join pg_type as t on t.oid = a.type
        where p.pronamespace = 'pgque'::regnamespace and p.prosecdef
            and has_function_privilege('pgque_admin', p.oid, 'execute')
            and (t.typname ~ '^reg' or t.typrelid <> 0 or t.typcategory = 'A' and t.typelem = any (
                select c.reltype from pg_class as c where c.relnamespace = 'pgque'::regnamespace
            ))
        """
    )

    assert trusting == [("pgque.nack(bigint,pgque.message,interval,text)",)]


def test_administrators_cannot_empty_a_table_or_run_sql_of_the_owner(api: Api) -> None:
    table = f"public.owned_{api.queue.replace('-', '_')}"
    api.run(f"create table {table} as select 1 as kept")
    made_up = f"row(1, 1, 1, 0, 1, array['{table}'], '1:1:', '9:9:', null, null, null, null, '{{}}')::pgque.batch"
    with role_in(api.dsn, "pgque_admin") as user:
        api.become(user)
        for call in (
            f"pgque.truncated_if_empty('{table}')",
            f"pgque.last_event({made_up})",
            f"pgque.cut({made_up}, 1)",
            f"pgque.batch_events_between({made_up}, 0, 1)",
        ):
            assert api.refused(f"select {call}").sqlstate in (NO_PRIVILEGE, "42883"), call
        assert api.refused(f"select pgque.truncated('{table}')").sqlstate == "42883"
        assert api.refused(f"select pgque.seq_setval('{table}', 1)").sqlstate in (NO_PRIVILEGE, "42809")
        api.run("reset role")

    assert api.one(f"select count(*) from {table}") == 1
    api.run(f"drop table {table}")


def test_administrators_move_no_sequence_of_the_owner(api: Api) -> None:
    sequence = f"public.owned_{api.queue.replace('-', '_')}"
    api.run(f"create sequence {sequence}")
    with role_in(api.dsn, "pgque_admin") as user:
        api.become(user)
        assert api.refused("select pgque.seq_setval(%s, 99)", sequence).sqlstate == NO_PRIVILEGE
        api.run("reset role")

    assert api.one("select pgque.seq_getval(%s)", sequence) == 1
    api.run(f"drop sequence {sequence}")


def test_no_expression_of_a_user_runs_with_the_rights_of_the_owner(api: Api) -> None:
    definers = api.rows(
        "select proname from pg_proc where pronamespace = 'pgque'::regnamespace and prosecdef and proname = any (%s)",
        list(TRIGGERS),
    )

    assert definers == []


def test_every_name_in_a_built_statement_is_quoted_or_ours() -> None:
    for name, text in sources("pgque"):
        if name[:3] in {"190", "200", "210", "220", "230"}:
            for line in re.findall(r"^\s*execute\b.*$", text, re.MULTILINE):
                assert re.match(r"\s*execute ('select cron\.|format\($)", line), line


class TestQueues:
    """A queue may be kept for some of those who may call the functions."""

    def test_a_queue_granted_to_one_is_closed_to_others(self, api: Api) -> None:
        with role_in(api.dsn, "pgque_writer") as insider, role_in(api.dsn, "pgque_writer") as outsider:
            api.rows("select pgque.grant_queue(%s, %s, 'produce')", api.queue, insider)
            api.become(insider)
            api.send("a")
            api.run("reset role")
            api.become(outsider)
            for call in (
                "pgque.send(%s, 'a')",
                "pgque.send_batch(%s, 'kind', array['a'])",
                "pgque.send_once(%s, 'kind', 'a', 'k')",
                "pgque.send_at(%s, 'kind', 'a', now() + interval '1 hour')",
                "pgque.receive(%s, 'app')",
                "pgque.subscribe(%s, 'new')",
                "pgque.dlq_inspect(%s)",
                "pgque.assert_empty(%s)",
            ):
                assert api.refused(f"select * from {call}", api.queue).sqlstate == NO_PRIVILEGE, call
            api.run("reset role")

    def test_a_batch_of_a_closed_queue_is_closed_too(self, api: Api) -> None:
        [message] = api.receive()
        with role_in(api.dsn, "pgque_writer") as insider, role_in(api.dsn, "pgque_writer") as outsider:
            api.rows("select pgque.grant_queue(%s, %s, 'consume')", api.queue, insider)
            api.become(outsider)
            for call in (
                f"pgque.ack({message.batch_id})",
                f"pgque.event_dead({message.batch_id}, {message.msg_id}, '')",
            ):
                assert api.refused(f"select {call}").sqlstate == NO_PRIVILEGE, call
            api.run("reset role")
