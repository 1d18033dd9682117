"""What the functions of streams write to the log of PostgreSQL, which a session can ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.store.streams.calls import Api, api_of

Line = tuple[str, dict[str, Any]]


@pytest.fixture
def api(streams_dsn: str) -> Iterator[Api]:
    with api_of(streams_dsn, "app") as api:
        yield api


@pytest.fixture
def lines(api: Api) -> list[Line]:
    """Every line of the log that this session causes from now on, with its attributes."""
    found: list[Line] = []
    api.connection.add_notice_handler(
        lambda note: found.append((str(note.message_primary), json.loads(note.message_detail or "{}")))
    )
    api.run("set client_min_messages = log")
    return found


def test_an_event_is_a_line_with_its_attributes_as_json(api: Api, lines: list[Line]) -> None:
    api.rows("""select pgque.log_event('info', 'shop', 'opened', '{"door": 1}')""")
    api.rows("select pgque.log_event('info', 'shop', 'closed')")

    assert lines == [("pgque.shop.info opened", {"door": 1}), ("pgque.shop.info closed", {})]


def test_queues_consumers_and_dead_letters_are_logged(api: Api, lines: list[Line]) -> None:
    other = f"{api.queue}-2"
    api.rows("select pgque.create_queue(%s)", other)
    api.rows("select pgque.create_queue(%s)", other)
    api.rows("select pgque.subscribe(%s, 'late')", other)
    api.rows("select pgque.unsubscribe(%s, 'late')", other)
    api.rows("select pgque.drop_queue(%s)", other)
    api.rows("select pgque.set_queue_config(%s, 'max_retries', '0')", api.queue)
    event = api.send("no")
    api.tick()
    [message] = api.receive()
    api.nack(message)

    assert lines == [
        ("pgque.queue.info created", {"queue": other}),
        ("pgque.consumer.info registered", {"queue": other, "consumer": "late", "tick": 1}),
        ("pgque.consumer.info unregistered", {"queue": other, "consumer": "late"}),
        ("pgque.queue.info dropped", {"queue": other}),
        ("pgque.dead_letter.warning stored", {"queue": api.queue, "consumer": "app", "event": event, "retries": 0}),
    ]


def test_both_steps_of_a_rotation_are_logged(api: Api, lines: list[Line]) -> None:
    api.rows("select pgque.unsubscribe(%s, 'app')", api.queue)
    api.run("update pgque.queue set queue_switch_time = now() - interval '1 day' where queue_name = %s", api.queue)
    api.rows("select pgque.maint_rotate_tables_step1(%s)", api.queue)
    api.rows("select pgque.maint_rotate_tables_step2()")

    assert [line for line in lines if "rotation" in line[0] and line[1]["queue"] == api.queue] == [
        ("pgque.rotation.info step 1", {"queue": api.queue, "table": 1}),
        ("pgque.rotation.info step 2", {"queue": api.queue}),
    ]


def test_ticks_that_go_back_are_logged(api: Api, lines: list[Line]) -> None:
    api.tick_at_once()
    assert lines == []
    api.run(
        """
        update pgque.tick
        set tick_event_seq = tick_event_seq + 5, tick_snapshot = '900000000000:900000000000:'
        where tick_queue = (select queue_id from pgque.queue where queue_name = %s)
        """,
        api.queue,
    )
    api.tick_at_once()

    [negative, stale] = lines
    assert negative == ("pgque.ticker.warning negative event count", {"queue": api.queue, "tick": 2, "events": -5})
    assert stale[0] == "pgque.ticker.warning stale snapshot"
    assert stale[1]["behind"] > 0
