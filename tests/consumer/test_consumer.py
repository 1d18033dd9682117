"""Consuming for real: both drivers, one suite."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from penstock.consumer import Message, Producer
from penstock.errors import StreamNotFound
from tests.consumer.conftest import PATIENCE_S, Start
from tests.consumer.looking import dead_letters, eventually, retry_now, settled


def test_messages_reach_their_handlers_in_order_and_are_acknowledged(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    running = start()
    producer.send(queue, {"number": 1}, type="first", extra2="more")
    producer.send_batch(queue, [{"number": 2}, {"number": 3}])
    producer.send(queue, "plain words")

    messages = running.await_seen(4)

    assert [message.payload for message in messages] == [{"number": 1}, {"number": 2}, {"number": 3}, "plain words"]
    assert [message.type for message in messages] == ["first", "default", "default", "default"]
    assert (messages[0].extra2, messages[0].retry_count, messages[0].queue) == ("more", 0, queue)
    eventually(lambda: settled(admin, queue))


def test_a_waiting_consumer_hears_of_an_event_without_any_ticker(start: Start, producer: Producer, queue: str) -> None:
    running = start(poll_interval=60)
    producer.send(queue, 1)
    running.await_seen(1)

    producer.send(queue, 2)

    assert running.payloads(2) == [1, 2]


def test_a_fetch_brings_no_more_than_asked_for_and_loses_nothing(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    running = start(max_messages=7)

    producer.send_batch(queue, list(range(50)))

    assert running.payloads(50) == list(range(50))
    eventually(lambda: settled(admin, queue))


def test_what_is_rolled_back_is_never_seen(start: Start, producer: Producer, queue: str) -> None:
    running = start()
    with producer.connection.transaction(force_rollback=True):
        producer.send(queue, "undone")
    with producer.transaction() as connection:
        connection.execute("create temporary table kept (number integer)")
        producer.send(queue, "done")

    assert running.payloads(1) == ["done"]


# Failures


def test_a_message_whose_handler_raises_comes_again_and_the_others_do_not(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    def handler(message: Message) -> None:
        if message.payload == 2 and message.retry_count == 0:
            raise RuntimeError("not yet")

    running = start(handler, retry_after=3600)
    producer.send_batch(queue, [1, 2, 3])
    running.await_seen(3)
    eventually(lambda: settled(admin, queue))

    retry_now(admin, queue)

    assert running.payloads(4) == [1, 2, 3, 2]
    assert running.seen[3].retry_count == 1


def test_a_message_that_keeps_failing_becomes_a_dead_letter(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    def handler(message: Message) -> None:
        raise RuntimeError("never")

    admin.execute("select pgque.set_queue_config(%s, 'max_retries', '1')", [queue])
    running = start(handler, retry_after=3600)
    producer.send(queue, "bad")
    running.await_seen(1)
    eventually(lambda: settled(admin, queue))
    retry_now(admin, queue)
    running.await_seen(2)

    eventually(lambda: dead_letters(admin, queue) == [("bad", "RuntimeError: never")])


def test_a_handler_may_nack_and_dead_letter_by_itself(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    def handler(message: Message) -> None:
        if message.payload == "late":
            message.nack(retry_after=timedelta(hours=1), reason="busy")
        else:
            message.dead_letter("broken for good")

    running = start(handler)
    producer.send_batch(queue, ["late", "broken"])
    running.await_seen(2)
    eventually(lambda: settled(admin, queue))

    assert dead_letters(admin, queue) == [("broken", "broken for good")]
    waits = admin.execute(
        "select ev_data, ev_retry_after - now() from pgque.retry_queue where ev_queue ="
        " (select queue_id from pgque.queue where queue_name = %s)",
        [queue],
    ).fetchall()
    assert [data for data, _ in waits] == ["late"]
    assert timedelta(minutes=59) < waits[0][1] <= timedelta(hours=1)


@pytest.mark.parametrize(
    ("unhandled", "kept", "dead"), [("error", 1, []), ("ack", 0, []), ("dead", 0, ["no handler for type strange"])]
)
def test_a_message_without_a_handler_is_treated_as_told(
    start: Start,
    producer: Producer,
    queue: str,
    admin: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
    unhandled: str,
    kept: int,
    dead: list[str],
) -> None:
    caplog.set_level(logging.INFO, "penstock.consumer")
    running = start(type="known", unhandled=unhandled, retry_after=3600)
    strange = producer.send(queue, 1, type="strange")
    producer.send(queue, 2, type="known")
    running.await_seen(1)
    eventually(lambda: settled(admin, queue))

    row = admin.execute(
        "select count(*) from pgque.retry_queue where ev_queue ="
        " (select queue_id from pgque.queue where queue_name = %s)",
        [queue],
    ).fetchone()
    assert row == (kept,)
    assert dead_events(admin, queue) == [(strange, f"consumer shop has {reason}") for reason in dead]
    assert running.consumer.unhandled == {"strange": 1}
    health = running.consumer.health()
    assert (health.running, health.idle_s is not None, health.unhandled) == (True, True, {"strange": 1})
    [record] = [record for record in caplog.records if "no handler" in record.getMessage()]
    assert f"type 'strange': stream {queue}, consumer shop, event {strange}," in record.getMessage()
    assert record.levelno == (logging.INFO if unhandled == "ack" else logging.ERROR)


DEEP = "[" * 100_000 + "]" * 100_000
LONG = '{"n": ' + "1" * 5001 + "}"


@pytest.mark.parametrize(("poison", "reason"), [(DEEP, "nested too deeply"), (LONG, "Exceeds the limit")])
def test_a_payload_that_python_cannot_read_is_one_dead_letter_and_the_others_are_handled(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any], poison: str, reason: str
) -> None:
    handled: list[Any] = []
    running = start(lambda message: handled.append(message.payload))
    numbers = [admin.execute("select pgque.send(%s, 'type', %s::text)", [queue, each]).fetchone() for each in "12"]
    bad = admin.execute("select pgque.send(%s, 'type', %s::text)", [queue, poison]).fetchone()
    producer.send(queue, 3)
    running.await_seen(4)
    eventually(lambda: settled(admin, queue))

    assert handled == [1, 2, 3]
    assert all(numbers)
    assert bad is not None
    [(number, said)] = dead_events(admin, queue)
    assert number == bad[0]
    assert "the payload cannot be read" in said
    assert reason in said


def test_a_handler_of_the_text_alone_handles_a_payload_that_python_cannot_read(
    start: Start, queue: str, admin: psycopg.Connection[Any]
) -> None:
    handled: list[int] = []
    running = start(lambda message: handled.append(len(message.text)))
    admin.execute("select pgque.send(%s, 'type', %s::text)", [queue, DEEP])
    running.await_seen(1)
    eventually(lambda: settled(admin, queue))

    assert handled == [len(DEEP)]
    assert dead_events(admin, queue) == []


def test_what_a_transactional_handler_wrote_before_an_unreadable_payload_is_undone(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("create table if not exists public.seen_by_handlers (queue text, event bigint)")

    def write_and_read(message: Message, connection: Any) -> Any:
        values = [message.queue, message.msg_id]
        if isinstance(connection, psycopg.AsyncConnection):

            async def both() -> None:
                await connection.execute("insert into public.seen_by_handlers values (%s, %s)", values)
                assert message.payload is not None

            return both()
        connection.execute("insert into public.seen_by_handlers values (%s, %s)", values)
        assert message.payload is not None
        return None

    running = start(write_and_read, transactional=True)
    admin.execute("select pgque.send(%s, 'type', %s::text)", [queue, DEEP])
    good = producer.send(queue, "good")
    running.await_seen(2)
    eventually(lambda: settled(admin, queue))

    written = admin.execute("select event from public.seen_by_handlers where queue = %s", [queue]).fetchall()
    assert written == [(good,)]
    assert len(dead_events(admin, queue)) == 1


def dead_events(admin: psycopg.Connection[Any], queue: str) -> list[tuple[Any, ...]]:
    return admin.execute("select ev_id, dl_reason from pgque.dlq_inspect(%s)", [queue]).fetchall()


# Connections


def test_a_consumer_comes_back_when_its_connection_is_killed(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    running = start(name="survivor")
    producer.send(queue, 1)
    running.await_seen(1)
    eventually(lambda: settled(admin, queue, "survivor"))

    admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'penstock consumer survivor'"
    )
    producer.send(queue, 2)

    assert running.payloads(2)[-1] == 2


def test_a_consumer_of_a_queue_that_does_not_exist_ends_with_a_clear_error(
    start: Start, queue: str, admin: psycopg.Connection[Any]
) -> None:
    running = start(poll_interval=0.05)
    admin.execute("select pgque.drop_queue(%s, true)", [queue])

    running.join()

    assert isinstance(running.error, StreamNotFound), running.error


def test_a_stop_finishes_the_batch_under_way(
    start: Start, producer: Producer, queue: str, admin: psycopg.Connection[Any]
) -> None:
    entered, go = threading.Event(), threading.Event()

    def handler(message: Message) -> None:
        entered.set()
        assert go.wait(PATIENCE_S)

    running = start(handler)
    producer.send_batch(queue, [1, 2])
    assert entered.wait(PATIENCE_S)
    stopper = threading.Thread(target=running.stop)
    stopper.start()
    go.set()
    stopper.join()
    running.join()

    assert [message.payload for message in running.seen] == [1, 2]
    assert settled(admin, queue)


def test_a_stop_ends_a_long_wait_at_once(start: Start, queue: str) -> None:
    running = start(poll_interval=3600, check_interval=0)
    before = time.monotonic()

    running.end()

    assert time.monotonic() - before < 10
