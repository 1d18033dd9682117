"""What a SQL user cannot do: capture our functions, slip a name into a statement, or pass a bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields

import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from penstock import limits
from penstock.model import QueueSettings
from penstock.store.postgres.sql import sources
from tests.store.postgres_only.roles import User, role_in, user_of

PINNED = "search_path=pg_catalog, pg_temp"

INLINED = {
    "entries_walked",
    "place_of",
    "group_key",
    "next_lease",
    "job_place",
    "job_waits",
    "facts",
    "queue_facts",
    "job_facts",
    "delivery_facts",
    "stream_facts",
}
"""Plain expressions and one query, folded into the statements that call them."""

BOUNDS = {
    "visibility_timeout_s": limits.VISIBILITY_TIMEOUT_S,
    "delay_s": limits.DELAY_S,
    "retention_s": limits.RETENTION_S,
    "receive_wait_s": limits.RECEIVE_WAIT_S,
    "max_message_bytes": limits.MESSAGE_BYTES,
    "max_length": limits.MAX_LENGTH,
    "max_receives": limits.MAX_RECEIVES,
    "dedup_window_s": limits.DEDUP_WINDOW_S,
}


@pytest.fixture
def user(dsn: str) -> Iterator[User]:
    with user_of(dsn) as user:
        yield user


class TestFunctions:
    def test_every_security_definer_pins_its_search_path(self, user: User) -> None:
        unpinned = user.rows(
            """
            select p.oid::regprocedure::text
            from pg_proc as p
            where p.pronamespace = 'penstock'::regnamespace
              and p.prosecdef
              and not coalesce(p.proconfig @> array[%s], false)
            """,
            PINNED,
        )

        assert unpinned == []

    def test_so_does_everything_else_but_what_is_inlined(self, user: User) -> None:
        # The names in a body that begins with "begin atomic" are bound when it is defined.
        unpinned = user.rows(
            """
            select p.proname
            from pg_proc as p
            where p.pronamespace = 'penstock'::regnamespace
              and p.prosqlbody is null
              and not coalesce(p.proconfig @> array[%s], false)
            """,
            PINNED,
        )

        assert {name for [name] in unpinned} <= INLINED

    def test_nothing_but_the_user_api_is_granted_to_anyone(self, user: User) -> None:
        granted = user.rows(
            """
            select p.proname, coalesce(nullif(a.grantee, 0)::regrole::text, 'public')
            from pg_proc as p
            cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
            where p.pronamespace = 'penstock'::regnamespace
              and a.grantee <> p.proowner
            """
        )

        files = [name for name, _ in sources("penstock") if name.endswith("api.sql")]
        api = {
            name
            for file in files
            for name in re.findall(r"^create or replace function penstock\.(\w+)\(", source(file), re.MULTILINE)
        }
        # delete, archive and their batches are inlined, so callers need the functions behind them.
        behind = {"delete_one", "finish_batch"}
        assert {name for name, _ in granted} == api - {"raise_code", "check_fit"} | behind
        assert {role for _, role in granted} == {"penstock_reader", "penstock_writer", "penstock_admin"}

    def test_no_table_is_granted_to_anyone(self, user: User) -> None:
        granted = user.rows(
            """
            select c.relname, a.grantee::regrole
            from pg_class as c
            cross join lateral aclexplode(c.relacl) as a
            where c.relnamespace = 'penstock'::regnamespace
              and a.grantee <> c.relowner
            """
        )

        assert granted == []

    def test_the_public_may_not_even_look_into_the_schema(self, user: User) -> None:
        assert not user.one("select has_schema_privilege('public', 'penstock', 'usage')")
        assert not user.one("select has_schema_privilege('public', 'penstock', 'create')")
        for role in ("penstock_reader", "penstock_writer", "penstock_admin"):
            assert user.one("select has_schema_privilege(%s, 'penstock', 'usage')", role)
            assert not user.one("select has_schema_privilege(%s, 'penstock', 'create')", role)


class TestNames:
    def test_no_function_builds_a_statement(self) -> None:
        for name, text in sources("penstock"):
            dynamic = re.findall(r"^\s*(?:return query )?execute\b.*$", text, re.MULTILINE | re.IGNORECASE)
            assert not dynamic or name in (
                "220_days.sql",
                "410_writes.sql",
                "510_follow.sql",
                "980_comments.sql",
                "990_grants.sql",
            ), dynamic

    def test_the_days_of_jobs_are_named_by_quoting(self) -> None:
        text = source("220_days.sql")
        assert len(re.findall(r"\bexecute\b", text)) == len(re.findall(r"\bexecute format\(", text))
        assert set(re.findall(r"%.", text)) == {"%I", "%L"}

    def test_staged_events_go_to_a_table_named_by_numbers_alone(self) -> None:
        text = source("410_writes.sql")
        [statement] = re.findall(r"^\s*execute\b(.*?)^\s*using v_attempt;", text, re.MULTILINE | re.DOTALL)
        assert re.sub(r"'(?:[^']|'')*'", "", statement).split() == [
            "||", "pgque.event_table(v_queue.queue_id,", "v_queue.queue_cur_table)", "||", "||", "||",
        ]  # fmt: skip

    def test_the_grants_quote_what_they_name(self) -> None:
        for line in re.findall(r"^\s*execute\b.*$", source("990_grants.sql"), re.MULTILINE):
            assert re.search(r"execute format\('(create role %I|grant execute on function %s) ", line), line

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "a b",
            "a.b",
            "a'b",
            'a"b',
            "a;drop",
            "a\n",
            "a%",
            "penstock.messages",
            "é",
            ".fifo",
            "a.fifo.fifo",
            "a" * 81,
        ],
    )
    def test_a_name_that_is_none_is_refused(self, user: User, name: str) -> None:
        assert limits.QUEUE_NAME.fullmatch(name) is None
        assert user.refused("select penstock.create_queue(%s)", name) == "PS011"

    @pytest.mark.parametrize("name", ["a", "a" * 80, "A-b_9", "-", "select", "a" * 75 + ".fifo"])
    def test_a_name_stays_data(self, user: User, name: str) -> None:
        query = "select count(*) from pg_class where relnamespace = 'penstock'::regnamespace"
        before = user.one(query)

        assert limits.QUEUE_NAME.fullmatch(name) is not None
        assert user.one("select penstock.create_queue(%s)", name) is True
        assert user.one(query) == before

    def test_no_name_is_refused_too(self, user: User) -> None:
        assert user.refused("select penstock.create_queue(null)") == "PS011"

    @pytest.mark.parametrize("name", ["'; drop schema penstock cascade; --", "%s %I", "$1", "\\", "null"])
    def test_a_hostile_name_of_a_queue_is_merely_unknown(self, user: User, name: str) -> None:
        for query in (
            "select penstock.send(%s, 'x'::text)",
            "select penstock.receive(%s)",
            "select penstock.pop(%s)",
            "select penstock.peek(%s)",
            "select penstock.delete(%s, 1)",
            "select penstock.archive(%s, 1)",
            "select penstock.change_visibility(%s, 1, 0)",
            "select penstock.purge_queue(%s)",
            "select penstock.alter_queue(%s, '{}')",
        ):
            assert user.refused(query, name) == "PS021"
        assert user.one("select penstock.drop_queue(%s)", name) is False


class TestBounds:
    def test_every_number_of_the_settings_has_bounds(self) -> None:
        numbers = {field.name for field in fields(QueueSettings) if str(field.type) in ("int", "int | None")}

        assert numbers == BOUNDS.keys()

    @pytest.mark.parametrize("setting", BOUNDS)
    def test_a_setting_is_held_to_the_bounds_of_the_engine(self, user: User, setting: str) -> None:
        user.one("select penstock.create_queue('q')")
        low, high = BOUNDS[setting]

        for inside in (low, high):
            user.rows("select penstock.alter_queue('q', %s)", Jsonb({setting: inside}))
        for outside in (low - 1, high + 1):
            query = "select penstock.alter_queue('q', %s)"
            assert user.complaint(query, Jsonb({setting: outside})) == ("PS010", setting)

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            ("dedup_scope", "banana"),
            ("throughput_limit", "banana"),
            ("tags", []),
            ("tags", "text"),
            ("labels", 7),
            ("delay_s", None),
            ("lifo", None),
            ("tags", None),
            ("unheard_of", 1),
            ("bin_id", 1),
            ("tenant_id", 1),
            ("lifo", True),
            ("max_receives", 0),
        ],
    )
    def test_a_setting_that_would_confuse_the_server_is_refused(self, user: User, setting: str, value: object) -> None:
        user.one("select penstock.create_queue('q.fifo')")

        query = "select penstock.alter_queue('q.fifo', %s)"
        assert user.complaint(query, Jsonb({setting: value})) == ("PS010", setting)
        assert user.refused("select penstock.create_queue('r.fifo', %s)", Jsonb({setting: value})) == "PS010"
        assert user.rows("select queue from penstock.list_queues()") == [("q.fifo",)]

    @pytest.mark.parametrize("settings", [{"delay_s": "soon"}, {"lifo": 7}, {"max_length": 1e30}, [], "text", 7])
    def test_settings_of_a_wrong_type_are_refused(self, user: User, settings: object) -> None:
        user.one("select penstock.create_queue('q')")

        assert user.complaint("select penstock.alter_queue('q', %s)", Jsonb(settings)) == ("PS010", "settings")

    @pytest.mark.parametrize(
        ("settings", "field"),
        [
            ({"dead_letter_queue": "other"}, "max_receives"),
            ({"dead_letter_queue": "q", "max_receives": 3}, "dead_letter_queue"),
            ({"dead_letter_queue": "other.fifo", "max_receives": 3}, "dead_letter_queue"),
            ({"content_dedup": True}, "content_dedup"),
        ],
    )
    def test_what_the_engine_refuses_is_refused(self, user: User, settings: object, field: str) -> None:
        for name in ("q", "other", "other.fifo"):
            user.one("select penstock.create_queue(%s)", name)

        assert user.complaint("select penstock.alter_queue('q', %s)", Jsonb(settings)) == ("PS010", field)

    def test_a_send_is_held_to_the_bounds_of_the_engine(self, user: User) -> None:
        user.one("select penstock.create_queue('q')")
        for field, (low, high) in (
            ("delay_s", limits.DELAY_S),
            ("priority", limits.PRIORITY),
            ("retention_s", limits.RETENTION_S),
        ):
            query = sql.SQL("select penstock.send('q', 'x'::text, {} => %s)").format(sql.Identifier(field))
            text = query.as_string(user.connection)
            for inside in (low, high):
                user.one(text, inside)
            for outside in (low - 1, high + 1):
                assert user.complaint(text, outside) == ("PS010", field)

    @pytest.mark.parametrize("value", ["", "a b", "é", "a" * 129, "a\n"])
    def test_group_and_dedup_ids_are_held_to_the_rule_of_the_engine(self, user: User, value: str) -> None:
        assert limits.GROUP_ID.fullmatch(value) is None
        user.one("select penstock.create_queue('q')")
        for field in ("group_id", "dedup_id"):
            query = sql.SQL("select penstock.send('q', 'x'::text, {} => %s)").format(sql.Identifier(field))
            text = query.as_string(user.connection)
            assert user.complaint(text, value) == ("PS010", field)

    def test_a_receive_is_held_to_the_bounds_of_the_engine(self, user: User) -> None:
        user.one("select penstock.create_queue('q')")
        for outside in (limits.VISIBILITY_TIMEOUT_S[0] - 1, limits.VISIBILITY_TIMEOUT_S[1] + 1):
            answer = user.complaint("select penstock.receive('q', %s)", outside)
            assert answer == ("PS010", "visibility_timeout_s")
        for outside in (limits.RECEIVE_LIMIT[0] - 1, limits.RECEIVE_LIMIT[1] + 1):
            for verb in ("receive('q', null, %s)", "pop('q', %s)", "peek('q', %s)"):
                answer = user.complaint(f"select penstock.{verb}", outside)
                assert answer == ("PS010", "max_messages")
        too_long = limits.VISIBILITY_TIMEOUT_S[1] + 1
        assert user.refused("select penstock.change_visibility('q', 1, %s)", too_long) == "PS010"


class TestCapture:
    """A user puts functions, operators and tables in front of PostgreSQL's."""

    TRAPS = """
        create function {evil}.clock_timestamp() returns timestamptz language plpgsql
        as $$ begin raise 'caught'; end $$;
        create function {evil}.now() returns timestamptz language plpgsql as $$ begin raise 'caught'; end $$;
        create function {evil}.current_setting(text, boolean) returns text language plpgsql
        as $$ begin raise 'caught'; end $$;
        create function {evil}.hashtext(text) returns integer language plpgsql as $$ begin raise 'caught'; end $$;
        create function {evil}.format(text, text) returns text language plpgsql as $$ begin raise 'caught'; end $$;
        create function {evil}.pg_notify(text, text) returns void language plpgsql as $$ begin raise 'caught'; end $$;
        create function {evil}.nextval(regclass) returns bigint language plpgsql as $$ begin raise 'caught'; end $$;
        create function {evil}.trap(bigint, bigint) returns boolean language plpgsql as $$ begin raise 'caught'; end $$;
        create function {evil}.trap(text, text) returns boolean language plpgsql as $$ begin raise 'caught'; end $$;
        create function {evil}.trap(timestamptz, timestamptz) returns boolean language plpgsql
        as $$ begin raise 'caught'; end $$;
        create function {evil}.join(text, text) returns text language plpgsql as $$ begin raise 'caught'; end $$;
        create operator {evil}.= (leftarg = bigint, rightarg = bigint, function = {evil}.trap);
        create operator {evil}.= (leftarg = text, rightarg = text, function = {evil}.trap);
        create operator {evil}.~ (leftarg = text, rightarg = text, function = {evil}.trap);
        create operator {evil}.<= (leftarg = timestamptz, rightarg = timestamptz, function = {evil}.trap);
        create operator {evil}.|| (leftarg = text, rightarg = text, function = {evil}.join);
        create temp table queues (id bigint);
        create temp table messages (id bigint);
        create temp table unnest (id bigint);
    """

    @pytest.fixture
    def captor(self, dsn: str, user: User) -> Iterator[User]:
        for name in ("work", "work.fifo"):
            user.one("select penstock.create_queue(%s)", name)
        with role_in(dsn, "penstock_admin") as role:
            evil = sql.Identifier(role)
            user.connection.execute(sql.SQL("create schema {0} authorization {0}").format(evil))
            user.become(role)
            user.connection.execute(sql.SQL(self.TRAPS).format(evil=evil))
            user.connection.execute(sql.SQL("set search_path = {}, pg_temp, pg_catalog, penstock").format(evil))
            yield user
            user.connection.execute("reset role")
            user.connection.execute("discard temp")

    def test_the_trap_is_set(self, captor: User) -> None:
        assert captor.refused("select now()") == "P0001"
        assert captor.refused("select 'a'::text || 'b'::text") == "P0001"

    def test_no_function_walks_into_it(self, captor: User) -> None:
        captor.rows("select penstock.create_queue('mine', '{\"delay_s\": 0}')")
        captor.rows('select penstock.alter_queue(\'mine\', \'{"max_receives": 3, "dead_letter_queue": "work"}\')')
        for queue in ("work", "work.fifo", "mine"):
            captor.rows("select penstock.send(%s, 'a'::text, group_id => 'g', dedup_id => '1')", queue)
            captor.rows("select penstock.send(%s, '{}'::jsonb, group_id => 'g', dedup_id => '2')", queue)
            captor.rows("select penstock.send_batch(%s, '{c,d}', group_id => 'g', dedup_ids => '{3,4}')", queue)
            [[message, lease]] = captor.rows("select r.id, r.lease from penstock.receive(%s, 30, 1) as r", queue)
            captor.rows("select penstock.change_visibility(%s, %s, 10, %s)", queue, message, lease)
            captor.rows("select penstock.archive(%s, %s, %s)", queue, message, lease)
            assert len(captor.rows("select p.body from penstock.peek(%s, 10) as p", queue)) == 3
            assert len(captor.rows("select p.body from penstock.pop(%s, 10) as p", queue)) == 3
            assert captor.rows("select penstock.delete(%s, 1)", queue) == [(False,)]
        assert len(captor.rows("select m.queue_name from penstock.metrics() as m")) == 3
        assert len(captor.rows("select l.queue from penstock.list_queues() as l")) == 3
        captor.rows("select penstock.purge_queue('mine')")
        captor.rows("select penstock.drop_queue('mine')")


def source(name: str) -> str:
    return dict(sources("penstock"))[name]
