"""What scripts written for PgQ rely on: the functions it has, the numbers it gives out, the words of its refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.store.postgres.streams.ticking import Ticking
from tests.store.streams.queue import Queue, queue_of


@pytest.fixture
def bare(own_dsn: str) -> Iterator[Queue]:
    """The first queue of a database, with a ticker that ticks at every call and one consumer."""
    with queue_of(own_dsn, "c") as queue:
        queue.connection.execute("update pgque.queue set queue_ticker_max_lag = '0', queue_ticker_idle_period = '0'")
        yield queue


def change(queue: Queue, column: str, value: object) -> None:
    query = f"update pgque.queue set {column} = %s where queue_name = %s"
    queue.connection.execute(query.encode(), (value, queue.name))


def insert(queue: Queue, data: str = "data") -> int:
    found: int = queue.one("select pgque.insert_event(%s, 'type', %s)", queue.name, data)
    return found


class TestNumbers:
    def test_ticks_batches_and_events_count_from_one(self, bare: Queue) -> None:
        assert bare.open() is None
        assert bare.one("select pgque.ticker()") == 1
        assert (bare.open(), bare.open()) == (1, 1)
        [row] = bare.rows("select prev_tick_id, tick_id from pgque.get_batch_info(1)")
        assert row == (1, 2)
        assert (bare.finish(1), bare.finish(1)) == (1, 0)
        assert [insert(bare), insert(bare)] == [1, 2]
        bare.one("select pgque.ticker()")
        assert bare.open() == 2

    def test_a_refused_insert_uses_up_an_id(self, queue: Queue) -> None:
        assert insert(queue) == 1
        change(queue, "queue_disable_insert", True)
        assert "Insert into queue disallowed" in str(queue.refused("select pgque.insert_event(%s, '', '')", queue.name))
        change(queue, "queue_disable_insert", False)

        assert insert(queue) == 3

    def test_an_event_with_an_id_of_its_own_uses_up_another(self, queue: Queue) -> None:
        raw = "select pgque.insert_event_raw(%s, 100, now(), null, null, 't', 'd', null, null, null, null)"
        assert queue.one(raw, queue.name) == 100

        assert insert(queue) == 2

    def test_an_event_that_is_retried_keeps_its_id_and_uses_up_another(self, queue: Queue) -> None:
        queue.register("c")
        insert(queue)
        queue.tick()
        batch = queue.open()
        before = queue.one("select pgque.seq_getval(queue_event_seq) from pgque.queue where queue_id = %s", queue.id)
        queue.rows("select pgque.event_retry(%s, 1, 0)", batch)
        assert queue.one("select pgque.maint_retry_events()") >= 1

        assert insert(queue) == before + 2

    def test_a_forced_tick_skips_as_many_ids_as_in_pgq(self, queue: Queue) -> None:
        assert queue.one("select nextval(queue_event_seq) from pgque.queue where queue_id = %s", queue.id) == 1
        assert queue.one("select pgque.force_tick(%s)", queue.name) == 1

        assert insert(queue) == 2 + 2 * 500 + 1000 + 1


class TestTransactionLimit:
    def test_a_transaction_may_insert_so_many_events(self, queue: Queue) -> None:
        change(queue, "queue_per_tx_limit", 2)
        with queue.connection.transaction(force_rollback=True):
            assert [insert(queue), insert(queue)] == [1, 2]
            refused = queue.refused("select pgque.insert_event(%s, 'type', 'data')", queue.name)
        assert refused.diag.message_primary == f"Queue '{queue.name}' allows max 2 events from one TX"
        with queue.connection.transaction():
            assert [insert(queue), insert(queue)] == [4, 5]

    def test_none_is_allowed_with_a_limit_of_zero_and_any_without(self, queue: Queue) -> None:
        change(queue, "queue_per_tx_limit", 0)
        assert "allows max 0 events" in str(queue.refused("select pgque.insert_event(%s, '', '')", queue.name))
        change(queue, "queue_per_tx_limit", None)
        with queue.connection.transaction():
            assert [insert(queue) for _ in range(5)] == [2, 3, 4, 5, 6]

    def test_a_batch_of_events_counts_as_many(self, queue: Queue) -> None:
        change(queue, "queue_per_tx_limit", 3)
        query = "select cardinality(pgque.send_batch(%s, 'type', %s::text[]))"
        assert queue.one(query, queue.name, ["a", "b", "c"]) == 3
        assert "allows max 3 events" in str(queue.refused(query, queue.name, ["a", "b", "c", "d"]))

    def test_events_of_a_savepoint_that_was_rolled_back_do_not_count(self, queue: Queue) -> None:
        change(queue, "queue_per_tx_limit", 1)
        with queue.connection.transaction():
            with queue.connection.transaction(force_rollback=True):
                insert(queue)
            insert(queue)

    def test_maintenance_inserts_as_many_as_are_due(self, queue: Queue) -> None:
        queue.register("c")
        queue.insert("a", "b", "c")
        queue.tick()
        queue.rows("select pgque.batch_retry(%s, 0)", queue.open())
        change(queue, "queue_per_tx_limit", 1)

        assert queue.one("select pgque.maint_retry_events()") >= 3


class TestSequences:
    def test_a_name_without_a_schema_is_found_as_the_caller_would_find_it(self, queue: Queue) -> None:
        with queue.connection.transaction(force_rollback=True):
            queue.connection.execute("create schema sequences create sequence mine")
            queue.connection.execute("set local search_path = sequences")
            assert queue.one("select pgque.seq_getval('mine')") == 1
            assert [queue.one("select pgque.seq_setval('mine', %s)", value) for value in (10, 5, 15)] == [10, 10, 15]
            assert queue.one("select pgque.seq_getval('mine')") == 15

    def test_names_of_the_caller_do_not_take_the_place_of_built_in_ones(self, queue: Queue) -> None:
        with queue.connection.transaction(force_rollback=True):
            queue.connection.execute("create schema trap create sequence mine")
            for call in ("setval(regclass, bigint)", "pg_sequence_last_value(regclass)"):
                body = f"create function trap.{call} returns bigint language sql as 'select 1 / 0'"
                queue.connection.execute(body.encode())
            queue.connection.execute("set local search_path = trap, pg_catalog")
            assert queue.one("select pgque.seq_setval('mine', 7)") == 7


class TestHelpers:
    @pytest.mark.parametrize(
        ("name", "quoted"),
        [("a", "public.a"), ("A.b", '"A".b'), ("a.b.c", 'a."b.c"'), ("", 'public.""'), (None, None)],
    )
    def test_a_name_is_quoted_at_its_first_dot(self, queue: Queue, name: str | None, quoted: str | None) -> None:
        assert queue.one("select pgque.quote_fqname(%s)", name) == quoted

    def test_the_tables_and_the_statement_of_a_batch(self, queue: Queue) -> None:
        queue.register("c")
        queue.insert("before")
        queue.tick()
        queue.take()
        queue.insert("a", "b")
        queue.tick()
        batch = queue.open()
        assert batch is not None

        assert queue.rows("select pgque.batch_event_tables(%s)", batch) == [(f"pgque.event_{queue.id}_0",)]
        statement = queue.one("select pgque.batch_event_sql(%s)", batch)
        assert queue.rows(statement.replace("%", "%%")) == queue.rows("select * from pgque.get_batch_events(%s)", batch)
        assert queue.refused("select pgque.batch_event_tables(-1)").sqlstate == "PS034"

    def test_the_statement_of_a_batch_leaves_out_what_the_batch_does(self, queue: Queue) -> None:
        """Events of a transaction that was open at the first tick, and retries of another consumer."""
        queue.register("c", "other")
        with psycopg.connect(queue.connection.info.dsn, password=queue.connection.info.password) as late:
            queue.insert("late", on=late)
            queue.insert("first")
            queue.tick()
            queue.take()
            late.commit()
        other = queue.open("other")
        queue.rows("select pgque.batch_retry(%s, 0)", other)
        queue.rows("select pgque.maint_retry_events()")
        queue.tick()
        batch = queue.open()
        assert batch is not None

        statement = queue.one("select pgque.batch_event_sql(%s)", batch)
        assert [row[5] for row in queue.rows(statement.replace("%", "%%"))] == queue.data(batch) == ["late"]

    @pytest.mark.parametrize(("least", "found"), [(1, 2), (2, 5), (3, 5), (4, None)])
    def test_a_batch_ends_with_the_last_tick_unless_that_is_far_away(
        self, queue: Queue, least: int, found: int | None
    ) -> None:
        """Ticks 2, 3 and 4 come after an event each, 5 after none."""
        tick = "select pgque.make_tick(q) from pgque.queue as q where q.queue_id = %s"
        for _ in range(3):
            insert(queue)
            queue.rows(tick, queue.id)
        queue.rows(tick, queue.id)
        queue.register("c")

        helper = "select next_tick_id from pgque.find_tick_helper(%s, 1, now(), 0, %s, null)"
        assert queue.one(helper, queue.id, least) == found
        queue.rows("select pgque.register_consumer_at(%s, 'c', 1)", queue.name)
        custom = "select cur_tick_id from pgque.next_batch_custom(%s, 'c', null, %s, null)"
        assert queue.one(custom, queue.name, least) == found

    def test_storage_of_event_tables_is_set(self, queue: Queue) -> None:
        table = f"event_{queue.id}_1"
        queue.connection.execute(f"alter table pgque.{table} reset (autovacuum_enabled)".encode())
        assert queue.one("select pgque.tune_storage(%s)", queue.name) == 1
        assert queue.one("select pgque.tune_storage('no such queue')") == 0

        options = queue.one("select reloptions from pg_class where oid = %s::regclass", f"pgque.{table}")
        assert set(options) == {"autovacuum_enabled=off", "fillfactor=100"}

    def test_privileges_on_the_template_are_copied(self, queue: Queue) -> None:
        assert queue.refused("select pgque.grant_perms('no such queue')").sqlstate == "PS029"
        with queue.connection.transaction(force_rollback=True):
            queue.connection.execute("grant select on pgque.event_template to pgque_reader")
            assert queue.one("select pgque.grant_perms(%s)", queue.name) == 1
            for table in (f"pgque.event_{queue.id}", f"pgque.event_{queue.id}_2"):
                assert queue.one("select has_table_privilege('pgque_reader', %s, 'select')", table)
                assert not queue.one("select has_table_privilege('pgque_writer', %s, 'select')", table)
            sequence = f"pgque.event_{queue.id}_id_seq"
            assert queue.one("select has_sequence_privilege('pgque_admin', %s, 'usage')", sequence)
            assert queue.one("select has_sequence_privilege('pgque_writer', %s, 'select')", sequence)

    def test_an_installation_is_brought_up_to_date(self, bare: Queue) -> None:
        bare.connection.execute(
            "alter table pgque.queue add constraint queue_queue_extra_maint_check check (queue_extra_maint is null)"
        )
        assert bare.one("select pgque.upgrade_schema()") == 0
        change(bare, "queue_extra_maint", ["anything"])


class TestMaintenance:
    def operations(self, queue: Queue) -> list[tuple[Any, ...]]:
        return queue.rows("select func_name, func_arg from pgque.maint_operations()")

    def test_nothing_is_listed_when_nothing_is_due(self, bare: Queue) -> None:
        assert self.operations(bare) == []

    def test_rotations_and_extra_functions_are_listed_and_retries_are_not(self, bare: Queue) -> None:
        insert(bare)
        bare.tick()
        bare.rows("select pgque.batch_retry(%s, 0)", bare.open())
        change(bare, "queue_rotation_period", "0")
        change(bare, "queue_extra_maint", ["baz", "foo.bar"])

        assert self.operations(bare) == [
            ("pgque.maint_rotate_tables_step1", bare.name),
            ("pgque.maint_rotate_tables_step2", None),
            ("baz", bare.name),
            ("foo.bar", bare.name),
        ]

    def test_duties_that_pgq_does_not_have_are_listed_when_they_are_due(self, bare: Queue) -> None:
        bare.rows("select pgque.send_once(%s, 't', 'd', 'key', '0')", bare.name)
        bare.rows("select pgque.send_at(%s, 't', 'd', now() + interval '1 hour')", bare.name)
        assert self.operations(bare) == [("pgque.maint_expire_keys", None)]
        bare.connection.execute("update pgque.delayed_events set de_deliver_at = now()")

        assert self.operations(bare) == [("pgque.maint_deliver_delayed", None), ("pgque.maint_expire_keys", None)]

    async def test_the_server_and_maint_call_extra_functions(self, own_dsn: str, bare: Queue) -> None:
        bare.connection.execute("create table public.called (queue text)")
        bare.connection.execute(
            "create function public.count_me(queue text) returns integer language sql"
            " as 'insert into public.called values (queue) returning 1'"
        )
        change(bare, "queue_extra_maint", ["public.missing", "public.count_me", "count_me(text); select 1 / 0 --"])
        ticking = Ticking(own_dsn)
        try:
            assert await ticking.maintain() == 1
        finally:
            await ticking.close()
        bare.rows("select pgque.maint()")

        assert bare.rows("select queue from public.called") == [(bare.name,), (bare.name,)]
