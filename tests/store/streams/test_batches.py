"""Batches: opened, read, finished, retried; whole and in pieces."""

from __future__ import annotations

import psycopg
import pytest

from tests.store.streams.queue import Connection, Queue


@pytest.fixture
def ready(queue: Queue) -> Queue:
    """With a consumer, and ten events behind one tick."""
    queue.register("c")
    queue.insert(*(str(number) for number in range(10)))
    queue.tick()
    return queue


def piece(queue: Queue, batch: int, most: int) -> list[str]:
    return [row[0] for row in queue.rows("select ev_data from pgque.batch_hand_out(%s, %s)", batch, most)]


def acknowledge(queue: Queue, batch: int, through: int | None = None) -> int:
    found: int = queue.one("select pgque.batch_acknowledge(%s, %s::bigint)", batch, through)
    return found


def opened(queue: Queue, consumer: str = "c") -> int:
    batch = queue.open(consumer)
    assert batch is not None
    return batch


class TestConsumers:
    def test_a_consumer_is_registered_once(self, queue: Queue) -> None:
        assert queue.one("select pgque.register_consumer(%s, 'c')", queue.name) == 1
        assert queue.one("select pgque.register_consumer(%s, 'c')", queue.name) == 0
        assert queue.one("select pgque.unregister_consumer(%s, 'c')", queue.name) == 1
        assert queue.one("select pgque.unregister_consumer(%s, 'c')", queue.name) == 0

    def test_it_sees_what_comes_after_the_last_tick_before_it(self, queue: Queue) -> None:
        queue.insert("before")
        queue.tick()
        queue.register("c")
        queue.insert("after")
        queue.tick()

        assert queue.drain() == ["after"]

    def test_it_can_be_put_back_to_an_earlier_tick_and_then_has_no_batch(self, ready: Queue) -> None:
        start = ready.one("select sub_last_tick from pgque.subscription where sub_queue = %s", ready.id)
        assert len(ready.take()) == 10
        ready.insert("new")
        ready.tick()
        opened(ready)

        assert ready.one("select pgque.register_consumer_at(%s, 'c', %s)", ready.name, start) == 0
        assert len(ready.take()) == 10
        assert ready.take() == ["new"]
        error = ready.refused("select pgque.register_consumer_at(%s, 'c', 999)", ready.name)
        assert "cannot reposition, tick not found" in str(error)

    def test_who_is_not_subscribed_gets_nothing(self, queue: Queue) -> None:
        error = queue.refused("select pgque.next_batch(%s, 'stranger')", queue.name)
        assert f"Not subscriber to queue: {queue.name}/stranger" in str(error)

    def test_its_batch_dies_with_it(self, ready: Queue) -> None:
        batch = opened(ready)
        ready.rows("select pgque.unregister_consumer(%s, 'c')", ready.name)

        assert "batch not found" in str(ready.refused("select pgque.get_batch_events(%s)", batch))
        assert ready.finish(batch) == 0

    def test_the_view_has_the_columns_of_pgq_first(self, ready: Queue) -> None:
        batch = opened(ready)
        query = "select sub_last_tick, sub_batch, sub_next_tick from pgque.subscription where sub_queue = %s"
        assert ready.rows(query, ready.id) == [(1, batch, 2)]


class TestOpening:
    def test_there_is_no_batch_without_a_tick(self, queue: Queue) -> None:
        queue.register("c")
        queue.insert("a")
        assert queue.open() is None

    def test_a_batch_stays_open_until_it_is_finished(self, ready: Queue) -> None:
        batch = opened(ready)
        assert ready.open() == batch
        assert ready.finish(batch) == 1
        assert ready.open() is None
        assert ready.finish(batch) == 0

    def test_its_ticks_are_told(self, ready: Queue) -> None:
        query = """
            select batch_id is not null, cur_tick_id, prev_tick_id, cur_tick_event_seq > prev_tick_event_seq
            from pgque.next_batch_info(%s, 'c')
        """
        assert ready.rows(query, ready.name) == [(True, 2, 1, True)]
        [info] = ready.rows(
            "select queue_name, consumer_name, prev_tick_id, tick_id from pgque.get_batch_info(%s)", opened(ready)
        )
        assert info == (ready.name, "c", 1, 2)

    def test_it_can_be_asked_to_be_large(self, ready: Queue) -> None:
        ready.insert("later")
        ready.tick()
        last = ready.one("select max(tick_event_seq) from pgque.tick where tick_queue = %s", ready.id)
        query = "select batch_id, cur_tick_id from pgque.next_batch_custom(%s, 'c', null, %s, null)"

        assert ready.rows(query, ready.name, last + 1) == [(None, None)]
        [[batch, tick]] = ready.rows(query, ready.name, last)
        assert tick == 3
        assert len(ready.data(batch)) == 11

    def test_it_can_be_asked_to_be_old(self, ready: Queue) -> None:
        query = "select batch_id is null from pgque.next_batch_custom(%s, 'c', %s, null, null)"
        assert ready.one(query, ready.name, "1 hour")
        assert not ready.one(query, ready.name, "0")

    def test_a_second_session_waits_for_the_first(self, ready: Queue, other: Connection) -> None:
        """Nobody sees half of what the other does to the subscription."""
        other.execute("select pgque.next_batch(%s, 'c')", (ready.name,))
        ready.rows("select set_config('lock_timeout', '100ms', false)")
        assert ready.refused("select pgque.next_batch(%s, 'c')", ready.name).sqlstate == "55P03"

    def test_what_was_undone_did_not_happen(self, ready: Queue, other: Connection) -> None:
        [[batch]] = other.execute("select pgque.next_batch(%s, 'c')", (ready.name,)).fetchall()
        other.execute("select pgque.finish_batch(%s)", (batch,))
        other.rollback()

        assert len(ready.take()) == 10


class TestReading:
    def test_the_fields_come_as_they_were_given(self, queue: Queue) -> None:
        queue.register("c")
        queue.rows("select pgque.insert_event(%s, 't', 'd', '1', '2', '3', '4')", queue.name)
        queue.rows("select pgque.insert_event(%s, null, null)", queue.name)
        queue.tick()
        query = "select ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4 from {}(%s)"

        for name in ("pgque.get_batch_events", "pgque.batch_hand_out"):
            arguments = "%s, 100" if name.endswith("out") else "%s"
            rows = queue.rows(query.format(name).replace("%s", arguments), opened(queue))
            assert rows == [(None, "t", "d", "1", "2", "3", "4"), (None, None, None, None, None, None, None)]

    def test_a_cursor_gives_some_at_once_and_the_rest_later(self, ready: Queue) -> None:
        batch = opened(ready)
        with ready.connection.transaction():
            first = ready.rows("select ev_data from pgque.get_batch_cursor(%s, 'my cursor', 3)", batch)
            rest = ready.rows('fetch all from "my cursor"')
        assert [row[0] for row in first] == ["0", "1", "2"]
        assert len(rest) == 7

    def test_a_cursor_may_have_a_condition(self, ready: Queue) -> None:
        with ready.connection.transaction():
            query = "select ev_data from pgque.get_batch_cursor(%s, 'c', 100, $$ev_data in ('2', '5')$$)"
            assert ready.rows(query, opened(ready)) == [("2",), ("5",)]

    def test_events_past_their_time_are_left_out(self, queue: Queue) -> None:
        queue.register("c")
        queue.rows("select pgque.set_queue_config(%s, 'event_ttl', '1 hour')", queue.name)
        raw = (
            "select pgque.insert_event_raw(%s, null, now() - %s::interval, null, null, 't', %s, null, null, null, null)"
        )
        queue.rows(raw, queue.name, "2 hours", "old")
        queue.rows(raw, queue.name, "1 minute", "fresh")
        queue.tick()

        batch = opened(queue)
        assert queue.data(batch) == ["fresh"]
        assert piece(queue, batch, 1) == ["fresh"]


class TestPieces:
    def test_what_was_not_handed_out_is_not_finished(self, ready: Queue) -> None:
        found = []
        for _ in range(4):
            batch = opened(ready)
            found.append(piece(ready, batch, 3))
            assert acknowledge(ready, batch) == 1

        assert found == [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"], ["9"]]
        assert ready.open() is None

    def test_a_piece_comes_again_until_it_is_acknowledged(self, ready: Queue) -> None:
        batch = opened(ready)
        assert piece(ready, batch, 3) == piece(ready, batch, 3) == ["0", "1", "2"]
        assert piece(ready, batch, 100) == [str(number) for number in range(10)]
        assert acknowledge(ready, batch) == 1
        assert ready.open() is None

    def test_the_rest_has_another_id_so_the_old_one_is_worth_nothing(self, ready: Queue) -> None:
        batch = opened(ready)
        piece(ready, batch, 3)
        acknowledge(ready, batch)
        rest = opened(ready)

        assert rest != batch
        assert "batch not found" in str(ready.refused("select pgque.batch_acknowledge(%s)", batch))
        assert ready.data(rest) == [str(number) for number in range(3, 10)]

    def test_acknowledging_reaches_no_further_than_was_said_or_handed_out(self, ready: Queue) -> None:
        batch = opened(ready)
        ids = [row[0] for row in ready.rows("select ev_id from pgque.batch_hand_out(%s, 5)", batch)]
        assert acknowledge(ready, batch, ids[1]) == 1
        rest = opened(ready)
        assert acknowledge(ready, rest, ids[0]) == 0
        assert piece(ready, rest, 2) == ["2", "3"]
        assert acknowledge(ready, rest, ids[-1] + 100) == 1
        assert ready.data(opened(ready)) == ["4", "5", "6", "7", "8", "9"]

    def test_finishing_the_batch_skips_the_rest_as_in_pgq(self, ready: Queue) -> None:
        batch = opened(ready)
        piece(ready, batch, 3)
        assert ready.finish(batch) == 1
        assert ready.open() is None

    def test_as_many_as_there_are_is_all_of_them(self, ready: Queue) -> None:
        batch = opened(ready)
        assert len(piece(ready, batch, 10)) == 10
        assert acknowledge(ready, batch) == 1
        assert ready.open() is None

    def test_an_empty_batch_is_acknowledged_too(self, queue: Queue) -> None:
        queue.register("c")
        queue.tick()
        batch = opened(queue)
        assert piece(queue, batch, 5) == []
        assert acknowledge(queue, batch) == 1
        assert queue.open() is None

    def test_nothing_at_all_is_no_piece(self, ready: Queue) -> None:
        assert ready.refused("select pgque.batch_hand_out(%s, 0)", opened(ready)).sqlstate == "PS010"

    def test_an_event_and_its_retry_are_in_one_piece(self, ready: Queue) -> None:
        """Moved back, a consumer finds both in one batch, under the same id."""
        batch = opened(ready)
        [first, *_] = [row[0] for row in ready.rows("select ev_id from pgque.get_batch_events(%s)", batch)]
        ready.rows("select pgque.event_retry(%s, %s, 0)", batch, first)
        ready.finish(batch)
        ready.rows("select pgque.maint_retry_events()")
        ready.tick()
        ready.rows("select pgque.register_consumer_at(%s, 'c', 1)", ready.name)
        last = ready.one("select max(tick_event_seq) from pgque.tick where tick_queue = %s", ready.id)
        ready.rows("select * from pgque.next_batch_custom(%s, 'c', null, %s, null)", ready.name, last)

        found = []
        for _ in range(10):
            batch = opened(ready)
            found.append(piece(ready, batch, 1))
            acknowledge(ready, batch)
        assert found == [["0", "0"], *([str(number)] for number in range(1, 10))]

    def test_one_event_is_found_by_its_id(self, ready: Queue) -> None:
        batch = opened(ready)
        ids = [row[0] for row in ready.rows("select ev_id from pgque.batch_hand_out(%s, 5)", batch)]
        query = "select ev_data from pgque.batch_event(%s, %s)"

        assert ready.rows(query, batch, ids[4]) == [("4",)]
        assert ready.rows(query, batch, ids[4] + 1) == []
        acknowledge(ready, batch)
        assert ready.rows(query, opened(ready), ids[4]) == []


class TestRetries:
    def test_an_event_comes_back_to_the_one_who_asked_with_a_count(self, ready: Queue) -> None:
        ready.rows("select pgque.register_consumer_at(%s, 'other', 1)", ready.name)
        batch = opened(ready)
        event = ready.rows("select ev_id from pgque.get_batch_events(%s)", batch)[3][0]

        assert ready.one("select pgque.event_retry(%s, %s, 0)", batch, event) == 1
        assert ready.one("select pgque.event_retry(%s, %s, now())", batch, event) == 0
        ready.finish(batch)
        assert ready.one("select pgque.maint_retry_events()") >= 1
        ready.tick()
        batch = opened(ready)
        assert ready.rows("select ev_data, ev_retry from pgque.get_batch_events(%s)", batch) == [("3", 1)]
        assert ready.drain("other") == [str(number) for number in range(10)]

    def test_it_waits_until_its_time(self, ready: Queue) -> None:
        batch = opened(ready)
        event = ready.rows("select ev_id from pgque.get_batch_events(%s)", batch)[0][0]
        ready.rows("select pgque.event_retry(%s, %s, 3600)", batch, event)
        ready.finish(batch)
        ready.rows("select pgque.maint_retry_events()")
        assert ready.rows("select ev_id from pgque.retry_queue where ev_queue = %s", ready.id) == [(event,)]

    def test_a_whole_batch_comes_back(self, ready: Queue) -> None:
        batch = opened(ready)
        assert ready.one("select pgque.batch_retry(%s, 0)", batch) == 10
        assert ready.one("select pgque.batch_retry(%s, 0)", batch) == 0
        ready.finish(batch)
        ready.rows("select pgque.maint_retry_events()")
        ready.tick()
        assert len(ready.take()) == 10

    def test_what_is_not_in_the_batch_is_not_retried(self, ready: Queue) -> None:
        error = ready.refused("select pgque.event_retry(%s, 999999, 0)", opened(ready))
        assert "event not found" in str(error)

    def test_raw_retries_name_queue_and_consumer(self, queue: Queue) -> None:
        queue.register("c")
        query = "select pgque.event_retry_raw(%s, %s, now(), null, now(), 1, 't', 'd', null, null, null, null)"
        assert queue.one(query, queue.name, "c") == 1
        with pytest.raises(psycopg.Error, match="consumer not registered"):
            queue.rows(query, queue.name, "stranger")

    def test_retries_go_with_their_consumer(self, ready: Queue) -> None:
        ready.rows("select pgque.batch_retry(%s, 0)", opened(ready))
        ready.rows("select pgque.unregister_consumer(%s, 'c')", ready.name)
        assert ready.rows("select 1 from pgque.retry_queue where ev_queue = %s", ready.id) == []
