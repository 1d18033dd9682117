"""Dead letters: how events become them, and what can be done about it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.streams.calls import Api, Message, api_of


@pytest.fixture
def api(streams_dsn: str) -> Iterator[Api]:
    with api_of(streams_dsn, "app", "other", max_retries=0) as api:
        yield api


def bury(api: Api, payload: str = "a", reason: str | None = "broken") -> Message:
    """Sends an event that the consumer `app` cannot handle; `other` can."""
    api.rows("select pgque.send(%s, 'kind', %s::text, '1', '2', '3', '4')", api.queue, payload)
    api.tick()
    [message] = api.receive()
    api.nack(message, reason=reason)
    api.ack(message.batch_id)
    api.drain("other")
    return message


def letters(api: Api) -> list[tuple[object, ...]]:
    return api.rows("select dl_id, dl_reason, ev_id, ev_data from pgque.dlq_inspect(%s)", api.queue)


def test_a_dead_letter_is_the_event_with_its_reason(api: Api) -> None:
    message = bury(api)

    [letter] = api.rows(
        """
        select dl_consumer_name, dl_reason, ev_id, ev_time, ev_retry, ev_type, ev_data,
          ev_extra1, ev_extra2, ev_extra3, ev_extra4
        from pgque.dlq_inspect(%s)
        """,
        api.queue,
    )
    assert letter == (*("app", "broken", message.msg_id, message.created_at, None, "kind", "a"), "1", "2", "3", "4")


def test_without_a_reason_it_says_why(api: Api) -> None:
    bury(api, reason=None)

    assert letters(api)[0][1] == "max retries exceeded"


def test_said_twice_it_is_one_dead_letter(api: Api) -> None:
    api.send("a")
    api.tick()
    [message] = api.receive()

    assert [api.nack(message), api.nack(message)] == [1, 0]
    assert len(letters(api)) == 1


def test_an_event_can_be_given_up_at_once(streams_dsn: str) -> None:
    with api_of(streams_dsn, "app") as api:
        api.send("a")
        api.tick()
        [message] = api.receive()

        assert api.one("select pgque.event_dead(%s, %s, 'hopeless')", message.batch_id, message.msg_id) == 1
        assert letters(api)[0][1:] == ("hopeless", message.msg_id, "a")


def test_the_long_form_does_not_believe_the_fields_it_is_given(api: Api) -> None:
    api.send("a")
    api.tick()
    [message] = api.receive()
    api.rows(
        "select pgque.event_dead(%s, %s, 'why', now(), null::xid8, 7, 'forged', 'forged')",
        *(message.batch_id, message.msg_id),
    )

    assert letters(api)[0][3] == "a"


def test_the_newest_are_shown_first_and_no_more_than_asked(api: Api) -> None:
    for payload in "abc":
        bury(api, payload)

    shown = api.rows("select ev_data from pgque.dlq_inspect(%s, 2)", api.queue)
    assert shown == [("c",), ("b",)]


class TestReplay:
    def test_the_consumer_that_failed_gets_it_as_if_new(self, api: Api) -> None:
        message = bury(api)
        [[letter, *_]] = letters(api)
        event = api.one("select pgque.dlq_replay(%s)", letter)
        api.tick()

        [replayed] = api.receive()
        assert replayed.msg_id == event != message.msg_id
        assert (replayed.type, replayed.payload, replayed.retry_count) == ("kind", "a", None)
        assert replayed[6:] == ("1", "2", "3", "4")
        assert letters(api) == []

    def test_the_others_do_not(self, api: Api) -> None:
        bury(api)
        api.one("select pgque.dlq_replay_all(%s)", api.queue)
        api.tick()

        assert api.receive("other") == []

    def test_unless_it_is_asked_for(self, api: Api) -> None:
        bury(api)
        api.one("select pgque.dlq_replay_all(%s, true)", api.queue)
        api.tick()

        assert (len(api.receive("other")), len(api.receive())) == (1, 1)

    def test_when_the_consumer_has_left_everyone_gets_it(self, api: Api) -> None:
        bury(api)
        api.rows("select pgque.unsubscribe(%s, 'app')", api.queue)
        assert api.one("select pgque.dlq_replay_all(%s)", api.queue) == 1
        api.tick()

        assert len(api.receive("other")) == 1

    def test_all_come_in_the_order_they_died(self, api: Api) -> None:
        for payload in "abc":
            bury(api, payload)

        assert api.one("select pgque.dlq_replay_all(%s)", api.queue) == 3
        api.tick()
        assert [message.payload for message in api.receive()] == ["a", "b", "c"]

    def test_one_that_is_gone_is_null(self, api: Api) -> None:
        assert api.one("select pgque.dlq_replay(-1)") is None

    def test_a_replayed_event_can_die_again(self, api: Api) -> None:
        bury(api)
        api.one("select pgque.dlq_replay_all(%s)", api.queue)
        api.tick()
        [message] = api.receive()
        api.nack(message)

        assert len(letters(api)) == 1

    def test_a_replay_that_is_rolled_back_leaves_the_dead_letter(self, api: Api) -> None:
        bury(api)
        with api.connection.transaction(force_rollback=True):
            api.one("select pgque.dlq_replay_all(%s)", api.queue)

        assert len(letters(api)) == 1


def test_a_purge_takes_the_old_ones(api: Api) -> None:
    for payload in "ab":
        bury(api, payload)
    api.run("update pgque.dead_letter set dl_time = now() - interval '31 days' where ev_data = 'a'")

    assert api.one("select pgque.dlq_purge(%s)", api.queue) == 1
    assert [letter[3] for letter in letters(api)] == ["b"]
    assert api.one("select pgque.dlq_purge(%s, '0')", api.queue) == 1


def test_dead_letters_do_not_keep_a_queue_from_being_dropped(api: Api) -> None:
    bury(api)
    queue = api.one("select queue_id from pgque.queue where queue_name = %s", api.queue)

    assert api.one("select pgque.drop_queue(%s, true)", api.queue) == 1
    assert api.one("select count(*) from pgque.dead_letter where dl_queue_id = %s", queue) == 0


def test_dead_letters_outlive_their_consumer(api: Api) -> None:
    bury(api)
    api.rows("select pgque.unsubscribe(%s, 'app')", api.queue)

    assert len(letters(api)) == 1


def test_failures_are_forgotten_after_a_week(api: Api) -> None:
    bury(api)
    mine = "select queue_id from pgque.queue where queue_name = %s"
    api.run(f"update pgque.failure set fa_time = now() - interval '8 days' where fa_queue = ({mine})", api.queue)
    api.rows("select pgque.maint_forget_failures()")

    assert api.one(f"select count(*) from pgque.failure where fa_queue = ({mine})", api.queue) == 0
