"""Schedules across nodes: each fire happens once, however many servers run and whichever of them dies."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from tests.system.serving import serving

SCHEDULES = 200
SECONDS = 20


def make(client: httpx.Client, number: int) -> None:
    given = {
        "every": "1s",
        "start_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        "target": f"ticks-{number % 4}",
        "message": number,
        "catchup": True,
        "catchup_limit": 1000,
    }
    assert client.put(f"/v1/schedules/tick-{number}", json=given).status_code == 201


def start_all(dsn: str) -> datetime:
    """However long it took to make them, they begin together."""
    start = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "update penstock.schedules set anchor = %(at)s, next_fire_at = %(at)s, due_at = %(at)s", {"at": start}
        )
    return start


def pause_all(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update penstock.schedules set status = 'paused'")


def fired(dsn: str) -> list[tuple[str, datetime]]:
    query = (
        "select headers -> '_schedule' ->> 'name', headers -> '_schedule' ->> 'scheduled_for' from penstock.messages"
    )
    with psycopg.connect(dsn) as connection:
        return [(name, datetime.fromisoformat(text)) for name, text in connection.execute(query)]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_every_fire_happens_once_on_three_nodes_of_which_one_is_killed(migrated_database: str) -> None:
    more = {"DATABASE_URL": migrated_database, "QUEUE_MAX_CONNECTIONS": "4"}
    with serving(more=more) as first, serving(more=more) as second, serving(more=more) as third:
        with first.client() as one, second.client() as two, third.client() as three:
            for number in range(4):
                assert one.post("/v1/queues", json={"name": f"ticks-{number}"}).status_code == 201
            for number in range(SCHEDULES):
                make((one, two, three)[number % 3], number)
        start = start_all(migrated_database)

        wait_until(start + timedelta(seconds=SECONDS / 2))
        third.kill()
        wait_until(start + timedelta(seconds=SECONDS))
        wait_for_all(migrated_database, start + timedelta(seconds=SECONDS - 1))
        pause_all(migrated_database)
        found = fired(migrated_database)

    expected = {
        (f"tick-{number}", start + timedelta(seconds=second))
        for number in range(SCHEDULES)
        for second in range(SECONDS)
    }
    last = start + timedelta(seconds=SECONDS)
    assert [fire for fire, times in Counter(found).items() if times > 1] == []
    assert {fire for fire in found if fire[1] < last} == expected


def wait_until(moment: datetime) -> None:
    time.sleep(max((moment - datetime.now(UTC)).total_seconds(), 0))


def wait_for_all(dsn: str, last: datetime) -> None:
    """Until every schedule has fired for its last expected time, as a busy machine may be behind."""
    give_up = time.monotonic() + 30
    with psycopg.connect(dsn, autocommit=True) as connection:
        query = "select count(*) from penstock.schedules where last_fire_at is null or last_fire_at < %s"
        while connection.execute(query, [last]).fetchone() != (0,):
            assert time.monotonic() < give_up
            time.sleep(0.05)


def test_a_server_fires_by_itself_and_wakes_who_waits() -> None:
    with serving("--memory") as server, server.client() as client:
        client.post("/v1/queues", json={"name": "alarm"})
        moment = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        given = {"name": "once", "fire_at": moment, "target": "alarm", "message": "ring"}
        assert client.post("/v1/schedules", json=given).status_code == 201

        [message] = client.get("/v1/queues/alarm/messages?wait=15").json()

        assert message["message"] == "ring"
        assert late(message) < 5.0
        assert client.get("/v1/schedules/once").status_code == 404


def late(message: dict[str, Any]) -> float:
    """Seconds between the time a message was scheduled for and its arrival in the queue."""
    wanted = datetime.fromisoformat(message["headers"]["_schedule"]["scheduled_for"])
    return (datetime.fromisoformat(message["enqueued_at"]) - wanted).total_seconds()


def test_a_server_told_not_to_fire_does_not() -> None:
    with serving("--memory", more={"QUEUE_SCHEDULE_ENABLED": "false"}) as server, server.client() as client:
        client.post("/v1/queues", json={"name": "alarm"})
        given = {"name": "tick", "every": "1s", "target": "alarm"}
        assert client.post("/v1/schedules", json=given).status_code == 201

        assert client.get("/v1/queues/alarm/messages?wait=2").json() == []
