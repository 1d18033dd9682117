"""The SQL API as users call it: in their own transactions, with granted roles."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.store.postgres_only.roles import User, role_in, user_of

FUNCTIONS = {
    "penstock_reader": {"list_queues", "list_topics", "list_schedules", "metrics", "peek"},
    "penstock_writer": {
        *("list_queues", "list_topics", "list_schedules", "metrics", "peek"),
        *("receive_wait", "expect_messages"),
        *("send", "send_batch", "receive", "pop", "delete", "delete_batch", "archive", "archive_batch"),
        "change_visibility",
        *("publish", "publish_event"),
    },
    "penstock_admin": {
        *("list_queues", "list_topics", "list_schedules", "metrics", "peek"),
        *("receive_wait", "expect_messages"),
        *("redrive", "create_schedule", "pause_schedule", "resume_schedule", "drop_schedule"),
        *("send", "send_batch", "receive", "pop", "delete", "delete_batch", "archive", "archive_batch"),
        "change_visibility",
        *("publish", "publish_event"),
        *("create_queue", "alter_queue", "drop_queue", "purge_queue"),
        *("create_topic", "drop_topic", "subscribe", "subscribe_events", "unsubscribe"),
    },
}
"""Who may call what."""

CALLS = {
    "list_queues": "select penstock.list_queues()",
    "metrics": "select penstock.metrics('work')",
    "peek": "select penstock.peek('work')",
    "send": "select penstock.send('work', 'a'::text)",
    "send_batch": "select penstock.send_batch('work', '{a}')",
    "receive": "select penstock.receive('work')",
    "pop": "select penstock.pop('work')",
    "delete": "select penstock.delete('work', 1)",
    "delete_batch": "select penstock.delete_batch('work', '{1,2}')",
    "archive": "select penstock.archive('work', 1)",
    "archive_batch": "select penstock.archive_batch('work', '{1,2}')",
    "change_visibility": "select penstock.change_visibility('work', 1, 0)",
    "create_queue": "select penstock.create_queue('new')",
    "alter_queue": """select penstock.alter_queue('work', '{"delay_s": 1}')""",
    "drop_queue": "select penstock.drop_queue('none')",
    "purge_queue": "select penstock.purge_queue('work')",
    "receive_wait": "select penstock.receive_wait('work', 0)",
    "expect_messages": "select penstock.expect_messages('work')",
    "redrive": "select penstock.redrive('work')",
    "create_schedule": """select penstock.create_schedule('s', '{"target": "work", "every": "1h"}')""",
    "list_schedules": "select penstock.list_schedules()",
    "pause_schedule": "select penstock.pause_schedule('idle')",
    "resume_schedule": "select penstock.resume_schedule('idle')",
    "drop_schedule": "select penstock.drop_schedule('none')",
    "list_topics": "select penstock.list_topics()",
    "create_topic": "select penstock.create_topic('new')",
    "subscribe": "select penstock.subscribe('news', 'work')",
    "subscribe_events": "select penstock.subscribe_events('a.#', 'work')",
    "publish": "select penstock.publish('news', 'a')",
    "publish_event": "select penstock.publish_event('a.b', 'a'::text)",
    "unsubscribe": "select penstock.unsubscribe('news', 'work')",
    "drop_topic": "select penstock.drop_topic('none')",
}

NO_PRIVILEGE = "42501"


@pytest.fixture
def user(dsn: str) -> Iterator[User]:
    """A user in a new tenant, with a queue `work`."""
    with user_of(dsn) as user:
        user.one("select penstock.create_queue('work')")
        user.one("select penstock.create_topic('news')")
        user.one("""select penstock.create_schedule('idle', '{"target": "work", "every": "1h", "status": "paused"}')""")
        yield user


class TestTransactions:
    def test_a_committed_send_is_received(self, user: User) -> None:
        with user.connection.transaction():
            user.one("select penstock.send('work', 'hello'::text)")

        assert user.rows("select r.body from penstock.receive('work') as r") == [("hello",)]

    def test_a_send_that_is_rolled_back_never_was(self, user: User) -> None:
        with undone(user):
            user.one("select penstock.send('work', 'never'::text, dedup_id => 'once')")
            assert len(user.rows("select penstock.peek('work')")) == 1

        assert user.rows("select penstock.receive('work')") == []
        assert user.rows("select m.sent from penstock.metrics('work') as m") == [(0,)]
        user.one("select penstock.send('work', 'now'::text, dedup_id => 'once')")
        assert user.rows("select p.body from penstock.pop('work') as p") == [("now",)]

    def test_a_send_goes_with_the_rows_beside_it(self, user: User) -> None:
        user.connection.execute("create temp table orders (id bigint primary key)")
        with user.connection.transaction():
            user.connection.execute("insert into orders values (1)")
            user.one("select penstock.send('work', 'order 1'::text)")
        with suppress(psycopg.errors.UniqueViolation), user.connection.transaction():
            user.one("select penstock.send('work', 'order 1 again'::text)")
            user.connection.execute("insert into orders values (1)")

        assert user.rows("select p.body from penstock.pop('work', 10) as p") == [("order 1",)]

    def test_a_receive_that_is_rolled_back_never_was(self, user: User) -> None:
        user.one("select penstock.send('work', 'a'::text)")
        with undone(user):
            user.rows("select penstock.receive('work')")

        assert user.rows("select r.receives from penstock.receive('work') as r") == [(1,)]

    def test_a_delete_that_is_rolled_back_never_was(self, user: User) -> None:
        message = user.one("select penstock.send('work', 'a'::text)")
        with undone(user):
            assert user.one("select penstock.delete('work', %s)", message)

        assert user.one("select count(*) from penstock.peek('work')") == 1

    def test_a_queue_that_is_rolled_back_never_was(self, user: User) -> None:
        with undone(user):
            user.one("select penstock.create_queue('never')")
            user.one("select penstock.send('never', 'a'::text)")

        assert user.refused("select penstock.send('never', 'a'::text)") == "PS021"

    def test_a_savepoint_undoes_one_send_of_two(self, user: User) -> None:
        with user.connection.transaction():
            user.one("select penstock.send('work', 'kept'::text)")
            with undone(user):
                user.one("select penstock.send('work', 'undone'::text)")

        assert user.rows("select p.body from penstock.pop('work', 10) as p") == [("kept",)]

    def test_a_fifo_queue_needs_a_transaction_that_is_read_committed(self, user: User) -> None:
        user.one("select penstock.create_queue('work.fifo')")
        query = "select penstock.send('work.fifo', 'a'::text, group_id => 'g', dedup_id => '1')"
        user.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

        assert user.refused(query) == "PS060"
        assert user.one("select penstock.send('work', 'a'::text)") > 0


class TestWaiting:
    def test_a_receive_that_waits_gets_what_is_sent_meanwhile(self, dsn: str, user: User) -> None:
        tenant = user.one("select current_setting('penstock.tenant')")
        with psycopg.connect(dsn, autocommit=True) as connection, ThreadPoolExecutor(1) as thread:
            connection.execute("select set_config('penstock.tenant', %s, false)", [tenant])
            waiter = User(connection)
            found = thread.submit(waiter.rows, "select r.body, r.lease > 0 from penstock.receive_wait('work', 20) as r")
            pid = connection.info.backend_pid
            while user.one("select wait_event from pg_stat_activity where pid = %s", pid) != "PgSleep":
                assert not found.done(), found.result()
            user.one("select penstock.send('work', 'late'::text)")

            assert found.result(10) == [("late", True)]

    def test_without_messages_it_ends_in_time(self, user: User) -> None:
        began = time.monotonic()

        assert user.rows("select penstock.receive_wait('work', 1)") == []
        assert 1 <= time.monotonic() - began < 5

    @pytest.mark.parametrize("wait_s", [-1, 21])
    def test_the_wait_is_bounded(self, user: User, wait_s: int) -> None:
        assert user.complaint("select penstock.receive_wait('work', %s)", wait_s) == ("PS010", "wait_s")

    def test_a_snapshot_that_never_changes_is_refused(self, user: User) -> None:
        user.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

        assert user.refused("select penstock.receive_wait('work', 20)") == "PS060"

    def test_a_session_that_listens_is_notified(self, dsn: str, user: User) -> None:
        tenant = user.one("select current_setting('penstock.tenant')")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("select set_config('penstock.tenant', %s, false)", [tenant])
            connection.execute("listen penstock_arrivals")
            waiter = User(connection)
            announcement = waiter.one("select penstock.expect_messages('work', 30)")
            assert waiter.rows("select penstock.receive('work')") == []

            user.one("select penstock.send('work', 'now'::text)")

            assert [notice.payload for notice in connection.notifies(timeout=10, stop_after=1)] == [announcement]
            assert waiter.rows("select r.body from penstock.receive('work') as r") == [("now",)]


class TestRedrive:
    @pytest.fixture(autouse=True)
    def dead_letters(self, user: User) -> None:
        user.one("select penstock.create_queue('dead')")
        user.one("select penstock.alter_queue('work', %s)", Jsonb({"max_receives": 1, "dead_letter_queue": "dead"}))
        user.one("select penstock.send_batch('work', '{a,b,c}')")
        for _ in range(2):
            user.rows("select penstock.receive('work', 0, 10)")

    def test_dead_letters_go_back_to_their_queue(self, user: User) -> None:
        assert user.one("select penstock.redrive('dead', max_messages => 2)") == 2
        assert user.one("select penstock.redrive('dead')") == 1
        assert user.one("select penstock.redrive('dead')") == 0
        assert user.rows("select p.body from penstock.pop('work', 10) as p") == [("a",), ("b",), ("c",)]

    def test_or_to_another(self, user: User) -> None:
        user.one("select penstock.create_queue('other')")

        assert user.one("select penstock.redrive('dead', 'other')") == 3
        assert user.rows("select p.body from penstock.pop('other', 10) as p") == [("a",), ("b",), ("c",)]

    def test_a_rollback_leaves_them(self, user: User) -> None:
        with undone(user):
            assert user.one("select penstock.redrive('dead')") == 3

        assert user.one("select m.visible from penstock.metrics('dead') as m") == 3

    def test_one_that_is_being_received_stays(self, user: User) -> None:
        user.rows("select penstock.receive('dead', 60)")

        assert user.one("select penstock.redrive('dead')") == 2

    def test_a_message_that_came_from_no_queue_is_refused(self, user: User) -> None:
        user.one("select penstock.send('dead', 'mine'::text)")

        assert user.refused("select penstock.redrive('dead')") == "PS030"

    @pytest.mark.parametrize(
        ("call", "complaint"),
        [
            ("'none'", ("PS021", None)),
            ("'dead', 'none'", ("PS021", None)),
            ("'dead', 'dead'", ("PS010", "destination")),
            ("'dead', max_messages => 0", ("PS010", "max_messages")),
        ],
    )
    def test_mistakes_are_named(self, user: User, call: str, complaint: tuple[str, str | None]) -> None:
        code, field = user.complaint(f"select penstock.redrive({call})")

        assert (code, field if complaint[1] else None) == complaint


class TestSend:
    def test_an_untyped_literal_is_text(self, user: User) -> None:
        user.rows("select penstock.send('work', '{\"a\": 1}')")

        assert is_json(user) == [(False, '{"a": 1}')]

    def test_a_json_value_is_kept_as_one(self, user: User) -> None:
        user.one("select penstock.send('work', %s::jsonb)", '{"a":   1}')
        user.one("select penstock.send('work', jsonb_build_object('b', 2))")

        assert is_json(user) == [(True, '{"a": 1}'), (True, '{"b": 2}')]

    @pytest.mark.parametrize("queue", ["work", "work.fifo"])
    def test_a_batch_may_be_an_array_that_does_not_begin_at_one(self, user: User, queue: str) -> None:
        user.one("select penstock.create_queue(%s)", queue)
        ids = user.one(
            """
            select penstock.send_batch(
              %s, '[0:1]={a,b}', array_fill('{"n": 1}'::jsonb, '{2}', '{0}'), group_id => 'g',
              dedup_ids => '[5:6]={1,2}'
            )
            """,
            queue,
        )

        query = "select p.id, p.body, p.headers from penstock.pop(%s, 10) as p"
        assert user.rows(query, queue) == [(ids[0], "a", {"n": 1}), (ids[1], "b", {"n": 1})]

    def test_arguments_go_by_name(self, user: User) -> None:
        user.one(
            """
            select penstock.send(
              queue => 'work', body => 'a', headers => '{"h": 1}', delay_s => 0, priority => 7, group_id => 'g',
              dedup_id => 'd', retention_s => 60
            )
            """
        )
        user.one("select penstock.send(queue => 'work', message => '{\"m\": 1}', priority => 1)")

        rows = user.rows(
            "select r.body, r.headers, r.priority, r.group_id from penstock.receive('work', null, 10) as r"
        )
        assert rows == [("a", {"h": 1}, 7, "g"), ('{"m": 1}', None, 1, None)]

    def test_ids_rise(self, user: User) -> None:
        first, second = (user.one("select penstock.send('work', 'a'::text)") for _ in range(2))

        assert first < second

    def test_a_delayed_message_is_not_there_yet(self, user: User) -> None:
        user.one("select penstock.send('work', 'later'::text, delay_s => 900)")

        assert user.rows("select penstock.receive('work')") == []
        assert user.rows("select m.visible, m.delayed from penstock.metrics('work') as m") == [(0, 1)]

    def test_a_duplicate_answers_the_first_id(self, user: User) -> None:
        query = "select penstock.send('work', 'a'::text, dedup_id => 'once')"

        assert user.one(query) == user.one(query)
        assert user.one("select count(*) from penstock.peek('work', 10)") == 1

    def test_a_batch_answers_its_ids_in_order(self, user: User) -> None:
        ids = user.one(
            "select penstock.send_batch('work', %s, headers => %s, priority => 5)", list("abc"), [Jsonb({"n": 1})] * 3
        )

        assert ids == sorted(ids)
        rows = user.rows("select r.id, r.body, r.headers from penstock.receive('work', 30, 10) as r")
        assert rows == [(found, body, {"n": 1}) for found, body in zip(ids, "abc", strict=True)]

    def test_a_batch_of_only_bodies_answers_its_ids_in_order(self, user: User) -> None:
        ids = user.one("select penstock.send_batch('work', %s)", list("abc"))

        assert ids == sorted(ids)
        rows = user.rows("select r.id, r.body, r.priority from penstock.receive('work', 30, 10) as r")
        assert rows == [(found, body, 100) for found, body in zip(ids, "abc", strict=True)]
        assert user.rows("select m.sent from penstock.metrics('work') as m") == [(3,)]

    def test_bodies_that_are_together_larger_than_one_may_be_fit(self, user: User) -> None:
        user.rows("select penstock.alter_queue('work', '{\"max_message_bytes\": 1024}')")
        bodies = [letter * 1000 for letter in "abc"]

        assert len(user.one("select penstock.send_batch('work', %s)", bodies)) == 3
        assert user.refused("select penstock.send_batch('work', %s)", [*bodies, "d" * 1025]) == "PS012"
        assert user.refused("select penstock.send('work', %s::text)", "d" * 1025) == "PS012"
        assert [body for (body,) in user.rows("select p.body from penstock.pop('work', 10) as p")] == bodies

    @pytest.mark.parametrize(
        ("setting", "received"),
        [
            ({"lifo": True}, ["3", "2", "1"]),
            ({"delay_s": 600}, []),
            ({"max_length": 5}, ["1", "2", "3"]),
            ({"retention_s": 60}, ["1", "2", "3"]),
        ],
    )
    def test_a_send_without_options_follows_the_settings_of_its_queue(
        self, user: User, setting: dict[str, object], received: list[str]
    ) -> None:
        user.rows("select penstock.alter_queue('work', %s)", Jsonb(setting))
        user.one("select penstock.send('work', '1'::text)")
        user.one("select penstock.send('work', '2'::jsonb)")
        user.one("select penstock.send_batch('work', '{3}')")

        rows = user.rows("select r.body from penstock.receive('work', 30, 10) as r")
        assert [body for (body,) in rows] == received

    def test_an_empty_batch_is_fine(self, user: User) -> None:
        assert user.one("select penstock.send_batch('work', '{}')") == []

    def test_one_bad_entry_sends_none(self, user: User) -> None:
        user.rows("select penstock.alter_queue('work', '{\"max_message_bytes\": 3}')")

        assert user.refused("select penstock.send_batch('work', '{abc,abcd}')") == "PS012"
        assert user.rows("select penstock.peek('work')") == []

    @pytest.mark.parametrize(
        ("call", "complaint"),
        [
            ("send('none', 'a'::text)", ("PS021", None)),
            ("send(null, 'a'::text)", ("PS021", None)),
            ("send('work', null::text)", ("PS010", "body")),
            ("send('work', null::jsonb)", ("PS010", "body")),
            ("send('work', 'a'::text, delay_s => -1)", ("PS010", "delay_s")),
            ("send('work', 'a'::text, priority => 1001)", ("PS010", "priority")),
            ("send('work', 'a'::text, retention_s => 1)", ("PS010", "retention_s")),
            ("send('order.fifo', 'a'::text)", ("PS010", "group_id")),
            ("send('order.fifo', 'a'::text, group_id => 'g')", ("PS010", "dedup_id")),
            ("send('small', 'abcd'::text)", ("PS012", "message")),
            ("send('full', 'a'::text)", ("PS040", None)),
            ("send_batch('work', array['a', null])", ("PS010", "body")),
            ("send_batch('work', '{a,b}', dedup_ids => '{1}')", ("PS010", "dedup_ids")),
            ("send_batch('work', '{a}', dedup_ids => '{1,2}')", ("PS010", "dedup_ids")),
            ("send_batch('work', '{a}', headers => array['{}', '{}']::jsonb[])", ("PS010", "headers")),
        ],
    )
    def test_what_is_refused_says_why(self, user: User, call: str, complaint: tuple[str, str | None]) -> None:
        user.one("select penstock.create_queue('order.fifo')")
        user.one("select penstock.create_queue('small', '{\"max_message_bytes\": 3}')")
        user.one("select penstock.create_queue('full', '{\"max_length\": 1}')")
        user.one("select penstock.send('full', 'a'::text)")

        code, detail = user.complaint(f"select penstock.{call}")
        assert (code, detail or None) == complaint


class TestReceive:
    def test_it_hides_for_as_long_as_asked(self, user: User) -> None:
        user.one("select penstock.send('work', 'a'::text)")
        began = datetime.now(UTC)

        [[visible_at]] = user.rows("select r.visible_at from penstock.receive('work', 600) as r")

        assert timedelta(seconds=599) < visible_at - began < timedelta(seconds=660)
        assert user.rows("select penstock.receive('work')") == []

    def test_it_hides_for_as_long_as_the_queue_says(self, user: User) -> None:
        user.rows("select penstock.alter_queue('work', '{\"visibility_timeout_s\": 0}')")
        user.one("select penstock.send('work', 'a'::text)")

        for receives in (1, 2, 3):
            assert user.rows("select r.receives from penstock.receive('work') as r") == [(receives,)]

    def test_a_lease_names_one_delivery(self, user: User) -> None:
        message = user.one("select penstock.send('work', 'a'::text)")
        first = user.one("select r.lease from penstock.receive('work', 0) as r")
        second = user.one("select r.lease from penstock.receive('work', 60) as r")

        assert first < second
        assert user.one("select penstock.change_visibility('work', %s, 0, lease => %s)", message, first) is None
        assert user.one("select penstock.delete('work', %s, %s)", message, first) is False
        assert user.one("select penstock.delete('work', %s, lease => %s)", message, second) is True
        assert user.one("select penstock.delete('work', %s)", message) is False

    def test_pop_takes_for_good(self, user: User) -> None:
        user.one("select penstock.send_batch('work', '{a,b,c}')")

        assert user.rows("select p.body from penstock.pop('work') as p") == [("a",)]
        assert user.rows("select p.body from penstock.pop('work', max_messages => 10) as p") == [("b",), ("c",)]
        assert user.rows("select m.visible, m.in_flight, m.sent from penstock.metrics('work') as m") == [(0, 0, 3)]

    def test_pop_takes_a_fifo_group_in_order(self, user: User) -> None:
        user.one("select penstock.create_queue('work.fifo')")
        user.one("select penstock.send_batch('work.fifo', '{a,b,c}', group_id => 'g', dedup_ids => '{1,2,3}')")

        assert user.rows("select p.body from penstock.pop('work.fifo', 2) as p") == [("a",), ("b",)]
        assert user.rows("select p.body from penstock.pop('work.fifo', 2) as p") == [("c",)]

    def test_peek_leaves_everything_as_it_is(self, user: User) -> None:
        user.one("select penstock.send_batch('work', '{a,b}')")

        for _ in range(2):
            rows = user.rows("select p.body, p.receives from penstock.peek('work', 10) as p")
            assert rows == [("a", 0), ("b", 0)]

    def test_archive_keeps_a_copy(self, user: User) -> None:
        message = user.one("select penstock.send('work', 'kept'::text)")

        assert user.one("select penstock.archive('work', %s)", message) is True
        assert user.one("select penstock.archive('work', %s)", message) is False
        assert user.rows("select body, queue from penstock.archive where id = %s", message) == [("kept", "work")]

    @pytest.mark.parametrize("queue", ["work", "work.fifo"])
    @pytest.mark.parametrize("verb", ["delete_batch", "archive_batch"])
    def test_a_batch_answers_the_ids_that_were_there(self, user: User, queue: str, verb: str) -> None:
        user.one("select penstock.create_queue(%s)", queue)
        ids = user.one("select penstock.send_batch(%s, '{a,b,c,d}', group_id => 'g', dedup_ids => '{1,2,3,4}')", queue)
        call = f"select penstock.{verb}(%s, %s)"

        assert user.one("select penstock.delete(%s, %s)", queue, ids[1])
        assert sorted(user.one(call, queue, [ids[0], ids[1], ids[2], ids[2], 0])) == [ids[0], ids[2]]
        assert user.one(call, queue, [ids[0]]) == user.one(call, queue, []) == []
        assert user.rows("select p.body from penstock.pop(%s, 10) as p", queue) == [("d",)]
        assert user.rows("select m.visible, m.in_flight from penstock.metrics(%s) as m", queue) == [(0, 0)]
        query = "select a.body from penstock.archive as a where a.id = any (%s) order by a.id"
        assert user.rows(query, ids) == ([("a",), ("c",)] if verb == "archive_batch" else [])

    @pytest.mark.parametrize("queue", ["work", "work.fifo"])
    @pytest.mark.parametrize("verb", ["delete_batch", "archive_batch"])
    def test_a_batch_with_leases_spares_what_was_delivered_again(self, user: User, queue: str, verb: str) -> None:
        user.one("select penstock.create_queue(%s)", queue)
        user.one("select penstock.send_batch(%s, '{a,b}', group_id => 'g', dedup_ids => '{1,2}')", queue)
        first = user.rows("select r.id, r.lease from penstock.receive(%s, 0, 10) as r", queue)
        again = user.rows("select r.id, r.lease from penstock.receive(%s, 60, 10) as r", queue)
        call = f"select penstock.{verb}(%s, %s, leases => %s)"

        ids = [number for number, _ in first]
        assert user.one(call, queue, ids, [lease for _, lease in first]) == []
        assert user.one(call, queue, ids, [first[0][1], again[1][1]]) == [ids[1]]
        assert user.complaint(call, queue, ids, [1]) == ("PS010", "leases")
        assert user.refused(call, "none", ids, [1, 1]) == "PS021"

    def test_a_batch_deleted_from_a_queue_that_archives_is_archived(self, user: User) -> None:
        user.one("""select penstock.alter_queue('work', '{"archive": true}')""")
        ids = user.one("select penstock.send_batch('work', '{a,b,c}')")

        assert sorted(user.one("select penstock.delete_batch('work', %s)", ids[:2])) == ids[:2]
        assert user.rows("select p.body from penstock.pop('work') as p") == [("c",)]
        query = "select a.body from penstock.archive as a where a.id = any (%s) order by a.id"
        assert user.rows(query, ids) == [("a",), ("b",), ("c",)]

    @pytest.mark.parametrize("verb", ["receive('work', max_messages => 5)", "pop('work', 5)"])
    def test_messages_that_are_due_come_too(self, user: User, verb: str) -> None:
        user.one("select penstock.send_batch('work', '{late,due}', delay_s => 0)")
        user.rows("select penstock.receive('work', 0)")
        user.one("select penstock.send('work', 'delayed'::text, delay_s => 600)")
        user.one("select penstock.send('work', 'first'::text, priority => 500)")

        assert user.rows(f"select v.body from penstock.{verb} as v") == [("first",), ("late",), ("due",)]

    def test_a_changed_visibility_answers_the_moment_of_return(self, user: User) -> None:
        message = user.one("select penstock.send('work', 'a'::text)")
        assert user.one("select penstock.change_visibility('work', %s, 60)", message) is None
        user.rows("select penstock.receive('work', 60)")

        assert user.one("select penstock.change_visibility('work', %s, 600)", message) > datetime.now(UTC)
        assert user.rows("select penstock.receive('work')") == []
        assert user.one("select penstock.change_visibility('work', %s, -5)", message) is not None
        assert len(user.rows("select penstock.receive('work')")) == 1


class TestQueues:
    def test_making_one_again_changes_nothing(self, user: User) -> None:
        assert user.one("select penstock.create_queue('new', '{\"delay_s\": 5}')") is True
        assert user.one("select penstock.create_queue('new', '{\"delay_s\": 6}')") is False

        user.one("select penstock.send('new', 'a'::text)")
        assert user.rows("select m.delayed from penstock.metrics('new') as m") == [(1,)]

    def test_they_are_listed_by_name(self, user: User) -> None:
        user.one("select penstock.create_queue('a.fifo')")

        assert user.rows("select l.queue, l.fifo from penstock.list_queues() as l") == [
            ("a.fifo", True),
            ("work", False),
        ]

    def test_metrics_are_of_one_or_of_all(self, user: User) -> None:
        user.one("select penstock.create_queue('other')")
        user.one("select penstock.send_batch('work', '{a,b,c}')")
        user.rows("select penstock.receive('work')")

        query = "select m.queue_name, m.visible, m.in_flight, m.delayed, m.sent from penstock.metrics(%s) as m"
        assert user.rows(query, "work") == [("work", 2, 1, 0, 3)]
        assert user.rows(query, None) == [("other", 0, 0, 0, 0), ("work", 2, 1, 0, 3)]
        assert user.rows(query, "none") == []
        [[oldest, newest]] = user.rows("select m.oldest_age, m.newest_age from penstock.metrics('work') as m")
        assert timedelta(0) <= min(oldest, newest) <= max(oldest, newest) < timedelta(minutes=1)

    def test_a_purged_one_is_empty_and_counts_on(self, user: User) -> None:
        user.one("select penstock.send_batch('work', '{a,b,c}')")

        assert user.one("select penstock.purge_queue('work')") == 3
        assert user.one("select penstock.purge_queue('work')") == 0
        assert user.rows("select m.visible, m.sent from penstock.metrics('work') as m") == [(0, 3)]

    def test_a_dropped_one_is_gone(self, user: User) -> None:
        assert user.one("select penstock.drop_queue('work')") is True
        assert user.one("select penstock.drop_queue('work')") is False
        for call in ("purge_queue('work')", "alter_queue('work', '{}')", "receive('work')", "delete('work', 1)"):
            assert user.refused(f"select penstock.{call}") == "PS021"

    def test_a_dead_letter_queue_must_exist(self, user: User) -> None:
        settings = Jsonb({"max_receives": 1, "dead_letter_queue": "none"})

        assert user.refused("select penstock.create_queue('new', %s)", settings) == "PS021"
        assert user.refused("select penstock.send('new', 'a'::text)") == "PS021"

    def test_a_message_received_too_often_goes_to_the_dead_letters(self, user: User) -> None:
        user.one("select penstock.create_queue('dead')")
        user.rows("select penstock.alter_queue('work', %s)", Jsonb({"max_receives": 1, "dead_letter_queue": "dead"}))
        user.one("select penstock.send('work', 'a'::text)")
        user.rows("select penstock.receive('work', 0)")

        assert user.rows("select penstock.receive('work')") == []
        assert user.rows("select p.body from penstock.pop('dead') as p") == [("a",)]


class TestTenants:
    def test_the_setting_names_the_tenant(self, dsn: str, user: User) -> None:
        with user_of(dsn) as other:
            other.one("select penstock.create_queue('work')")
            other.one("select penstock.send('work', 'theirs'::text)")

            assert user.rows("select penstock.receive('work')") == []
            assert other.rows("select p.body from penstock.pop('work') as p") == [("theirs",)]

    def test_without_it_everything_is_in_the_default_one(self, user: User) -> None:
        own = user.one("select penstock.current_tenant()")
        user.connection.execute("set penstock.tenant = ''")
        assert user.one("select penstock.current_tenant()") == 1 != own
        user.connection.execute("reset penstock.tenant")
        assert user.one("select penstock.current_tenant()") == 1

    def test_a_name_that_is_none_is_an_error_and_not_the_default(self, user: User) -> None:
        user.connection.execute("set penstock.tenant = 'nobody'")

        assert user.refused("select penstock.send('work', 'a'::text)") == "PS020"
        assert user.refused("select penstock.list_queues()") == "PS020"


class TestRoles:
    @pytest.mark.parametrize("group", FUNCTIONS)
    def test_a_role_may_do_what_it_is_for_and_no_more(self, dsn: str, user: User, group: str) -> None:
        with role_in(dsn, group) as role:
            user.become(role)
            for name, call in CALLS.items():
                if name in FUNCTIONS[group]:
                    user.rows(call)
                else:
                    assert user.refused(call) == NO_PRIVILEGE, name
            user.connection.execute("reset role")

    def test_the_public_may_do_nothing(self, dsn: str, user: User) -> None:
        with role_in(dsn) as role:
            user.become(role)
            for call in CALLS.values():
                assert user.refused(call) == NO_PRIVILEGE
            user.connection.execute("reset role")

    @pytest.mark.parametrize("group", FUNCTIONS)
    def test_no_role_reads_the_tables(self, dsn: str, user: User, group: str) -> None:
        query = "select relname from pg_class where relnamespace = 'penstock'::regnamespace and relkind in ('r', 'v')"
        tables = user.rows(query)
        with role_in(dsn, group) as role:
            user.become(role)
            for [table] in tables:
                assert user.refused(f"select * from penstock.{table}") == NO_PRIVILEGE
            assert user.refused("insert into penstock.tenants (name) values ('me') returning id") == NO_PRIVILEGE
            user.connection.execute("reset role")

    @pytest.mark.parametrize(
        "call",
        [
            "find_queue(1, 'work')",
            "finish_many('{1}', '{work}', '{1}', null, false, now())",
            "receive_many('{1}', '{work}', '{1}', null, null, null, null, null, null, now())",
            "sweep(now(), 1)",
            "current_tenant()",
        ],
    )
    def test_no_role_calls_what_takes_a_tenant(self, dsn: str, user: User, call: str) -> None:
        with role_in(dsn, "penstock_admin") as role:
            user.become(role)
            assert user.refused(f"select penstock.{call}") == NO_PRIVILEGE
            user.connection.execute("reset role")

    def test_a_login_role_works_over_a_connection_of_its_own(self, dsn: str, user: User) -> None:
        tenant = user.one("select current_setting('penstock.tenant')")
        with role_in(dsn, "penstock_writer") as role:
            user.connection.execute(sql.SQL("alter role {} login password 'x'").format(sql.Identifier(role)))
            with psycopg.connect(dsn, user=role, password="x", autocommit=True) as connection:
                worker = User(connection)
                connection.execute("select set_config('penstock.tenant', %s, false)", [tenant])
                worker.one("select penstock.send('work', 'mine'::text)")
                assert worker.rows("select p.body from penstock.pop('work') as p") == [("mine",)]
                assert worker.refused("select penstock.drop_queue('work')") == NO_PRIVILEGE


@contextmanager
def undone(user: User) -> Iterator[None]:
    """A transaction, or a part of one, that is rolled back in the end."""
    with user.connection.transaction(force_rollback=True):
        yield


def is_json(user: User) -> list[tuple[bool, str]]:
    """How the messages of `work` are kept."""
    return [
        (kept, body)
        for kept, body in user.rows(
            """
            select m.is_json, m.body
            from penstock.messages as m
            join penstock.queues as q on q.bin_id = m.bin_id
            where q.tenant_id = penstock.current_tenant()
              and q.name = 'work'
            order by m.id
            """
        )
    ]
