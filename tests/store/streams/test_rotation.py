"""Event tables take turns; who is slow keeps them from it and loses nothing."""

from __future__ import annotations

from penstock.store.postgres.connections import SQL
from tests.store.statistics import FLUSH
from tests.store.streams.queue import Connection, Queue


def pass_through(queue: Queue, *data: str) -> None:
    """Sent, ticked and consumed."""
    queue.insert(*data)
    queue.tick()
    assert queue.drain() == list(data)


def test_the_tables_take_turns_and_the_oldest_is_emptied(queue: Queue) -> None:
    queue.register("c")
    pass_through(queue, "a")
    assert queue.rotate() == 1
    pass_through(queue, "b")
    assert queue.rotate() == 2
    pass_through(queue, "c")
    assert [queue.stored(number) for number in range(3)] == [1, 1, 1]
    assert queue.rotate() == 0
    assert [queue.stored(number) for number in range(3)] == [0, 1, 1]


def test_without_consumers_they_turn_too(queue: Queue) -> None:
    queue.insert("a")
    assert [queue.rotate() for _ in range(4)] == [1, 2, 0, 1]


def test_a_slow_consumer_blocks_the_rotation_and_loses_nothing(queue: Queue) -> None:
    queue.register("c", "slow")
    pass_through(queue, "a")
    queue.tick()
    assert queue.rotate() == 0  # it still stands before the first event

    assert queue.take("slow") == ["a"]
    queue.take("slow")
    pass_through(queue, "b")
    assert queue.rotate() == 1
    pass_through(queue, "c")
    assert queue.rotate() == 1
    assert queue.drain("slow") == ["b", "c"]
    queue.tick()
    queue.take("slow")
    queue.drain()
    assert queue.rotate() == 2


def test_an_open_batch_blocks_it_as_well(queue: Queue) -> None:
    queue.register("c")
    pass_through(queue, "a")
    queue.rotate()
    queue.insert("b")
    queue.tick()
    batch = queue.open()
    assert batch is not None
    for _ in range(3):
        queue.rotate()
    assert queue.data(batch) == ["b"]


def test_a_table_that_somebody_reads_is_not_waited_for(queue: Queue, other: Connection) -> None:
    queue.register("c")
    pass_through(queue, "a")
    other.execute("select count(*) from pgque.{}".format(f"event_{queue.id}_1").encode())
    assert queue.rotate() == 0
    other.rollback()
    assert queue.rotate() == 1


def test_the_second_step_takes_a_transaction_of_its_own(queue: Queue) -> None:
    queue.rows("select pgque.set_queue_config(%s, 'rotation_period', '0')", queue.name)
    with queue.connection.transaction():
        queue.rows("select pgque.maint_rotate_tables_step1(%s), pgque.maint_rotate_tables_step2()", queue.name)
    query = "select queue_switch_step2 is null from pgque.queue where queue_name = %s"
    assert queue.one(query, queue.name)
    assert queue.rotate() == 1
    assert not queue.one(query, queue.name)


def test_nothing_turns_before_the_period_is_over(queue: Queue) -> None:
    queue.rows("select pgque.maint_rotate_tables_step1(%s)", queue.name)
    assert queue.one("select queue_cur_table from pgque.queue where queue_name = %s", queue.name) == 0


def test_old_ticks_go_and_those_that_are_needed_stay(queue: Queue) -> None:
    queue.register("c")
    for number in range(12):
        pass_through(queue, str(number))
        queue.rotate()
    [[count, lowest]] = queue.rows("select count(*), min(tick_id) from pgque.tick where tick_queue = %s", queue.id)

    assert count < 6
    assert lowest > 1
    assert queue.one("select queue_first_tick from pgque.queue where queue_name = %s", queue.name) == lowest
    pass_through(queue, "still works")


def test_a_consumer_can_be_put_back_as_far_as_the_ticks_go(queue: Queue) -> None:
    queue.register("c")
    for number in range(6):
        pass_through(queue, f"{number}")
        queue.rotate()
    pass_through(queue, "last")
    lowest = queue.one("select min(tick_id) from pgque.tick where tick_queue = %s", queue.id)
    queue.rows("select pgque.register_consumer_at(%s, 'c', %s)", queue.name, lowest)

    assert queue.drain()[-1] == "last"


def test_maint_does_it_all_in_two_calls(queue: Queue) -> None:
    queue.register("c")
    pass_through(queue, "a")
    queue.rows("select pgque.set_queue_config(%s, 'rotation_period', '0')", queue.name)
    queue.rows("select pgque.maint()")
    queue.rows("select pgque.set_queue_config(%s, 'rotation_period', '1 hour')", queue.name)
    queue.rows("select pgque.maint()")
    [row] = queue.rows(
        "select queue_cur_table, queue_switch_step2 is null from pgque.queue where queue_name = %s", queue.name
    )
    assert row == (1, False)


def test_the_operations_are_listed_as_pgq_lists_them(queue: Queue) -> None:
    queue.rows("select pgque.set_queue_config(%s, 'rotation_period', '0')", queue.name)
    operations = queue.rows("select func_name, func_arg from pgque.maint_operations()")

    assert ("pgque.maint_rotate_tables_step1", queue.name) in operations
    assert ("pgque.maint_rotate_tables_step2", None) in operations
    assert {name for name, _ in operations} - {"vacuum"} <= SQL.keys()


def test_many_events_and_rotations_leave_no_dead_rows(own_queue: Queue) -> None:
    own_queue.register("c")
    data = [f"event {number}" for number in range(1_000)]
    for _ in range(10):
        for _ in range(10):
            own_queue.rows("select cardinality(pgque.insert_events(%s, 't', %s::text[]))", own_queue.name, data)
        own_queue.tick()
        assert len(own_queue.drain()) == 10_000
        own_queue.rotate()
    for statement in FLUSH:
        own_queue.connection.execute(statement)
    dead = own_queue.rows(
        """
        select relname, n_dead_tup, n_tup_upd, n_tup_del
        from pg_stat_user_tables
        where schemaname = 'pgque'
          and (relname ~ '^event_' or relname ~ '^progress_')
          and n_dead_tup + n_tup_upd + n_tup_del > 0
        """
    )
    assert dead == []
