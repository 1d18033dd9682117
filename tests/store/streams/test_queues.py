"""Queues: made, configured, dropped."""

from __future__ import annotations

import psycopg
import pytest

from tests.store.streams.queue import Connection, Queue


def config(queue: Queue, column: str) -> object:
    return queue.one(f"select {column} from pgque.queue where queue_name = %s", queue.name)


def test_a_queue_is_made_once(queue: Queue) -> None:
    assert queue.one("select pgque.create_queue(%s)", queue.name) == 0
    assert queue.one("select pgque.create_queue(%s)", queue.name + "2") == 1


def test_two_who_make_the_same_queue_at_once_both_have_it(queue: Queue, other: Connection) -> None:
    other.execute("select pgque.create_queue(%s)", (queue.name + "2",))
    other.commit()

    assert queue.one("select pgque.create_queue(%s)", queue.name + "2") == 0


def test_a_new_queue_has_three_tables_with_the_names_and_columns_of_pgq(queue: Queue) -> None:
    columns = queue.rows(
        """
        select c.relname, string_agg(a.attname, ' ' order by a.attnum)
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0
        where c.relnamespace = 'pgque'::regnamespace
          and c.relkind = 'r'
          and c.relname ~ ('^event_' || %s || '(_[0-9])?$')
        group by c.relname
        order by c.relname
        """,
        queue.id,
    )

    expected = "ev_id ev_time ev_txid ev_owner ev_retry ev_type ev_data ev_extra1 ev_extra2 ev_extra3 ev_extra4"
    assert columns == [(f"event_{queue.id}{suffix}", expected) for suffix in ("", "_0", "_1", "_2")]
    assert config(queue, "queue_data_pfx") == f"pgque.event_{queue.id}"


def test_a_new_queue_has_a_tick_to_start_from(queue: Queue) -> None:
    assert queue.rows("select tick_id, tick_event_seq from pgque.tick where tick_queue = %s", queue.id) == [(1, 0)]


@pytest.mark.parametrize("name", ["", "a" * 53, "é" * 27])
def test_a_name_that_is_no_channel_is_refused(queue: Queue, name: str) -> None:
    assert queue.refused("select pgque.create_queue(%s)", name).sqlstate == "PS011"


def test_no_name_is_refused(queue: Queue) -> None:
    assert "Invalid NULL value" in str(queue.refused("select pgque.create_queue(null)"))


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b; drop', "ünïcode", "%s %I $1", "A.B", "a" * 52])
def test_a_name_stays_data(queue: Queue, name: str) -> None:
    assert queue.one("select pgque.create_queue(%s)", name) == 1
    queue.rows("select pgque.insert_event(%s, 'type', 'data')", name)
    queue.rows("select pgque.force_tick(%s)", name)
    assert queue.one("select pgque.ticker(%s)", name) == 2
    assert queue.one("select pgque.drop_queue(%s)", name) == 1


def test_options_are_given_as_an_object(queue: Queue) -> None:
    name = queue.name + "2"
    options = (
        '{"ticker_max_count": 7, "ticker_max_lag": "5 seconds", "ticker_idle_period": "2 minutes", "max_retries": 0,'
        ' "rotation_period": "4 hours", "event_ttl": "7 days"}'
    )
    assert queue.one("select pgque.create_queue(%s, %s::jsonb)", name, options) == 1

    [row] = queue.rows(
        """
        select queue_ticker_max_count, queue_ticker_max_lag::text, queue_ticker_idle_period::text, queue_max_retries,
          queue_rotation_period::text, queue_event_ttl::text
        from pgque.queue
        where queue_name = %s
        """,
        name,
    )
    assert row == (7, "00:00:05", "00:02:00", 0, "04:00:00", "7 days")


def test_a_wrong_option_makes_no_queue(queue: Queue) -> None:
    name = queue.name + "2"
    assert "cannot change parameter" in str(queue.refused("select pgque.create_queue(%s, '{\"x\": 1}')", name))
    assert queue.refused("select pgque.create_queue(%s, '[]')", name).sqlstate == "PS010"
    assert queue.rows("select 1 from pgque.queue where queue_name = %s", name) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_retries", "-1"), ("event_ttl", "0"), ("ticker_max_lag", "soon"), ("ticker_paused", "perhaps"), ("id", "1")],
)
def test_a_wrong_setting_is_refused(queue: Queue, name: str, value: str) -> None:
    queue.refused("select pgque.set_queue_config(%s, %s, %s)", queue.name, name, value)


def test_the_texts_of_errors_are_those_that_clients_look_for(queue: Queue) -> None:
    for query, text in [
        ("select pgque.drop_queue('none')", "No such event queue"),
        ("select pgque.set_queue_config('none', 'max_retries', '1')", "queue not found"),
        ("select pgque.insert_event('none', 'type', 'data')", "queue not found"),
        ("select pgque.register_consumer('none', 'c')", "Event queue not created yet"),
        ("select pgque.register_consumer('none', 'c')", "queue not found"),
        ("select pgque.next_batch('none', 'c')", "queue not found"),
        ("select pgque.ticker('none')", "no such queue"),
        ("select pgque.get_batch_events(0)", "batch not found"),
        ("select pgque.batch_acknowledge(0)", "batch not found"),
        ("select pgque.event_retry(0, 0, 0)", "batch not found"),
    ]:
        assert text in str(queue.refused(query))


def test_a_queue_with_consumers_is_dropped_only_by_force(queue: Queue) -> None:
    queue.register("c")
    queue.insert("a")

    assert "consumers still attached" in str(queue.refused("select pgque.drop_queue(%s)", queue.name))
    assert queue.one("select pgque.drop_queue(%s, true)", queue.name) == 1
    left = queue.rows("select relname from pg_class where relname ~ ('^event_' || %s || '(_|$)')", queue.id)
    assert left == []
    assert queue.rows("select 1 from pgque.tick where tick_queue = %s", queue.id) == []


def test_inserts_can_be_disallowed(queue: Queue) -> None:
    queue.rows("select pgque.set_queue_config(%s, 'disable_insert', 'true')", queue.name)

    error = queue.refused("select pgque.insert_event(%s, 'type', 'data')", queue.name)
    assert "Insert into queue disallowed" in str(error)


def test_the_current_table_takes_a_copy(queue: Queue) -> None:
    queue.register("c")
    with queue.connection.transaction():
        table = queue.one("select pgque.current_event_table(%s)", queue.name)
        with queue.connection.cursor().copy(f"copy {table} (ev_type, ev_data) from stdin".encode()) as copy:
            for number in range(100):
                copy.write_row(("type", f"{number}"))
    queue.tick()

    assert queue.take() == [str(number) for number in range(100)]


def test_many_events_are_inserted_at_once_and_numbered_in_order(queue: Queue) -> None:
    queue.register("c")
    query = "select pgque.insert_events(%s, %s::text[], %s::text[], i_extra4 => %s::text[])"
    ids = queue.one(query, queue.name, ["x", "y", "x"], ["a", "b", "c"], ["k", None, "l"])
    queue.tick()

    batch = queue.open()
    rows = queue.rows("select ev_id, ev_type, ev_data, ev_extra4 from pgque.get_batch_events(%s)", batch)
    assert rows == [(ids[0], "x", "a", "k"), (ids[1], "y", "b", None), (ids[2], "x", "c", "l")]
    assert queue.one("select pgque.insert_events(%s, 'type', '{}')", queue.name) == []
    with pytest.raises(psycopg.Error, match="must have the same length"):
        queue.rows(query, queue.name, ["x", "y"], ["a"], ["k"])
