"""Receiving in pieces, acknowledging what was seen, and failing."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.store.streams.calls import Api, Message, api_of


@pytest.fixture
def api(streams_dsn: str) -> Iterator[Api]:
    with api_of(streams_dsn, "app") as api:
        yield api


def fill(api: Api, count: int) -> list[int]:
    ids: list[int] = api.one(
        "select pgque.send_batch(%s, 'kind', array(select n::text from generate_series(1, %s) as n))", api.queue, count
    )
    api.tick()
    return ids


def again(api: Api) -> None:
    """Failed events whose time has come are sent again, and can be received."""
    api.rows("select pgque.maint_retry_events()")
    api.tick()


def ids(messages: list[Message]) -> list[int]:
    return [message.msg_id for message in messages]


class TestPieces:
    def test_nothing_is_received_before_a_tick(self, api: Api) -> None:
        api.send("a")

        assert api.receive() == []

    def test_what_was_not_handed_out_comes_next(self, api: Api) -> None:
        sent = fill(api, 25)
        received = []
        for _ in range(3):
            piece = api.receive(most=10)
            received.append(ids(piece))
            assert api.ack(piece[0].batch_id) == 1

        assert received == [sent[:10], sent[10:20], sent[20:]]
        assert api.receive() == []

    def test_a_piece_comes_again_until_it_is_acknowledged(self, api: Api) -> None:
        sent = fill(api, 20)

        assert ids(api.receive(most=10)) == ids(api.receive(most=10)) == sent[:10]

    def test_a_larger_receive_brings_more_of_the_batch(self, api: Api) -> None:
        sent = fill(api, 20)
        api.receive(most=5)
        piece = api.receive(most=15)
        api.ack(piece[0].batch_id)

        assert ids(piece) == sent[:15]
        assert ids(api.receive(most=15)) == sent[15:]

    def test_the_rest_of_a_batch_has_a_number_of_its_own(self, api: Api) -> None:
        """So a second ack of the first piece is not one of the second."""
        sent = fill(api, 20)
        first = api.receive(most=10)[0].batch_id
        api.ack(first)
        rest = api.receive(most=10)

        assert rest[0].batch_id != first
        assert api.ack(first) == 0
        assert ids(api.receive(most=10)) == ids(rest) == sent[10:]

    def test_a_piece_of_exactly_the_batch_finishes_it(self, api: Api) -> None:
        fill(api, 10)
        api.ack(api.receive(most=10)[0].batch_id)
        info = "select sub_batch from pgque.subscription join pgque.queue on queue_id = sub_queue where queue_name = %s"

        assert api.receive() == []
        assert api.one(info, api.queue) is None

    def test_pieces_and_whole_batches_are_counted_for_each_consumer_alone(self, api: Api) -> None:
        api.rows("select pgque.subscribe(%s, 'other')", api.queue)
        sent = fill(api, 9)
        api.ack(api.receive(most=4)[0].batch_id)

        assert ids(api.receive("other")) == sent
        assert ids(api.receive("app")) == sent[4:]

    def test_a_batch_without_events_is_passed_over(self, api: Api) -> None:
        for _ in range(3):
            api.tick()
        sent = fill(api, 1)

        assert ids(api.receive()) == sent

    def test_however_many_there_are(self, api: Api) -> None:
        """A consumer that was away finds what came after a long quiet time with its first call."""
        for _ in range(150):
            api.tick_at_once()
        sent = fill(api, 1)

        assert ids(api.receive()) == sent

    def test_every_event_is_received_once_whatever_the_pieces(self, api: Api) -> None:
        sent = []
        for count in (1, 7, 30):
            sent += fill(api, count)

        assert ids(api.drain(most=4)) == sent

    def test_a_receive_that_is_rolled_back_never_was(self, api: Api) -> None:
        sent = fill(api, 10)
        with api.connection.transaction(force_rollback=True):
            api.ack(api.receive(most=5)[0].batch_id)

        assert ids(api.receive(most=5)) == sent[:5]

    @pytest.mark.parametrize("most", [0, -1, None])
    def test_at_least_one(self, api: Api, most: int | None) -> None:
        error = api.refused("select * from pgque.receive(%s, 'app', %s)", api.queue, most)

        assert error.sqlstate == "22023"

    def test_a_stranger_receives_nothing(self, api: Api) -> None:
        error = api.refused("select * from pgque.receive(%s, 'stranger')", api.queue)

        assert "not subscriber to queue" in str(error).lower()


class TestAck:
    def test_a_second_ack_is_nothing(self, api: Api) -> None:
        fill(api, 1)
        batch = api.receive()[0].batch_id

        assert [api.ack(batch), api.ack(batch)] == [1, 0]

    def test_through_an_event_acknowledges_no_more_than_that(self, api: Api) -> None:
        sent = fill(api, 10)
        batch = api.receive()[0].batch_id

        assert api.one("select pgque.ack(%s, %s)", batch, sent[3]) == 1
        assert ids(api.receive()) == sent[4:]

    def test_an_older_piece_acknowledges_nothing_after_it(self, api: Api) -> None:
        """Two processes got the same piece; the slower one is late."""
        sent = fill(api, 10)
        batch = api.receive(most=5)[0].batch_id
        api.one("select pgque.ack(%s, %s)", batch, sent[4])
        api.receive(most=5)

        assert api.one("select pgque.ack(%s, %s)", batch, sent[4]) == 0
        assert ids(api.receive(most=5)) == sent[5:]


class TestNack:
    def test_a_failed_event_comes_back_and_counts(self, api: Api) -> None:
        fill(api, 3)
        messages = api.receive()
        assert [message.retry_count for message in messages] == [None] * 3
        assert api.nack(messages[1]) == 1
        api.ack(messages[0].batch_id)
        again(api)

        [message] = api.receive()
        assert (message.msg_id, message.payload, message.retry_count) == (messages[1].msg_id, "2", 1)

    def test_it_comes_back_to_the_consumer_that_failed(self, api: Api) -> None:
        api.rows("select pgque.subscribe(%s, 'other')", api.queue)
        fill(api, 1)
        [message] = api.receive()
        api.drain("other")
        api.nack(message)
        api.ack(message.batch_id)
        again(api)

        assert api.receive("other") == []
        assert len(api.receive()) == 1

    def test_not_before_its_time(self, api: Api) -> None:
        fill(api, 1)
        [message] = api.receive()
        api.nack(message, after="1 hour")
        api.ack(message.batch_id)
        again(api)

        assert api.receive() == []

    def test_twice_is_harmless(self, api: Api) -> None:
        fill(api, 1)
        [message] = api.receive()

        assert [api.nack(message), api.nack(message)] == [1, 0]
        api.ack(message.batch_id)
        again(api)
        assert len(api.drain()) == 1

    def test_only_the_id_of_the_message_counts(self, api: Api) -> None:
        """A caller that says it was tried a thousand times, or that it was another event, is not believed."""
        fill(api, 1)
        [message] = api.receive()
        forged = message._replace(retry_count=1000, payload="forged", type="forged", extra1="forged")

        api.nack(forged)
        api.ack(message.batch_id)
        again(api)
        assert api.receive()[0][2:5] == ("kind", "1", 1)
        assert api.rows("select * from pgque.dlq_inspect(%s)", api.queue) == []

    def test_an_event_of_another_batch_is_an_error(self, api: Api) -> None:
        fill(api, 1)
        [first] = api.receive()
        api.ack(first.batch_id)
        fill(api, 1)
        [second] = api.receive()

        error = api.refused(
            "select pgque.nack(%s, row(%s, 0, '', '', 0, now(), '', '', '', '')::pgque.message)",
            *(second.batch_id, first.msg_id),
        )
        assert error.diag.message_primary == f"event not found in batch {second.batch_id}: {first.msg_id}"

    def test_an_event_that_was_not_handed_out_yet_is_an_error(self, api: Api) -> None:
        sent = fill(api, 2)
        [message] = api.receive(most=1)

        error = api.refused(
            "select pgque.nack(%s, row(%s, 0, '', '', 0, now(), '', '', '', '')::pgque.message)",
            *(message.batch_id, sent[1]),
        )
        assert "event not found in batch" in str(error)

    def test_after_the_ack_it_is_too_late(self, api: Api) -> None:
        fill(api, 1)
        [message] = api.receive()
        api.ack(message.batch_id)

        with pytest.raises(psycopg.Error, match="batch not found"):
            api.nack(message)

    def test_the_pieces_after_a_failed_one_are_unharmed(self, api: Api) -> None:
        sent = fill(api, 4)
        piece = api.receive(most=2)
        api.nack(piece[0])
        api.ack(piece[0].batch_id)

        assert ids(api.drain(most=2)) == sent[2:]
        again(api)
        assert ids(api.drain(most=2)) == [sent[0]]

    @pytest.mark.parametrize("after", ["-1 second", "366 days"])
    def test_bounds(self, api: Api, after: str) -> None:
        fill(api, 1)
        [message] = api.receive()

        with pytest.raises(psycopg.Error) as caught:
            api.nack(message, after)
        assert caught.value.sqlstate == "22023"


class TestCooperation:
    def coop(self, api: Api, worker: str, most: int = 100, dead: str | None = None) -> list[Message]:
        rows = api.rows(
            "select * from pgque.receive_coop(%s, 'crew', %s, %s, %s::interval)", api.queue, worker, most, dead
        )
        return [Message(*row) for row in rows]

    @pytest.fixture(autouse=True)
    def crew(self, api: Api) -> None:
        for worker in ("one", "two"):
            api.rows("select pgque.subscribe_subconsumer(%s, 'crew', %s)", api.queue, worker)

    def test_workers_share_the_batches(self, api: Api) -> None:
        first, second = fill(api, 2), fill(api, 3)

        assert (ids(self.coop(api, "one")), ids(self.coop(api, "two"))) == (first, second)

    def test_a_worker_gets_its_own_batch_again_until_it_acknowledges(self, api: Api) -> None:
        first = fill(api, 2)
        fill(api, 3)

        assert ids(self.coop(api, "one")) == ids(self.coop(api, "one")) == first

    def test_a_batch_of_a_worker_comes_in_pieces(self, api: Api) -> None:
        sent = fill(api, 5)
        piece = self.coop(api, "one", most=3)
        api.ack(piece[0].batch_id)

        assert ids(self.coop(api, "two")) == []
        assert ids(self.coop(api, "one")) == sent[3:]

    def test_the_batch_of_a_dead_worker_is_taken_over_under_a_new_number(self, api: Api) -> None:
        sent = fill(api, 2)
        lost = self.coop(api, "one")
        taken = self.coop(api, "two", dead="0 seconds")

        assert ids(taken) == sent
        assert taken[0].batch_id != lost[0].batch_id
        assert api.ack(lost[0].batch_id) == 0
        with pytest.raises(psycopg.Error, match="batch not found"):
            api.nack(lost[0])
        assert api.ack(taken[0].batch_id) == 1

    def test_of_a_batch_in_pieces_only_the_rest_is_taken_over(self, api: Api) -> None:
        sent = fill(api, 5)
        api.ack(self.coop(api, "one", most=2)[0].batch_id)
        self.coop(api, "one", most=2)

        assert ids(self.coop(api, "two", dead="0 seconds")) == sent[2:]

    def test_a_failed_event_comes_back_to_any_worker(self, api: Api) -> None:
        fill(api, 1)
        [message] = self.coop(api, "one")
        api.nack(message)
        api.ack(message.batch_id)
        again(api)

        assert [found.retry_count for found in self.coop(api, "two")] == [1]
