"""Cooperative consumers share one place; partitioned ones keep the order of each key."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.store.streams.queue import Connection, Queue


def member(queue: Queue, name: str, dead: str | None = None) -> int | None:
    found: int | None = queue.one("select pgque.next_batch(%s, 'group', %s, %s::interval)", queue.name, name, dead)
    return found


@pytest.fixture
def group(queue: Queue) -> Queue:
    """Two members, and four batches of one event each."""
    for name in ("one", "two"):
        queue.one("select pgque.subscribe_subconsumer(%s, 'group', %s)", queue.name, name)
    for number in range(4):
        queue.insert(str(number))
        queue.tick()
    return queue


class TestGroups:
    def test_members_are_registered_once(self, queue: Queue) -> None:
        query = "select pgque.subscribe_subconsumer(%s, 'group', 'one')"
        assert [queue.one(query, queue.name) for _ in range(2)] == [1, 0]

    def test_each_has_a_batch_of_its_own(self, group: Queue) -> None:
        first, second = member(group, "one"), member(group, "two")
        assert first is not None
        assert second is not None
        assert (group.data(first), group.data(second)) == (["0"], ["1"])
        assert member(group, "one") == first
        assert group.finish(first) == 1
        third = member(group, "one")
        assert third is not None
        assert group.data(third) == ["2"]

    def test_together_they_get_everything_once(self, group: Queue) -> None:
        found = []
        for number in range(20):
            batch = member(group, ("one", "two", "three")[number % 3])
            if batch is None:
                break
            found += group.data(batch)
            group.finish(batch)
        assert found == ["0", "1", "2", "3"]
        assert member(group, "one") is None

    def test_whoever_asks_for_work_becomes_a_member(self, queue: Queue) -> None:
        assert member(queue, "new") is None
        queue.insert("a")
        queue.tick()
        batch = member(queue, "new")
        assert batch is not None
        assert queue.data(batch) == ["a"]

    def test_an_ordinary_consumer_is_converted_only_on_request_and_without_a_batch(self, queue: Queue) -> None:
        queue.register("group")
        queue.insert("a")
        queue.tick()
        queue.insert("b")
        queue.tick()
        assert "not cooperative" in str(queue.refused("select pgque.next_batch(%s, 'group', 'one')", queue.name))
        batch = queue.open("group")
        assert batch is not None
        query = "select pgque.subscribe_subconsumer(%s, 'group', 'one')"
        assert "open batch" in str(queue.refused(query, queue.name))
        queue.finish(batch)
        assert queue.one(query, queue.name) == 1
        batch = member(queue, "one")
        assert batch is not None
        assert queue.data(batch) == ["b"]

    def test_the_group_itself_has_no_batches(self, group: Queue) -> None:
        error = group.refused("select pgque.next_batch(%s, 'group')", group.name)
        assert "cooperative" in str(error)

    def test_open_batches_of_members_block_the_rotation(self, group: Queue) -> None:
        batch = member(group, "one")
        assert batch is not None
        while (done := member(group, "two")) is not None:
            group.finish(done)
        for _ in range(3):
            group.rotate()
        assert group.data(batch) == ["0"]

    def test_retries_go_to_the_group(self, group: Queue) -> None:
        batch = member(group, "one")
        group.rows("select pgque.batch_retry(%s, 0)", batch)
        group.rows("select pgque.finish_batch(%s)", batch)
        group.rows("select pgque.maint_retry_events()")
        group.tick()
        found = []
        while (batch := member(group, "two")) is not None:
            found += group.data(batch)
            group.finish(batch)
        assert found == ["1", "2", "3", "0"]


class TestTakeover:
    def age(self, queue: Queue, interval: str) -> None:
        for number in range(3):
            queue.connection.execute(
                f"""
                update pgque.progress_{number} as p
                set sub_active = sub_active - %s::interval
                from pgque.subscriber as s
                where s.sub_member = p.sub_member and s.sub_queue = %s
                """.encode(),
                (interval, queue.id),
            )

    def test_a_dead_members_batch_goes_to_another_under_a_new_id(self, group: Queue) -> None:
        old = member(group, "one")
        assert old is not None
        self.age(group, "10 minutes")
        taken = member(group, "two", "5 minutes")

        assert taken is not None
        assert taken != old
        assert group.data(taken) == ["0"]
        assert group.finish(old) == 0
        for query in (
            "select pgque.get_batch_events(%s)",
            "select pgque.batch_acknowledge(%s)",
            "select pgque.batch_retry(%s, 0)",
            "select pgque.event_retry(%s, 1, 0)",
        ):
            assert "batch not found" in str(group.refused(query, old))
        assert group.finish(taken) == 1

    def test_what_it_had_acknowledged_stays_acknowledged(self, queue: Queue) -> None:
        member(queue, "one")
        queue.insert("a", "b", "c")
        queue.tick()
        batch = member(queue, "one")
        queue.rows("select pgque.batch_hand_out(%s, 1)", batch)
        queue.rows("select pgque.batch_acknowledge(%s)", batch)
        self.age(queue, "10 minutes")
        taken = member(queue, "two", "5 minutes")
        assert taken is not None
        assert queue.data(taken) == ["b", "c"]

    def test_a_sign_of_life_is_enough(self, group: Queue) -> None:
        batch = member(group, "one")
        self.age(group, "10 minutes")
        assert group.one("select pgque.touch_subconsumer(%s, 'group', 'one')", group.name) == 1
        other = member(group, "two", "5 minutes")
        assert other is not None
        assert group.data(other) == ["1"]
        assert member(group, "one") == batch
        assert group.one("select pgque.touch_subconsumer(%s, 'group', 'nobody')", group.name) == 0

    def test_a_member_at_work_in_a_transaction_is_alive(self, group: Queue, other: Connection) -> None:
        batch = member(group, "one")
        self.age(group, "10 minutes")
        other.execute("select pgque.finish_batch(%s)", (batch,))
        taken = member(group, "two", "5 minutes")
        assert taken is not None
        assert group.data(taken) == ["1"]


class TestLeaving:
    def test_a_member_without_a_batch_leaves(self, group: Queue) -> None:
        query = "select pgque.unsubscribe_subconsumer(%s, 'group', 'one')"
        assert [group.one(query, group.name) for _ in range(2)] == [1, 0]

    def test_with_a_batch_it_must_say_what_becomes_of_it(self, group: Queue) -> None:
        member(group, "one")
        query = "select pgque.unsubscribe_subconsumer(%s, 'group', 'one', %s)"
        assert "open batch" in str(group.refused(query, group.name, 0))
        assert group.one(query, group.name, 1) == 1
        group.rows("select pgque.maint_retry_events()")
        group.tick()
        found = []
        while (batch := member(group, "two")) is not None:
            found += group.data(batch)
            group.finish(batch)
        assert sorted(found) == ["0", "1", "2", "3"]

    def test_the_whole_group_leaves_at_once(self, group: Queue) -> None:
        assert group.one("select pgque.unregister_consumer(%s, 'group')", group.name) == 3
        assert group.rows("select 1 from pgque.subscription where sub_queue = %s", group.id) == []


class TestPartitions:
    @pytest.fixture
    def keyed(self, queue: Queue) -> Queue:
        assert queue.one("select pgque.subscribe_partitioned(%s, 'parts', 3)", queue.name) == 1
        for number in range(60):
            query = "select pgque.insert_event(%s, 'type', %s, null, null, null, %s)"
            queue.rows(query, queue.name, str(number), f"key {number % 10}")
            if number % 7 == 0:
                queue.tick()
        queue.insert("without a key")
        queue.tick()
        return queue

    def test_every_event_is_in_one_part_and_a_key_in_one_only(self, keyed: Queue) -> None:
        parts = [keyed.drain(f"parts#{part}") for part in range(3)]
        assert sorted(chain(*parts)) == sorted([*(str(number) for number in range(60)), "without a key"])
        assert all(parts)
        for key in range(10):
            holders = {part for part, found in enumerate(parts) for data in found if data[-1] == str(key)}
            assert len(holders) == 1

    def test_the_events_of_a_key_are_in_order(self, keyed: Queue) -> None:
        for part in range(3):
            numbers = [int(data) for data in keyed.drain(f"parts#{part}") if data.isdigit()]
            for key in range(10):
                of_key = [number for number in numbers if number % 10 == key]
                assert of_key == sorted(of_key)

    def test_pieces_keep_to_the_part(self, keyed: Queue) -> None:
        whole = keyed.drain("parts#1")
        keyed.rows("select pgque.register_consumer_at(%s, 'parts#1', 1)", keyed.name)
        found = []
        while (batch := keyed.open("parts#1")) is not None:
            found += [row[0] for row in keyed.rows("select ev_data from pgque.batch_hand_out(%s, 2)", batch)]
            keyed.rows("select pgque.batch_acknowledge(%s)", batch)
        assert found == whole

    def test_a_part_is_claimed_by_one_worker_at_a_time(self, keyed: Queue, other: Connection) -> None:
        query = "select pgque.claim_part(%s, 'parts')"
        held = {other.execute(query, (keyed.name,)).fetchall()[0][0] for _ in range(2)}
        with keyed.connection.transaction():
            free = keyed.one(query, keyed.name)
        assert free not in held
        for part in range(3):
            if f"parts#{part}" not in held:
                keyed.drain(f"parts#{part}")
        other.rollback()
        for part in range(3):
            keyed.drain(f"parts#{part}")
        assert keyed.one(query, keyed.name) is None

    def test_the_number_of_parts_stays(self, keyed: Queue) -> None:
        query = "select pgque.subscribe_partitioned(%s, 'parts', %s)"
        assert keyed.one(query, keyed.name, 3) == 0
        assert keyed.refused(query, keyed.name, 4).sqlstate == "PS030"
        assert keyed.one("select pgque.unsubscribe_partitioned(%s, 'parts')", keyed.name) == 1
        assert keyed.one(query, keyed.name, 4) == 1
