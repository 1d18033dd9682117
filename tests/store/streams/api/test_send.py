"""Sending: overloads, batches, extras, keys and delays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.store.streams.calls import Api, api_of

JSON = '{"b": 1, "a": {"c":2}}'
CANONICAL = '{"a": {"c": 2}, "b": 1}'


@pytest.fixture
def api(streams_dsn: str) -> Iterator[Api]:
    with api_of(streams_dsn, "app") as api:
        yield api


def waiting_for_lock(api: Api, process: int) -> bool:
    found: bool = api.one(
        "select coalesce(wait_event_type = 'Lock', false) from pg_stat_activity where pid = %s", process
    )
    return found


class TestPayloads:
    def test_an_untyped_literal_is_text_and_kept_to_the_byte(self, api: Api) -> None:
        api.run(f"select pgque.send('{api.queue}', '{JSON}')")
        api.run(f"select pgque.send('{api.queue}', 'kind', '{JSON}')")

        assert [event[:2] for event in api.stored()] == [("default", JSON), ("kind", JSON)]

    def test_jsonb_is_checked_and_rewritten(self, api: Api) -> None:
        api.run(f"select pgque.send('{api.queue}', '{JSON}'::jsonb)")
        api.run(f"select pgque.send('{api.queue}', 'kind', '{JSON}'::jsonb)")

        assert [event[:2] for event in api.stored()] == [("default", CANONICAL), ("kind", CANONICAL)]
        assert api.refused(f"select pgque.send('{api.queue}', '{{nope'::jsonb)").sqlstate == "22P02"

    def test_text_need_not_be_json(self, api: Api) -> None:
        api.send("<order/>")

        assert api.stored()[0][1] == "<order/>"

    def test_extras_travel_along(self, api: Api) -> None:
        api.rows("select pgque.send(%s, 'kind', 'text', 'one', 'two', 'three', 'four')", api.queue)
        api.rows("select pgque.send(%s, 'kind', '1'::jsonb, 'one', i_extra4 => 'four')", api.queue)
        api.tick()

        assert [message[6:] for message in api.receive()] == [
            ("one", "two", "three", "four"),
            ("one", None, None, "four"),
        ]

    def test_an_unknown_queue_is_an_error_clients_know(self, api: Api) -> None:
        error = api.refused("select pgque.send('nowhere', 'a')")

        assert error.diag.message_primary == "queue not found: nowhere"
        assert error.sqlstate == "PS029"


class TestBatches:
    @pytest.mark.parametrize("type", ["text[]", "jsonb[]"])
    def test_ids_come_in_the_order_of_the_payloads(self, api: Api, type: str) -> None:
        payloads = [str(number) for number in range(500)]
        ids = api.one(f"select pgque.send_batch(%s, 'kind', %s::{type})", api.queue, payloads)
        api.tick()

        received = api.receive(most=1000)
        assert ids == sorted(ids)
        assert [(message.msg_id, message.payload) for message in received] == list(zip(ids, payloads, strict=True))

    def test_an_untyped_array_is_text(self, api: Api) -> None:
        api.run(f"select pgque.send_batch('{api.queue}', 'kind', array['{JSON}', 'x'])")

        assert [event[1] for event in api.stored()] == [JSON, "x"]

    def test_nothing_to_send(self, api: Api) -> None:
        assert api.one("select pgque.send_batch(%s, 'kind', '{}'::text[])", api.queue) == []

    def test_a_batch_is_sent_as_a_whole_or_not_at_all(self, api: Api) -> None:
        with api.connection.transaction(force_rollback=True):
            api.rows("select pgque.send_batch(%s, 'kind', '{a,b}'::text[])", api.queue)

        assert api.stored() == []


class TestOnce:
    def once(self, api: Api, key: str, payload: str = "a", within: str = "1 hour") -> int:
        found: int = api.one("select pgque.send_once(%s, 'kind', %s::text, %s, %s)", api.queue, payload, key, within)
        return found

    def test_a_repeated_key_answers_the_first_event_and_sends_nothing(self, api: Api) -> None:
        first = self.once(api, "k", "first")

        assert self.once(api, "k", "second") == first
        assert self.once(api, "other", "third") != first
        assert [event[1] for event in api.stored()] == ["first", "third"]

    def test_keys_belong_to_their_queue(self, api: Api, streams_dsn: str) -> None:
        self.once(api, "k")
        with api_of(streams_dsn) as other:
            self.once(other, "k")

            assert len(other.stored()) == 1

    def test_the_id_is_the_one_that_is_received(self, api: Api) -> None:
        first = self.once(api, "k")
        api.tick()

        assert [message.msg_id for message in api.receive()] == [first]

    def test_after_its_window_a_key_can_be_used_again(self, api: Api) -> None:
        first = self.once(api, "k", within="0")

        assert self.once(api, "k") != first
        assert len(api.stored()) == 2

    def test_a_key_of_a_transaction_that_failed_is_free(self, api: Api) -> None:
        with api.connection.transaction(force_rollback=True):
            self.once(api, "k")
        self.once(api, "k")

        assert len(api.stored()) == 1

    def test_maintenance_forgets_keys_whose_window_is_over(self, api: Api) -> None:
        self.once(api, "old", within="0")
        self.once(api, "new")
        api.rows("select pgque.maint_expire_keys()")

        keys = "select sk_key from pgque.send_keys join pgque.queue on queue_id = sk_queue where queue_name = %s"
        assert api.rows(keys, api.queue) == [("new",)]

    def test_two_at_once_send_one_event(self, api: Api) -> None:
        with psycopg.connect(api.dsn) as slow, ThreadPoolExecutor(1) as pool:
            [first] = slow.execute("select pgque.send_once(%s, 'kind', 'a'::text, 'k')", [api.queue]).fetchone() or [0]
            with psycopg.connect(api.dsn, autocommit=True) as fast:
                second = pool.submit(self.once, Api(api.dsn, fast, api.queue), "k")
                give_up = datetime.now(UTC) + timedelta(seconds=20)
                while not waiting_for_lock(api, fast.info.backend_pid):
                    assert datetime.now(UTC) < give_up
                slow.commit()

                assert second.result(timeout=20) == first
        assert len(api.stored()) == 1

    def test_many_at_once_send_one_event(self, api: Api) -> None:
        ready = threading.Barrier(4, timeout=20)

        def send() -> list[int]:
            with psycopg.connect(api.dsn, autocommit=True) as connection:
                ready.wait()
                return [self.once(Api(api.dsn, connection, api.queue), f"k{number}") for number in range(25)]

        with ThreadPoolExecutor(4) as pool:
            answers = [each.result(timeout=40) for each in [pool.submit(send) for _ in range(4)]]

        assert [answers[0]] * 4 == answers
        assert len(api.stored()) == 25

    @pytest.mark.parametrize(
        ("key", "within"), [("", "1 hour"), ("x" * 201, "1 hour"), ("k", "-1 second"), ("k", "31 days")]
    )
    def test_bounds(self, api: Api, key: str, within: str) -> None:
        error = api.refused("select pgque.send_once(%s, 'kind', 'a'::text, %s, %s)", api.queue, key, within)

        assert error.sqlstate == "22023"


class TestDelays:
    def at(self, api: Api, delay: str, payload: str = "a") -> int:
        found: int = api.one(
            "select pgque.send_at(%s, 'kind', %s::text, now() + %s::interval, '1', '2', '3', '4')",
            *(api.queue, payload, delay),
        )
        return found

    def due(self, api: Api) -> None:
        """As if the time had passed."""
        api.run("update pgque.delayed_events set de_deliver_at = now() where de_queue_name = %s", api.queue)

    def test_a_moment_that_has_passed_sends_at_once(self, api: Api) -> None:
        event = self.at(api, "-1 second")
        api.tick()

        assert [message.msg_id for message in api.receive()] == [event]

    def test_until_it_is_due_an_event_is_not_there(self, api: Api) -> None:
        self.at(api, "1 hour")
        api.rows("select pgque.maint_deliver_delayed()")
        api.tick()

        assert api.receive() == []

    def test_then_it_is_with_all_it_had(self, api: Api) -> None:
        self.at(api, "1 hour")
        self.due(api)
        api.rows("select pgque.maint_deliver_delayed()")
        api.tick()

        [message] = api.receive()
        assert (message.type, message.payload, *message[6:]) == ("kind", "a", "1", "2", "3", "4")
        assert api.one("select count(*) from pgque.delayed_events where de_queue_name = %s", api.queue) == 0

    def test_they_come_in_the_order_they_were_due(self, api: Api) -> None:
        for delay in (3, 1, 2):
            self.at(api, f"{delay} hours", str(delay))
        api.run("update pgque.delayed_events set de_deliver_at = de_deliver_at - interval '1 day'")
        api.rows("select pgque.maint_deliver_delayed()")
        api.tick()

        assert [message.payload for message in api.receive()] == ["1", "2", "3"]

    def test_maintenance_delivers_them_too(self, api: Api) -> None:
        self.at(api, "1 hour")
        self.due(api)
        api.rows("select pgque.maint()")
        api.tick()

        assert len(api.receive()) == 1

    def test_those_of_a_dropped_queue_stop_nobody(self, api: Api, streams_dsn: str) -> None:
        with api_of(streams_dsn) as gone:
            self.at(gone, "1 hour")
            gone.rows("select pgque.drop_queue(%s, true)", gone.queue)
            self.at(api, "1 hour")
            self.due(gone)
            self.due(api)
        api.rows("select pgque.maint_deliver_delayed()")

        assert len(api.stored()) == 1
        assert api.one("select count(*) from pgque.delayed_events where de_deliver_at <= now()") == 0

    def test_those_of_a_closed_queue_wait(self, api: Api) -> None:
        self.at(api, "1 hour")
        self.due(api)
        api.rows("select pgque.set_queue_config(%s, 'disable_insert', 'true')", api.queue)
        api.rows("select pgque.maint_deliver_delayed()")
        before = len(api.stored())
        api.rows("select pgque.set_queue_config(%s, 'disable_insert', 'false')", api.queue)
        api.rows("select pgque.maint_deliver_delayed()")

        assert (before, len(api.stored())) == (0, 1)

    def test_an_unknown_queue_is_told_at_once(self, api: Api) -> None:
        error = api.refused("select pgque.send_at('nowhere', 'kind', 'a'::text, now() + interval '1 hour')")

        assert error.sqlstate == "PS029"

    def test_json_and_untyped_literals(self, api: Api) -> None:
        api.run(f"select pgque.send_at('{api.queue}', 'kind', '{JSON}', now())")
        api.run(f"select pgque.send_at('{api.queue}', 'kind', '{JSON}'::jsonb, now())")

        assert [event[1] for event in api.stored()] == [JSON, CANONICAL]
