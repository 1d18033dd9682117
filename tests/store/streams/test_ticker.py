"""Ticks: when they are due, on demand, and one at a time."""

from __future__ import annotations

import psycopg
import pytest

from tests.store.streams.queue import Connection, Queue


def ticks(queue: Queue) -> int:
    found: int = queue.one("select count(*) from pgque.tick where tick_queue = %s", queue.id)
    return found


def ticker(queue: Queue) -> int | None:
    found: int | None = queue.one("select pgque.ticker(%s)", queue.name)
    return found


def on_demand(queue: Queue) -> int | None:
    found: int | None = queue.one("select pgque.tick_if_waiting(%s)", queue.name)
    return found


def age(queue: Queue, interval: str) -> None:
    """As if all ticks had been made so much earlier."""
    queue.connection.execute(
        "update pgque.tick set tick_time = tick_time - %s::interval where tick_queue = %s", (interval, queue.id)
    )


class TestPeriods:
    def test_few_new_events_wait_for_the_lag(self, queue: Queue) -> None:
        queue.insert("a")
        assert ticker(queue) is None
        age(queue, "3 seconds")
        assert ticker(queue) == 2

    def test_many_new_events_do_not_wait(self, queue: Queue) -> None:
        queue.rows("select pgque.set_queue_config(%s, 'ticker_max_count', '3')", queue.name)
        queue.insert("a", "b")
        assert ticker(queue) is None
        queue.insert("c")
        assert ticker(queue) == 2

    def test_an_idle_queue_ticks_ever_more_rarely(self, queue: Queue) -> None:
        gaps, waited = [], 0
        queue.tick()
        for _ in range(125):
            age(queue, "1 second")
            waited += 1
            if ticker(queue) is not None:
                gaps.append(waited)
                waited = 0
        assert gaps == sorted(gaps)
        assert 3 <= len(gaps) <= 7

    def test_the_idle_period_is_the_longest(self, queue: Queue) -> None:
        queue.tick()
        age(queue, "61 seconds")
        assert ticker(queue) is not None

    def test_forcing_makes_the_next_ticker_tick(self, queue: Queue) -> None:
        assert queue.one("select pgque.force_next_tick(%s)", queue.name) == 1
        assert ticker(queue) == 2
        assert queue.one("select pgque.force_tick(%s)", queue.name) == 2

    def test_all_queues_are_ticked_at_once(self, queue: Queue) -> None:
        queue.rows("select pgque.force_next_tick(%s)", queue.name)
        assert queue.one("select pgque.ticker()") >= 1
        assert ticks(queue) == 2


class TestPausing:
    def test_a_paused_queue_has_no_ticks(self, queue: Queue) -> None:
        queue.rows("select pgque.pause_queue(%s)", queue.name)
        queue.insert("a")

        assert "Ticker has been paused for this queue" in str(queue.refused("select pgque.ticker(%s)", queue.name))
        assert on_demand(queue) is None
        queue.rows("select pgque.ticker(), pgque.tick_waiting()")
        assert ticks(queue) == 1

        queue.rows("select pgque.resume_queue(%s)", queue.name)
        assert on_demand(queue) == 2

    def test_ticks_from_elsewhere_keep_their_numbers(self, queue: Queue) -> None:
        queue.rows("select pgque.set_queue_config(%s, 'external_ticker', 'true')", queue.name)
        assert "external tick source" in str(queue.refused("select pgque.ticker(%s)", queue.name))

        query = "select pgque.ticker(%s, %s, '2020-01-01', 5000)"
        assert queue.one(query, queue.name, 40) == 40
        assert queue.one("select pgque.seq_getval(%s)", f"pgque.event_{queue.id}_tick_seq") == 40
        assert queue.one("select pgque.seq_getval(%s)", f"pgque.event_{queue.id}_id_seq") == 5000
        assert queue.refused(query, queue.name, 40).sqlstate == "PS010"


class TestOnDemand:
    def test_there_is_a_tick_when_events_wait_and_none_otherwise(self, queue: Queue) -> None:
        assert on_demand(queue) is None
        queue.insert("a")
        assert on_demand(queue) == 2
        assert on_demand(queue) is None

    def test_an_event_that_commits_after_a_tick_is_noticed(self, queue: Queue, other: Connection) -> None:
        """Its number was drawn before the tick, so the sequence alone says nothing."""
        queue.register("c")
        queue.insert("late", on=other)
        assert on_demand(queue) == 2
        other.commit()

        assert on_demand(queue) == 3
        assert queue.drain() == ["late"]
        assert on_demand(queue) is None

    def test_so_is_one_whose_transaction_had_no_id_yet(self, queue: Queue, other: Connection) -> None:
        queue.register("c")
        query = f"select nextval('pgque.event_{queue.id}_id_seq')"
        [[number]] = other.execute(query.encode()).fetchall()
        assert on_demand(queue) == 2
        other.execute(
            "select pgque.insert_event_raw(%s, %s, now(), null, null, 't', 'late', null, null, null, null)",
            (queue.name, number),
        )
        other.commit()

        assert on_demand(queue) == 3
        assert queue.drain() == ["late"]

    def test_who_comes_second_leaves_it_to_the_first(self, queue: Queue, other: Connection) -> None:
        queue.insert("a")
        other.execute("select pgque.tick_if_waiting(%s)", (queue.name,))
        assert on_demand(queue) is None
        other.commit()
        assert on_demand(queue) is None
        assert ticks(queue) == 2

    def test_every_queue_that_waits_gets_one(self, queue: Queue) -> None:
        queue.insert("a")
        assert queue.one("select pgque.tick_waiting()") >= 1
        assert ticks(queue) == 2


class TestOrder:
    def test_a_second_ticker_waits_and_looks_after_the_first(self, queue: Queue, other: Connection) -> None:
        queue.insert("a")
        queue.rows("select pgque.force_next_tick(%s)", queue.name)
        other.execute("select pgque.ticker(%s)", (queue.name,))
        queue.rows("select set_config('lock_timeout', '100ms', false)")
        assert queue.refused("select pgque.ticker(%s)", queue.name).sqlstate == "55P03"
        other.commit()
        queue.tick()
        bounds = queue.rows(
            """
            select pg_snapshot_xmin(tick_snapshot)::text::bigint
            from pgque.tick
            where tick_queue = %s
            order by tick_id
            """,
            queue.id,
        )
        assert bounds == sorted(bounds)

    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    def test_an_old_snapshot_makes_no_tick(self, queue: Queue, other: Connection, level: str) -> None:
        queue.insert("a")
        other.execute(f"set transaction isolation level {level}".encode())
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            other.execute("select pgque.tick_if_waiting(%s)", (queue.name,))


class TestNotices:
    def test_a_tick_is_announced(self, queue: Queue, other: Connection) -> None:
        other.execute(f'listen "pgque_{queue.name}"'.encode())
        other.commit()
        tick = queue.tick()

        [notice] = list(other.notifies(timeout=5, stop_after=1))
        assert notice.payload == str(tick)

    def test_senders_announce_events_only_to_who_expects_them(self, queue: Queue, other: Connection) -> None:
        other.execute(f'listen "pgque_wake_{queue.name}"'.encode())
        other.commit()
        queue.insert("unheard")
        assert list(other.notifies(timeout=0.05)) == []

        queue.rows("select pgque.expect_events(%s)", queue.name)
        queue.insert("heard")
        [notice] = list(other.notifies(timeout=5, stop_after=1))
        assert notice.channel == f"pgque_wake_{queue.name}"
