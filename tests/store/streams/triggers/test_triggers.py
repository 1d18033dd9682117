"""Change triggers: what they write for which change, and what their arguments do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import sql

from tests.store.postgres_only.roles import role_in
from tests.store.streams.calls import Api, api_of

TRIGGERS = ["jsontriga", "logutriga", "sqltriga"]


class Watched:
    """A table `t` in a schema of its own, whose changes go to the queue."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.schema = api.queue.replace("queue-", "schema_")
        self.table = f"{self.schema}.t"
        api.run(f"create schema {self.schema}; set search_path = {self.schema}")

    def create(self, columns: str) -> None:
        self.api.run(f"create table t ({columns})")

    def watch(self, trigger: str, *arguments: str, when: str = "after insert or update or delete") -> None:
        level = "statement" if "truncate" in when else "row"
        statement = sql.SQL(
            f"create trigger {trigger}_{level} {when} on t for each {level} execute function pgque.{{}}({{}})"
        )
        given = sql.SQL(", ").join(sql.Literal(each) for each in (self.api.queue, *arguments))
        self.api.connection.execute(statement.format(sql.Identifier(trigger), given))

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.api.run(statement)

    def events(self) -> list[tuple[Any, ...]]:
        return self.api.stored()

    def told(self) -> list[tuple[str, str]]:
        return [(event[0], event[1]) for event in self.events()]

    def refused(self, statement: str) -> str | None:
        return self.api.refused(statement).diag.message_primary


@pytest.fixture
def watched(streams_dsn: str) -> Iterator[Watched]:
    with api_of(streams_dsn) as api:
        yield Watched(api)


def head(watched: Watched, operation: str, *key: str) -> str:
    names = ",".join(f'"{name}"' for name in key)
    return f'{{"op":"{operation}","table":["{watched.schema}","t"],"pkey":[{names}]}}'


CHANGES = [
    "insert into t (txt) values ('text1')",
    "insert into t (val) values (1.5)",
    "update t set txt = 'text2' where id = 1",
    "update t set txt = null where id = 1",
    "delete from t where id = 2",
]


class TestForms:
    @pytest.fixture(autouse=True)
    def table(self, watched: Watched) -> None:
        watched.create("id serial primary key, txt text, val float")

    def test_json(self, watched: Watched) -> None:
        watched.watch("jsontriga")
        watched.run(*CHANGES)

        assert watched.told() == [
            (head(watched, "INSERT", "id"), '{"id":1,"txt":"text1","val":null}'),
            (head(watched, "INSERT", "id"), '{"id":2,"txt":null,"val":"1.5"}'),
            (head(watched, "UPDATE", "id"), '{"id":1,"txt":"text2","val":null}'),
            (head(watched, "UPDATE", "id"), '{"id":1,"txt":null,"val":null}'),
            (head(watched, "DELETE", "id"), '{"id":2,"txt":null,"val":"1.5"}'),
        ]

    def test_url_encoded(self, watched: Watched) -> None:
        watched.watch("logutriga")
        watched.run(*CHANGES)

        assert watched.told() == [
            ("I:id", "id=1&txt=text1&val"),
            ("I:id", "id=2&txt&val=1.5"),
            ("U:id", "id=1&txt=text2&val"),
            ("U:id", "id=1&txt&val"),
            ("D:id", "id=2&txt&val=1.5"),
        ]

    def test_sql(self, watched: Watched) -> None:
        watched.watch("sqltriga")
        watched.run(*CHANGES)

        assert watched.told() == [
            ("I", "(id,txt,val) values ('1','text1',null)"),
            ("I", "(id,txt,val) values ('2',null,'1.5')"),
            ("U", "txt='text2' where id='1'"),
            ("U", "txt=NULL where id='1'"),
            ("D", "id='2'"),
        ]

    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_the_first_extra_names_the_table(self, watched: Watched, trigger: str) -> None:
        watched.watch(trigger)
        watched.run("insert into t (txt) values ('a')")

        [event] = watched.events()
        assert event[2:] == (watched.table, None, None, None)

    def test_truncate(self, watched: Watched) -> None:
        for trigger in TRIGGERS:
            watched.watch(trigger, when="after truncate")
        watched.run("truncate t")

        assert watched.told() == [(head(watched, "TRUNCATE", "id"), "{}"), ("R", ""), ("R", "")]

    def test_an_update_of_nothing_is_told(self, watched: Watched) -> None:
        for trigger in TRIGGERS:
            watched.watch(trigger)
        watched.run("insert into t values (7, 'a', 1)", "update t set txt = txt")

        assert [data for _, data in watched.told()[3:]] == [
            '{"id":7,"txt":"a","val":"1"}',
            "id=7&txt=a&val=1",
            "id='7' where id='7'",
        ]


TYPES = [
    (
        *("text", r"""'"quoted\string$%,@"'""", r'''"'\"quoted\\string$%,@\"'"'''),
        *("%27%22quoted%5cstring%24%25%2c%40%22%27", r"""E'''"quoted\\string$%,@"'''"""),
    ),
    ("text", "é€ a_b.c-d", '"é€ a_b.c-d"', "%c3%a9%e2%82%ac+a_b.c-d", "'é€ a_b.c-d'"),
    ("text", "", '""', "", "''"),
    ("bytea", r"\x00FF01", r'"\\x00ff01"', "%5cx00ff01", r"E'\\x00ff01'"),
    ("bool", "true", "true", "t", "'t'"),
    (
        *("timestamptz", "2009-09-19 11:59:48.599+00", '"2009-09-19T11:59:48.599+00:00"'),
        *("2009-09-19+11%3a59%3a48.599%2b00", "'2009-09-19 11:59:48.599+00'"),
    ),
    (
        *("timestamp", "2009-09-19 11:59:48.599", '"2009-09-19T11:59:48.599"'),
        *("2009-09-19+11%3a59%3a48.599", "'2009-09-19 11:59:48.599'"),
    ),
    (
        *("tstzrange", "[2009-09-19 00:00+00,)", r'"[\"2009-09-19 00:00:00+00\",)"'),
        *("%5b%222009-09-19+00%3a00%3a00%2b00%22%2c%29", """'["2009-09-19 00:00:00+00",)'"""),
    ),
    ("date", "2009-09-19", '"2009-09-19"', "2009-09-19", "'2009-09-19'"),
    ("int8", "-9223372036854775808", "-9223372036854775808", "-9223372036854775808", "'-9223372036854775808'"),
    ("numeric", "100.600500566501811", '"100.600500566501811"', "100.600500566501811", "'100.600500566501811'"),
    ("json", "[1, null]", '"[1, null]"', "%5b1%2c+null%5d", "'[1, null]'"),
    ("text[]", '{a,NULL,"b c"}', r'"{a,NULL,\"b c\"}"', "%7ba%2cNULL%2c%22b+c%22%7d", """'{a,NULL,"b c"}'"""),
    ("char(4)", "ab", '"ab  "', "ab++", "'ab  '"),
    ("inet", "10.0.0.1", '"10.0.0.1"', "10.0.0.1", "'10.0.0.1'"),
]
"""A type, a value of it, and how each of the forms writes that."""


@pytest.mark.parametrize(("type", "value", "json", "url", "literal"), TYPES, ids=range(len(TYPES)))
def test_each_type_has_its_text(watched: Watched, type: str, value: str, json: str, url: str, literal: str) -> None:
    watched.create(f"nr int, val {type}")
    for trigger in TRIGGERS:
        watched.watch(trigger)
    watched.run("set datestyle = 'German'", "set bytea_output = 'escape'", "set timezone = 'Asia/Tokyo'")
    watched.api.run(f"insert into t values (1, %s::{type})", value)

    assert [data for _, data in watched.told()] == [
        f'{{"nr":1,"val":{json}}}',
        f"nr=1&val={url}",
        f"(nr,val) values ('1',{literal})",
    ]


class TestKeys:
    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_without_a_key_rows_can_only_be_added(self, watched: Watched, trigger: str) -> None:
        watched.create("dat text")
        watched.watch(trigger)
        watched.run("insert into t values ('foo')")

        assert watched.refused("update t set dat = 'bat'") == "Update/Delete on table without pkey"
        assert watched.refused("delete from t") == "Update/Delete on table without pkey"
        assert len(watched.events()) == 1

    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_the_key_of_a_row_cannot_change(self, watched: Watched, trigger: str) -> None:
        watched.create("id int primary key")
        watched.watch(trigger)
        watched.run("insert into t values (1)")

        assert watched.refused("update t set id = 6") == "primary key update not allowed"

    def test_pkey_names_another_key(self, watched: Watched) -> None:
        watched.create("nr int, col1 text, col2 text")
        for trigger in TRIGGERS:
            watched.watch(trigger, "pkey=nr,col1")
        watched.run("insert into t values (1, 'a', 'b')", "update t set col2 = 'c'", "delete from t")

        told = watched.told()
        assert told[0][0] == head(watched, "INSERT", "nr", "col1")
        assert told[1][0] == "I:nr,col1"
        assert told[5] == ("U", "col2='c' where nr='1' and col1='a'")
        assert told[8] == ("D", "nr='1' and col1='a'")

    def test_the_columns_of_a_primary_key_come_in_its_order(self, watched: Watched) -> None:
        watched.create("a int, b int, c int, primary key (c, a)")
        watched.watch("logutriga")
        watched.run("insert into t values (1, 2, 3)")

        assert watched.told() == [("I:c,a", "a=1&b=2&c=3")]

    def test_pkey_must_name_columns_of_the_table(self, watched: Watched) -> None:
        watched.create("a int")
        watched.watch("jsontriga", "pkey=nope")

        assert (
            watched.refused("insert into t values (1)") == f"pkey names a column that is not in table '{watched.table}'"
        )


class TestArguments:
    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_ignored_columns_are_left_out_and_change_in_silence(self, watched: Watched, trigger: str) -> None:
        watched.create("dat1 text primary key, col1 text, col2 text")
        watched.watch(trigger, "ignore=col2")
        watched.run("insert into t values ('a', 'b', 'secret')", "update t set col1 = 'c', col2 = 'secret'")
        told = len(watched.events())
        watched.run("update t set col2 = 'secret too'")

        assert (told, len(watched.events())) == (2, 2)
        assert "secret" not in str(watched.events())

    def test_backup_keeps_the_old_row_of_an_update(self, watched: Watched) -> None:
        watched.create("nr int primary key, col1 text")
        for trigger in TRIGGERS:
            watched.watch(trigger, "backup")
        watched.run("insert into t values (1, 'a b')", "update t set col1 = 'c'", "delete from t")

        kept = [event[3] for event in watched.events()]
        assert kept == [*[None] * 3, '{"nr":1,"col1":"a b"}', "nr=1&col1=a+b", "nr=1&col1=a+b", *[None] * 3]

    @pytest.mark.parametrize("trigger", TRIGGERS)
    @pytest.mark.parametrize(
        ("operation", "statement"),
        [
            ("INSERT", "insert into t values ('b')"),
            ("UPDATE", "update t set a = 'c'"),
            ("DELETE", "delete from t"),
            ("TRUNCATE", "truncate t"),
        ],
    )
    def test_deny_refuses_every_change(self, watched: Watched, trigger: str, operation: str, statement: str) -> None:
        watched.create("a text primary key")
        watched.run("insert into t values ('a')")
        watched.watch(trigger, "deny")
        watched.watch(trigger, "deny", when="after truncate")

        expected = f"Table '{watched.table}' to queue '{watched.api.queue}': change not allowed ({operation})"
        assert watched.refused(statement) == expected

    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_skip_makes_the_event_and_leaves_the_table_alone(self, watched: Watched, trigger: str) -> None:
        watched.create("id int primary key, txt text")
        watched.run("insert into t values (1, 'a')")
        watched.watch(trigger, "SKIP", when="before insert or update or delete")
        watched.run("insert into t values (2, 'b')", "update t set txt = 'c'", "delete from t")

        assert watched.api.rows("select * from t") == [(1, "a")]
        assert len(watched.events()) == 3

    def test_skip_is_for_before_triggers(self, watched: Watched) -> None:
        watched.create("id int primary key")
        watched.watch("jsontriga", "SKIP")

        assert watched.refused("insert into t values (1)") == "SKIP works in a before trigger only"

    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_a_before_trigger_without_skip_lets_the_change_pass(self, watched: Watched, trigger: str) -> None:
        watched.create("id int primary key, txt text")
        watched.watch(trigger, when="before insert or update or delete")
        watched.run("insert into t values (1, 'a'), (2, 'b')", "update t set txt = 'c'", "delete from t where id = 1")

        assert watched.api.rows("select * from t") == [(2, "c")]
        assert len(watched.events()) == 5

    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_when_chooses_rows(self, watched: Watched, trigger: str) -> None:
        watched.create("nr int primary key, col text")
        watched.watch(trigger, "when=col='foo'")
        watched.run("insert into t values (1, 'bar'), (2, 'foo'), (3, null)", "delete from t")

        assert len(watched.events()) == 2

    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_expressions_fill_the_fields_of_the_event(self, watched: Watched, trigger: str) -> None:
        watched.create("nr int primary key, col1 text, col2 text")
        fields = ["ev_type=col1", "ev_data=$$d$$", "ev_extra1=(nr+3)::text", "ev_extra2=col1||col2", "ev_extra3=nr"]
        watched.watch(trigger, *fields, "ev_extra4=pg_catalog.upper(col2)")
        watched.run("insert into t values (1, 'a', 'b')", "update t set col1 = null", "delete from t")

        assert watched.events() == [
            ("a", "d", "4", "ab", "1", "B"),
            (None, "d", "4", None, "1", "B"),
            (None, "d", "4", None, "1", "B"),
        ]

    @pytest.mark.parametrize("trigger", TRIGGERS)
    def test_columns_named_after_fields_fill_them(self, watched: Watched, trigger: str) -> None:
        watched.create(
            "nr int primary key, _pgq_ev_type text, _pgq_ev_extra1 text default 'e1', _pgq_ev_extra4 text default 'e4'"
        )
        watched.watch(trigger)
        watched.run("insert into t values (1, 'mine')")

        [event] = watched.events()
        assert (event[0], *event[2:]) == ("mine", "e1", None, None, "e4")
        assert "e4" not in event[1]

    def test_an_unknown_argument_is_an_error(self, watched: Watched) -> None:
        watched.create("id int primary key")
        watched.watch("jsontriga", "ignroe=a")

        assert watched.refused("insert into t values (1)") == "unknown trigger argument: ignroe=a"

    def test_a_row_is_needed(self, watched: Watched) -> None:
        watched.create("id int primary key")
        watched.run(f"create trigger a after insert on t execute function pgque.jsontriga('{watched.api.queue}')")

        assert (
            watched.refused("insert into t values (1)") == "a change trigger must be for each row, except on truncate"
        )

    def test_changes_applied_by_replication_are_not_told_again(self, watched: Watched) -> None:
        watched.create("id int primary key")
        for trigger in TRIGGERS:
            watched.watch(trigger)
        watched.run("set session_replication_role = 'local'", "insert into t values (1)")

        assert watched.events() == []


class TestLife:
    def test_a_rolled_back_change_was_never_told(self, watched: Watched) -> None:
        watched.create("id int primary key")
        watched.watch("jsontriga")
        watched.run("begin", "insert into t values (1)", "rollback")

        assert watched.events() == []

    def test_the_table_may_change_its_shape_within_a_session(self, watched: Watched) -> None:
        watched.create("id int primary key, a text")
        watched.watch("jsontriga")
        watched.run(
            *("insert into t values (1, 'a')", 'alter table t rename column a to "b%s ""c"', "update t set id = id"),
            *("alter table t add column d int default 4", "update t set id = id"),
            *("""alter table t drop column "b%s ""c\"""", "update t set id = id"),
            *("alter table t alter column d type text using d || '!'", "update t set id = id"),
        )

        assert [data for _, data in watched.told()] == [
            '{"id":1,"a":"a"}',
            r'{"id":1,"b%s \"c":"a"}',
            r'{"id":1,"b%s \"c":"a","d":4}',
            '{"id":1,"d":4}',
            '{"id":1,"d":"4!"}',
        ]

    def test_a_virtual_column_is_left_out(self, watched: Watched) -> None:
        """A trigger finds nothing in it: to tell that it is null would be wrong."""
        if watched.api.connection.info.server_version < 180000:
            pytest.skip("virtual columns are new in PostgreSQL 18")
        watched.create("id int primary key, n int, twice int generated always as (n * 2) virtual")
        watched.watch("jsontriga")
        watched.run("insert into t values (1, 2)", "update t set n = 3")

        assert [data for _, data in watched.told()] == ['{"id":1,"n":2}', '{"id":1,"n":3}']

    def test_several_tables_share_a_queue_in_one_session(self, watched: Watched) -> None:
        watched.create("id int primary key")
        watched.watch("jsontriga")
        watched.run("create table u (name text primary key, born date)")
        watched.run(
            f"create trigger a after insert on u for each row execute function pgque.jsontriga('{watched.api.queue}')"
        )
        watched.run(
            "insert into t values (1)", "insert into u values ('ada', '1815-12-10')", "insert into t values (2)"
        )

        assert [data for _, data in watched.told()] == ['{"id":1}', '{"name":"ada","born":"1815-12-10"}', '{"id":2}']

    def test_an_expression_has_the_rights_of_whoever_changes_the_table(self, watched: Watched) -> None:
        """Else a table and a trigger would be a way to the rights of the owner of the functions."""
        api = watched.api
        with role_in(api.dsn, "pgque_writer") as role:
            api.run(f"grant all on schema {watched.schema} to {role}")
            api.become(role)
            watched.create("id int primary key")
            watched.watch("jsontriga", "ev_extra4=current_user")
            watched.run("insert into t values (1)")
            api.run("reset role")
            [event] = watched.events()

        assert event[5] == role

    def test_whoever_changes_the_table_must_be_allowed_to_send(self, watched: Watched) -> None:
        watched.create("id int primary key")
        watched.watch("jsontriga")
        with role_in(watched.api.dsn) as role:
            watched.run(f"grant all on schema {watched.schema} to {role}", f"grant all on t to {role}")
            watched.api.become(role)
            refused = watched.api.refused("insert into t values (1)")
            watched.run("reset role")

        assert refused.sqlstate == "42501"
