"""A load is a table of events that a queue has from the moment it is published, like any others."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.store.streams.queue import Connection, Queue


def loaded(queue: Queue, *data: str, on: Connection | None = None) -> int:
    """Opened, filled and closed; not published."""
    session = on or queue.connection
    [[load, table]] = session.execute("select * from pgque.open_load(%s)", [queue.name]).fetchall()
    with session.cursor() as cursor, cursor.copy(f"copy {table} (ev_type, ev_data) from stdin".encode()) as copy:
        for each in data:
            copy.write_row(["type", each])
    assert session.execute("select pgque.close_load(%s)", [load]).fetchall() == [(len(data),)]
    found: int = load
    return found


def publish(queue: Queue, *loads: int, on: Connection | None = None) -> None:
    (on or queue.connection).execute("select pgque.publish_loads(%s, %s)", [queue.name, list(loads)])


def tables(queue: Queue) -> int:
    found: int = queue.one("select count(*) from pg_tables where tablename like %s", f"event_{queue.id}_load_%")
    return found


def turn(queue: Queue, *consumers: str) -> None:
    """All that is there is consumed, the tables turn, and what is over is dropped."""
    queue.tick()
    for consumer in consumers:
        queue.drain(consumer)
    queue.rotate()
    queue.rows("select pgque.maint_drop_loads()")


class TestBatches:
    def test_what_is_published_comes_once_to_every_consumer(self, queue: Queue) -> None:
        queue.register("c", "d")
        load = loaded(queue, "a", "b")
        queue.tick()
        assert queue.drain() == []

        publish(queue, load)
        queue.insert("c")
        queue.tick()

        assert queue.drain() == ["a", "b", "c"]
        assert queue.drain("d") == ["a", "b", "c"]
        queue.tick()
        assert queue.drain() == []

    def test_its_events_are_by_the_transaction_that_published_it(self, queue: Queue, other: Connection) -> None:
        queue.register("c")
        load = loaded(queue, "a", "b")
        publish(queue, load, on=other)
        [[published]] = other.execute("select pg_current_xact_id()").fetchall()
        other.commit()
        queue.tick()

        batch = queue.open()
        found = queue.rows("select distinct ev_txid from pgque.get_batch_events(%s)", batch)
        assert found == [(published,)]

    def test_one_that_is_committed_late_is_in_the_batch_of_its_commit(self, queue: Queue, other: Connection) -> None:
        queue.register("c")
        publish(queue, loaded(queue, "late", on=other), on=other)
        queue.insert("early")
        queue.tick()
        assert queue.drain() == ["early"]

        other.commit()
        queue.tick()
        assert queue.drain() == ["late"]

    def test_what_is_rolled_back_was_never_there(self, queue: Queue, other: Connection) -> None:
        queue.register("c")
        publish(queue, loaded(queue, "undone", on=other), on=other)
        other.rollback()
        queue.tick()

        assert queue.drain() == []
        assert tables(queue) == 0

    def test_the_ticker_notices_it_though_its_ids_are_old(self, queue: Queue) -> None:
        queue.register("c")
        load = loaded(queue, "a")
        queue.tick()
        publish(queue, load)

        queue.rows("select pgque.tick_if_waiting(%s)", queue.name)

        assert queue.drain() == ["a"]

    def test_it_is_handed_out_in_pieces_with_the_events_around_it(self, queue: Queue) -> None:
        queue.register("c")
        queue.insert("1")
        load = loaded(queue, *"2345")
        queue.insert("6")
        publish(queue, load)
        queue.tick()

        pieces = []
        for _ in range(10):
            batch = queue.open()
            if batch is None:
                break
            piece = queue.rows("select ev_data from pgque.batch_hand_out(%s, 4)", batch)
            pieces.append("".join(row[0] for row in piece))
            queue.rows("select pgque.batch_acknowledge(%s)", batch)
        assert pieces == ["1234", "56"]

    def test_an_event_of_it_can_be_retried(self, queue: Queue) -> None:
        queue.register("c")
        publish(queue, loaded(queue, "a", "b"))
        queue.tick()
        batch = queue.open()
        assert batch is not None
        [[first], _] = queue.rows("select ev_id from pgque.get_batch_events(%s)", batch)
        assert queue.one("select pgque.event_retry(%s, %s, 0)", batch, first) == 1
        queue.finish(batch)

        queue.rows("select pgque.maint_retry_events()")
        queue.tick()
        assert queue.drain() == ["a"]

    def test_several_are_published_together(self, queue: Queue) -> None:
        queue.register("c")
        loads = [loaded(queue, "a"), loaded(queue), loaded(queue, "b")]
        publish(queue, *loads)
        queue.tick()

        assert queue.take() == ["a", "b"]

    def test_a_load_is_read_by_its_own_batch_alone(self, queue: Queue) -> None:
        queue.register("c")
        publish(queue, loaded(queue, "a"))
        queue.tick()
        queue.insert("b")
        queue.tick()
        queue.take()

        batch = queue.open()
        assert queue.rows("select (pgque.open_batch(%s)).loads", batch) == [([],)]

    def test_its_events_are_of_the_time_when_it_was_published(self, queue: Queue) -> None:
        """Or those of a queue that keeps events for a while would be too old before anybody could have them."""
        queue.register("c")
        queue.rows("select pgque.set_queue_config(%s, 'event_ttl', '1 hour')", queue.name)
        load = loaded(queue, "a")
        table = f"pgque.event_{queue.id}_load_{load}"
        queue.connection.execute(f"update {table} set ev_time = now() - interval '2 hours'".encode())
        publish(queue, load)
        queue.tick()

        batch = queue.open()
        found = queue.rows("select ev_data, now() - ev_time < '1 minute' from pgque.get_batch_events(%s)", batch)
        assert found == [("a", True)]

    @pytest.mark.parametrize("size", [1, 3, 7, 100])
    def test_many_are_handed_out_in_the_order_of_their_ids(self, queue: Queue, size: int) -> None:
        queue.register("c")
        loads, expected = [], []
        for number in range(12):
            loads.append(loaded(queue, *(f"{number}:{each}" for each in range(number % 4))))
            expected += [f"{number}:{each}" for each in range(number % 4)]
            if number % 3 == 0:
                queue.insert(f"{number} single")
                expected.append(f"{number} single")
        publish(queue, *loads)
        queue.tick()

        found: list[str] = []
        for _ in range(100):
            batch = queue.open()
            if batch is None:
                break
            piece = [row[0] for row in queue.rows("select ev_data from pgque.batch_hand_out(%s, %s)", batch, size)]
            assert len(piece) <= size
            found += piece
            queue.rows("select pgque.batch_acknowledge(%s)", batch)
        assert found == expected

    def test_a_piece_looks_only_into_those_it_may_come_from(self, queue: Queue) -> None:
        queue.register("c")
        publish(queue, *(loaded(queue, *"abcde") for _ in range(10)))
        queue.tick()
        query = (
            "select cardinality(pgque.loads_between(b, 0, pgque.within_loads(b, %s))) from pgque.open_batch(%s) as b"
        )

        assert [queue.one(query, size, queue.open()) for size in (1, 5, 6, 20, 50, 51)] == [1, 1, 2, 4, 10, 10]

    def test_the_consumer_of_a_part_gets_what_is_his(self, queue: Queue) -> None:
        queue.rows("select pgque.subscribe_partitioned(%s, 'p', 2)", queue.name)
        loads = [loaded(queue, *(f"{number}{each}" for each in "abc")) for number in range(3)]
        for number, load in enumerate(loads):
            keyed = f"update pgque.event_{queue.id}_load_{load} set ev_extra4 = 'key {number}'"
            queue.connection.execute(keyed.encode())
        publish(queue, *loads)
        queue.tick()

        members = queue.rows("select consumer_name from pgque.get_consumer_info(%s)", queue.name)
        found = [queue.drain(name) for [name] in members]
        everything = [f"{number}{each}" for number in range(3) for each in "abc"]
        assert sorted(each for some in found for each in some) == everything
        assert [len(some) % 3 for some in found] == [0, 0]

    def test_a_queue_with_one_to_come_is_not_empty(self, queue: Queue) -> None:
        queue.register("c")
        assert queue.one("select pgque.assert_empty(%s)", queue.name) is True
        publish(queue, loaded(queue, "a"))

        assert "1 events for c" in str(queue.refused("select pgque.assert_empty(%s)", queue.name))
        queue.tick()
        assert "1 events for c" in str(queue.refused("select pgque.assert_empty(%s)", queue.name))
        queue.drain()
        assert queue.one("select pgque.assert_empty(%s)", queue.name) is True


class TestRotation:
    def test_it_stays_while_somebody_needs_it_and_is_dropped_with_its_time(self, queue: Queue) -> None:
        queue.register("c", "slow")
        publish(queue, loaded(queue, "a"))
        for _ in range(4):
            turn(queue, "c")
        assert tables(queue) == 1

        assert queue.drain("slow") == ["a"]
        for _ in range(3):
            turn(queue, "c", "slow")
        assert tables(queue) == 0
        assert queue.rows("select * from pgque.load where load_queue = %s", queue.id) == []

    def test_it_stays_a_rotation_longer_for_readers_that_are_no_consumers(self, queue: Queue) -> None:
        publish(queue, loaded(queue, "a"))
        for _ in range(3):
            queue.tick()
            queue.rotate()
        queue.rows("select pgque.set_queue_config(%s, 'rotation_period', '1 hour')", queue.name)
        queue.rows("select pgque.maint_drop_loads()")
        assert tables(queue) == 1

        queue.rows("update pgque.load set load_over = load_over - interval '61 minutes' returning load_id")
        queue.rows("select pgque.maint_drop_loads()")
        assert tables(queue) == 0

    def test_one_that_is_read_is_left(self, queue: Queue, other: Connection) -> None:
        load = loaded(queue, "a")
        publish(queue, load)
        other.execute(f"select from pgque.event_{queue.id}_load_{load}".encode())
        for _ in range(3):
            turn(queue)
        assert tables(queue) == 1

        other.rollback()
        turn(queue)
        assert tables(queue) == 0

    def test_an_open_load_keeps_no_table_from_turning(self, queue: Queue, other: Connection) -> None:
        loaded(queue, "a", on=other)

        assert [queue.rotate() for _ in range(5)] == [1, 2, 0, 1, 2]

    def test_one_that_is_published_late_outlives_the_rotations_before(self, queue: Queue, other: Connection) -> None:
        queue.register("c")
        load = loaded(queue, "a")
        publish(queue, load, on=other)
        for _ in range(4):
            turn(queue, "c")
        other.commit()
        queue.tick()

        assert queue.drain() == ["a"]


class TestLeavings:
    def test_what_is_not_published_can_be_discarded(self, queue: Queue) -> None:
        queue.register("c")
        first, second = loaded(queue, "a"), loaded(queue, "b")
        publish(queue, second)

        assert queue.one("select pgque.discard_loads(%s)", [first, second]) == 1

        queue.tick()
        assert queue.drain() == ["b"]
        assert tables(queue) == 1

    def test_and_is_dropped_after_a_day(self, own_queue: Queue) -> None:
        own_queue.register("c")
        loaded(own_queue, "forgotten")
        publish(own_queue, loaded(own_queue, "published"))
        own_queue.rows("select pgque.maint()")
        assert tables(own_queue) == 2

        own_queue.rows("update pgque.load set load_time = now() - interval '25 hours' returning load_id")
        own_queue.rows("select pgque.maint()")
        assert tables(own_queue) == 1
        own_queue.tick()
        assert own_queue.drain() == ["published"]

    def test_the_day_begins_when_it_is_closed(self, queue: Queue) -> None:
        [[load, _]] = queue.rows("select * from pgque.open_load(%s)", queue.name)
        queue.rows("update pgque.load set load_time = now() - interval '25 hours' where load_id = %s returning 1", load)
        queue.rows("select pgque.close_load(%s)", load)
        queue.rows("select pgque.maint_drop_loads()")

        publish(queue, load)

    def test_one_that_somebody_fills_or_closes_or_publishes_is_left(self, queue: Queue, other: Connection) -> None:
        [[load, table]] = queue.rows("select * from pgque.open_load(%s)", queue.name)
        other.execute(f"insert into {table} (ev_data) values ('a')".encode())
        assert queue.one("select pgque.discard_loads(%s)", [load]) == 0
        other.execute("select pgque.close_load(%s)", [load])
        assert queue.one("select pgque.discard_loads(%s)", [load]) == 0
        publish(queue, load, on=other)
        assert queue.one("select pgque.discard_loads(%s)", [load]) == 0

        other.rollback()
        assert queue.one("select pgque.discard_loads(%s)", [load]) == 1

    def test_many_are_dropped_some_at_a_time(self, own_queue: Queue) -> None:
        """Each table takes locks, of which a server has a limited number."""
        opened = own_queue.rows("select (pgque.open_load(%s)).load_id from generate_series(1, 130)", own_queue.name)
        own_queue.rows("select pgque.close_load(l) from unnest(%s::bigint[]) as l", [load for [load] in opened])
        own_queue.rows("select pgque.drop_queue(%s)", own_queue.name)

        assert [own_queue.one("select pgque.maint_drop_loads()") for _ in range(3)] == [100, 30, 0]
        assert tables(own_queue) == 0

    def test_one_whose_table_was_dropped_by_hand_is_in_nobodys_way(self, queue: Queue) -> None:
        load = loaded(queue, "a")
        queue.connection.execute(f"drop table pgque.event_{queue.id}_load_{load}".encode())

        assert queue.one("select pgque.discard_loads(%s)", [load]) == 1

    def test_a_queue_is_dropped_at_once_and_its_loads_by_maintenance(self, queue: Queue) -> None:
        queue.rows("select pgque.open_load(%s)", queue.name)
        loaded(queue, "a")
        publish(queue, loaded(queue, "b"))

        queue.rows("select pgque.drop_queue(%s)", queue.name)
        queue.rows("select pgque.maint_drop_loads()")

        assert tables(queue) == 0

    def test_a_queue_is_dropped_after_the_load_that_somebody_is_filling(
        self, queue: Queue, other: Connection, streams_dsn: str
    ) -> None:
        load = loaded(queue, "a", on=other)
        with psycopg.connect(streams_dsn, autocommit=True) as third:
            dropping = threading.Thread(
                target=third.execute, args=("select pgque.drop_queue(%s)", [queue.name]), daemon=True
            )
            dropping.start()
            waiting = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
            for _ in range(1000):
                if queue.one(waiting, third.info.backend_pid) == 1:
                    break
                queue.rows("select pg_sleep(0.01)")
            else:
                pytest.fail("it does not wait")
            other.commit()
            dropping.join(30)
            assert not dropping.is_alive()
        queue.rows("select pgque.maint_drop_loads()")

        assert tables(queue) == 0
        assert queue.rows("select 1 from pgque.load where load_id = %s", load) == []


class TestRules:
    def test_only_a_closed_load_is_published_and_only_once(self, queue: Queue) -> None:
        [[opened, _]] = queue.rows("select * from pgque.open_load(%s)", queue.name)
        query = "select pgque.publish_loads(%s, %s)"
        assert queue.refused(query, queue.name, [opened]).sqlstate == "PS030"

        load = loaded(queue, "a")
        publish(queue, load)
        assert queue.refused(query, queue.name, [load]).sqlstate == "PS030"

    def test_a_load_belongs_to_its_queue(self, queue: Queue) -> None:
        load = loaded(queue, "a")
        queue.rows("select pgque.create_queue(%s)", f"{queue.name}-other")

        assert queue.refused("select pgque.publish_loads(%s, %s)", f"{queue.name}-other", [load]).sqlstate == "PS030"

    def test_a_load_is_closed_once(self, queue: Queue) -> None:
        load = loaded(queue, "a")

        assert queue.refused("select pgque.close_load(%s)", load).sqlstate == "PS030"
        assert queue.refused("select pgque.close_load(%s)", 0).sqlstate == "PS030"

    def test_a_queue_that_takes_no_events_takes_no_loads(self, queue: Queue) -> None:
        load = loaded(queue, "a")
        queue.rows("select pgque.set_queue_config(%s, 'disable_insert', 'true')", queue.name)

        assert queue.refused("select pgque.open_load(%s)", queue.name).sqlstate == "PS030"
        assert queue.refused("select pgque.publish_loads(%s, %s)", queue.name, [load]).sqlstate == "PS030"

    def test_there_must_be_such_a_queue(self, queue: Queue) -> None:
        assert queue.refused("select pgque.open_load('nowhere')").sqlstate == "PS029"
