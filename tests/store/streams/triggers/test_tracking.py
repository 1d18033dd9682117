"""Tables tracked in one call, and updates of keys told as two changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.postgres_only.roles import role_in
from tests.store.streams.calls import api_of
from tests.store.streams.triggers.test_triggers import TRIGGERS, Watched, head


@pytest.fixture
def watched(streams_dsn: str) -> Iterator[Watched]:
    with api_of(streams_dsn) as api:
        yield Watched(api)


def track(watched: Watched, *arguments: str) -> int:
    given = "".join(f", '{argument}'" for argument in arguments)
    made: int = watched.api.one(f"select pgque.track_table('{watched.table}', '{watched.api.queue}'{given})")
    return made


def untrack(watched: Watched) -> int:
    gone: int = watched.api.one(f"select pgque.untrack_table('{watched.table}', '{watched.api.queue}')")
    return gone


class TestRekey:
    def test_a_new_key_is_a_delete_and_then_an_insert(self, watched: Watched) -> None:
        watched.create("id int primary key, name text")
        for trigger in TRIGGERS:
            watched.watch(trigger, "rekey")
        watched.run("insert into t values (1, 'a')", "update t set id = 2, name = 'b'")

        assert watched.told()[3:] == [
            (head(watched, "DELETE", "id"), '{"id":1,"name":"a"}'),
            (head(watched, "INSERT", "id"), '{"id":2,"name":"b"}'),
            ("D:id", "id=1&name=a"),
            ("I:id", "id=2&name=b"),
            ("D", "id='1'"),
            ("I", "(id,name) values ('2','b')"),
        ]

    def test_an_update_that_leaves_the_key_is_an_update(self, watched: Watched) -> None:
        watched.create("id int primary key, name text")
        watched.watch("jsontriga", "rekey")
        watched.run("insert into t values (1, 'a')", "update t set id = 1, name = 'b'")

        assert watched.told()[1:] == [(head(watched, "UPDATE", "id"), '{"id":1,"name":"b"}')]

    def test_each_half_is_told_if_the_condition_is_true_of_its_row(self, watched: Watched) -> None:
        watched.create("id int primary key")
        watched.watch("jsontriga", "rekey", "when=id < 10")
        watched.run("insert into t values (1)", "update t set id = 11", "update t set id = 12", "update t set id = 2")

        assert watched.told()[1:] == [
            (head(watched, "DELETE", "id"), '{"id":1}'),
            (head(watched, "INSERT", "id"), '{"id":2}'),
        ]


class TestTracking:
    @pytest.fixture(autouse=True)
    def table(self, watched: Watched) -> None:
        watched.create("id int primary key, name text")

    def test_every_kind_of_change_is_told(self, watched: Watched) -> None:
        assert track(watched) == 1
        watched.run(
            "insert into t values (1)", "update t set name = 'a'", "update t set id = 2", "delete from t", "truncate t"
        )

        operations = ["INSERT", "UPDATE", "DELETE", "INSERT", "DELETE", "TRUNCATE"]
        assert [kind for kind, _ in watched.told()] == [head(watched, each, "id") for each in operations]

    def test_tracking_twice_tells_once(self, watched: Watched) -> None:
        assert [track(watched), track(watched)] == [1, 0]
        watched.run("insert into t values (1)")

        assert len(watched.events()) == 1

    def test_the_last_arguments_count(self, watched: Watched) -> None:
        track(watched)
        track(watched, "rekey", "ignore=name")
        watched.run("insert into t values (1, 'a')")

        assert [data for _, data in watched.told()] == ['{"id":1}']

    def test_a_queue_that_is_missing_is_made(self, watched: Watched) -> None:
        watched.run(f"select pgque.drop_queue('{watched.api.queue}', true)")
        track(watched)
        watched.run("insert into t values (1)")

        assert len(watched.events()) == 1

    def test_what_is_not_tracked_any_more_is_not_told(self, watched: Watched) -> None:
        track(watched)

        assert [untrack(watched), untrack(watched)] == [1, 0]
        watched.run("insert into t values (1)", "truncate t")
        assert watched.events() == []

    def test_a_table_with_a_trigger_to_the_queue_is_refused(self, watched: Watched) -> None:
        watched.watch("logutriga")

        refused = watched.api.refused(f"select pgque.track_table('{watched.table}', '{watched.api.queue}')")

        assert refused.sqlstate == "42710"

    def test_a_wrong_argument_is_refused_before_anything_changes(self, watched: Watched) -> None:
        refused = watched.api.refused(f"select pgque.track_table('{watched.table}', '{watched.api.queue}', 'rekeys')")

        assert refused.diag.message_primary == "unknown trigger argument: rekeys"

    def test_a_partitioned_table_is_refused(self, watched: Watched) -> None:
        watched.run("create table parted (id int primary key) partition by range (id)")

        refused = watched.api.refused(f"select pgque.track_table('{watched.schema}.parted', '{watched.api.queue}')")

        assert refused.sqlstate == "42809"

    def test_tracking_needs_the_rights_of_an_owner(self, watched: Watched) -> None:
        with role_in(watched.api.dsn, "pgque_writer") as role:
            watched.run(f"grant all on schema {watched.schema} to {role}", f"grant select on t to {role}")
            watched.api.become(role)
            refused = watched.api.refused(f"select pgque.track_table('{watched.table}', '{watched.api.queue}')")
            watched.run(
                "reset role", f"grant create on schema {watched.schema} to {role}", f"alter table t owner to {role}"
            )
            watched.api.become(role)
            made = track(watched)
            watched.run("reset role")

        assert (refused.sqlstate, made) == ("42501", 1)
