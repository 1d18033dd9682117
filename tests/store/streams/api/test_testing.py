"""The helpers for tests of those who use queues."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.store.streams.calls import Api, api_of

FAILED = "P0004"


@pytest.fixture
def api(streams_dsn: str) -> Iterator[Api]:
    with api_of(streams_dsn, "app") as api:
        yield api


def test_what_was_sent_is_consumed_in_one_call_each(api: Api) -> None:
    first = api.one("""select pgque.test_send(%s, '{"n": 1}')""", api.queue)
    second = api.one("""select pgque.test_send(%s, '{"n": 2}')""", api.queue)

    consume = "select msg_id, payload from pgque.test_consume(%s, 'app', 'test')"
    assert api.rows(consume, api.queue) == [(first, '{"n": 1}')]
    assert api.rows(consume, api.queue) == [(second, '{"n": 2}')]


def test_an_event_of_another_type_is_an_error_and_stays(api: Api) -> None:
    api.send("a", type="this")

    assert api.refused("select pgque.test_consume(%s, 'app', 'that')", api.queue).sqlstate == FAILED
    assert api.one("select (pgque.test_consume(%s, 'app', 'this')).payload", api.queue) == "a"


def test_no_event_is_an_error(api: Api) -> None:
    assert api.refused("select pgque.test_consume(%s, 'app', 'test')", api.queue).sqlstate == FAILED


class TestEmpty:
    def empty(self, api: Api) -> bool:
        try:
            return bool(api.one("select pgque.assert_empty(%s)", api.queue))
        except psycopg.errors.AssertFailure:
            return False

    def test_an_event_that_was_not_ticked_counts(self, api: Api) -> None:
        assert self.empty(api)
        api.send("a")
        assert not self.empty(api)

    def test_so_does_one_in_an_open_batch_until_it_is_acknowledged(self, api: Api) -> None:
        api.send("a")
        api.send("b")
        api.tick()
        batch = api.receive(most=1)[0].batch_id
        assert not self.empty(api)
        api.ack(batch)
        assert not self.empty(api)
        api.ack(api.receive(most=1)[0].batch_id)
        assert self.empty(api)

    def test_so_does_one_that_waits_to_be_tried_again(self, api: Api) -> None:
        api.send("a")
        api.tick()
        [message] = api.receive()
        api.nack(message, after="1 hour")
        api.ack(message.batch_id)

        assert not self.empty(api)

    def test_an_event_that_was_rolled_back_does_not(self, api: Api) -> None:
        with api.connection.transaction(force_rollback=True):
            api.send("a")

        assert self.empty(api)


def test_no_dead_letters(api: Api) -> None:
    assert api.one("select pgque.assert_dlq_empty(%s)", api.queue) is True
    api.send("a")
    api.tick()
    [message] = api.receive()
    api.rows("select pgque.event_dead(%s, %s, 'why')", message.batch_id, message.msg_id)

    assert api.refused("select pgque.assert_dlq_empty(%s)", api.queue).sqlstate == FAILED
