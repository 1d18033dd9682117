"""Schedules and previews over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from penstock.auth import Mode
from penstock.clock import FakeClock
from penstock.loops.scheduler import Scheduler
from penstock.model import DEFAULT_TENANT, Scope
from penstock.store.sqlite.store import SqliteStore
from tests.wire.conftest import Live, running


@pytest.fixture
async def server(clock: FakeClock) -> AsyncIterator[Live]:
    async with running(store=SqliteStore(None), clock=clock) as live:
        yield live


@pytest.fixture
async def client(server: Live) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        await client.post("/v1/queues", json={"name": "reports"})
        yield client


def spec(**more: Any) -> dict[str, Any]:
    return {"name": "nightly", "cron": "0 9 * * 1-5", "target": "reports", "message": {"kind": "daily"}} | more


async def test_a_new_schedule_is_told_back_in_words_and_in_times(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/schedules", json=spec(timezone="europe/berlin", headers={"a": 1}))

    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/schedules/nightly"
    body = answer.json()
    assert body["cron"] == "0 9 * * 1-5"
    assert body["timezone"] == "Europe/Berlin"
    assert body["human_readable"] == "At 09:00 on Monday through Friday (Europe/Berlin)"
    assert body["next_fires"] == [f"2026-01-{day:02}T08:00:00Z" for day in (1, 2, 5, 6, 7)]
    assert body["next_fire_at"] == body["next_fires"][0]
    assert (body["message"], body["headers"], body["status"]) == ({"kind": "daily"}, {"a": 1}, "active")
    assert (await client.get("/v1/schedules/nightly")).json() == body


async def test_a_name_is_taken_once(client: httpx.AsyncClient) -> None:
    await client.post("/v1/schedules", json=spec())

    again = await client.post("/v1/schedules", json=spec())

    assert (again.status_code, again.json()["code"]) == (409, "ScheduleExists")


async def test_put_is_idempotent(client: httpx.AsyncClient, clock: FakeClock) -> None:
    body = {field: value for field, value in spec().items() if field != "name"}

    first = await client.put("/v1/schedules/nightly", json=body)
    clock.advance(seconds=10)
    second = await client.put("/v1/schedules/nightly", json=body)
    third = await client.put("/v1/schedules/nightly", json={**body, "message": "other"})

    assert [first.status_code, second.status_code, third.status_code] == [201, 200, 200]
    assert second.json() == first.json()
    assert third.json()["message"] == "other"


async def test_pause_and_resume(client: httpx.AsyncClient, server: Live, clock: FakeClock) -> None:
    await client.post("/v1/schedules", json=spec(cron="* * * * *"))
    scheduler = Scheduler(server.engine)

    paused = await client.patch("/v1/schedules/nightly", json={"status": "paused"})
    clock.advance(seconds=120)
    assert await scheduler.once() == 0
    resumed = await client.patch("/v1/schedules/nightly", json={"status": "active"})
    clock.advance(seconds=60)

    assert (paused.json()["status"], resumed.json()["status"]) == ("paused", "active")
    assert await scheduler.once() == 1


async def test_delete_answers_the_same_whether_it_was_there(client: httpx.AsyncClient) -> None:
    await client.post("/v1/schedules", json=spec())

    assert [(await client.delete("/v1/schedules/nightly")).status_code for _ in range(2)] == [204, 204]
    assert (await client.get("/v1/schedules/nightly")).status_code == 404


async def test_a_fired_message_names_its_schedule(client: httpx.AsyncClient, server: Live, clock: FakeClock) -> None:
    await client.post("/v1/schedules", json=spec(cron="* * * * *", headers={"a": 1}))
    clock.advance(seconds=61)
    await Scheduler(server.engine).once()

    [message] = (await client.get("/v1/queues/reports/messages")).json()

    assert message["message"] == {"kind": "daily"}
    assert message["headers"] == {
        "a": 1,
        "_schedule": {"name": "nightly", "scheduled_for": "2026-01-01T00:01:00Z", "out_of_band": False},
    }


async def test_a_run_by_hand_answers_with_the_message(client: httpx.AsyncClient) -> None:
    before = (await client.post("/v1/schedules", json=spec())).json()

    run = await client.post("/v1/schedules/nightly/runs")

    assert run.status_code == 202
    [message] = (await client.get("/v1/queues/reports/messages")).json()
    assert run.json() == {
        "schedule": "nightly",
        "target_kind": "queue",
        "target": "reports",
        "scheduled_for": "2026-01-01T00:00:00Z",
        "out_of_band": True,
        "msg_ids": [message["id"]],
    }
    assert message["headers"]["_schedule"]["out_of_band"] is True
    assert (await client.get("/v1/schedules/nightly")).json() == before


async def test_the_list_is_filtered_by_what_is_asked_for(client: httpx.AsyncClient) -> None:
    await client.post("/v1/schedules", json=spec(name="b"))
    await client.post("/v1/schedules", json=spec(name="a"))
    await client.patch("/v1/schedules/b", json={"status": "paused"})

    async def names(query: str) -> list[str]:
        answer = await client.get(f"/v1/schedules{query}")
        return [item["name"] for item in answer.json()]

    assert await names("") == ["a", "b"]
    assert await names("?status=paused") == ["b"]
    assert await names("?name_prefix=a") == ["a"]
    assert await names("?target_kind=topic") == []
    assert (await client.get("/v1/schedules?status=odd")).status_code == 400


@pytest.mark.parametrize(
    ("given", "canonical", "sentence", "first"),
    [
        ({"cron": "@daily"}, {"cron": "0 0 * * *"}, "At 00:00 every day (UTC)", "2026-01-02T00:00:00Z"),
        ({"every": "PT90M"}, {"every": "1h30m"}, "Every 1 hour 30 minutes", "2026-01-01T01:30:00Z"),
        (
            {"when": "first monday of the month at 08:30 Europe/Berlin"},
            {"cron": "30 8 * * 1#1", "timezone": "Europe/Berlin"},
            "At 08:30 on the first Monday of the month (Europe/Berlin)",
            "2026-01-05T07:30:00Z",
        ),
        (
            {"fire_at": "2026-07-01T12:00", "timezone": "America/New_York"},
            {"fire_at": "2026-07-01T16:00:00Z"},
            "Once, on Wednesday 01 July 2026 at 12:00 (America/New_York)",
            "2026-07-01T16:00:00Z",
        ),
    ],
    ids=["cron", "every", "when", "fire_at"],
)
async def test_a_preview_shows_the_canonical_form_and_keeps_nothing(
    client: httpx.AsyncClient, given: dict[str, str], canonical: dict[str, str], sentence: str, first: str
) -> None:
    answer = await client.post("/v1/previews", json=given)

    body = answer.json()
    assert answer.status_code == 200
    assert {field: body[field] for field in canonical} == canonical
    assert body["human_readable"] == sentence
    assert body["next_fires"][0] == first
    assert (await client.get("/v1/schedules")).json() == []


async def test_a_preview_shows_as_many_fires_as_asked_for_and_their_local_times(client: httpx.AsyncClient) -> None:
    given = {"cron": "0 9 * * *", "timezone": "Asia/Tokyo", "count": 2}

    body = (await client.post("/v1/previews", json=given)).json()

    assert body["next_fires"] == ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]
    assert body["next_fires_local"] == ["2026-01-02T09:00:00+09:00", "2026-01-03T09:00:00+09:00"]


@pytest.mark.parametrize(
    ("given", "understood", "rest", "suggestion"),
    [
        ({"cron": "0 9 *"}, "", "0 9 *", "0 9 * * *"),
        ({"cron": "0 0 1--100000000 * *"}, "0 0", "1--100000000", None),
        ({"when": "evry weekday at 9am"}, "", "evry weekday at 9am", "every weekday at 9am"),
        ({"when": "every weekday at 9am except may"}, "every weekday at 9am", "except may", "every weekday at 9am"),
        ({"every": "5 fortnights"}, "", "5 fortnights", "1h30m"),
        ({"fire_at": "tomorrow"}, "", "tomorrow", "2030-12-24T18:00:00Z"),
        ({"cron": "0 9 * * *", "timezone": "Europe/Berln"}, "", "Europe/Berln", "Europe/Berlin"),
    ],
    ids=["fields", "range", "misspelt", "too-much", "duration", "moment", "zone"],
)
@pytest.mark.parametrize("path", ["/v1/previews", "/v1/schedules"], ids=["preview", "create"])
async def test_what_cannot_be_read_is_told_apart(
    client: httpx.AsyncClient, path: str, given: dict[str, str], understood: str, rest: str, suggestion: str | None
) -> None:
    more = {"name": "bad", "target": "reports"} if path == "/v1/schedules" else {}

    answer = await client.post(path, json=given | more)

    body = answer.json()
    assert (answer.status_code, body["code"]) == (400, "Invalid")
    assert body["field"] in given
    assert (body["understood"], body["not_understood"], body.get("suggestion")) == (understood, rest, suggestion)
    assert suggestion is None or suggestion in body["error"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cron": None}, "cron"),
        ({"every": "1m"}, "every"),
        ({"start_at": "2026-01-01T00:00:00Z"}, "start_at"),
        ({"target_kind": "workflow"}, "target_kind"),
        ({"target": "no such queue"}, "target"),
        ({"name": ".hidden"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"jitter": -1}, "jitter"),
        ({"catchup_limit": 0}, "catchup_limit"),
        ({"headers": {"_schedule": {}}}, "headers._schedule"),
        ({"group_id": "a b"}, "group_id"),
        ({"surprise": 1}, "surprise"),
        ({"message": "nul \0"}, "message"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else str(value),
)
async def test_bad_input_names_its_field(client: httpx.AsyncClient, changes: dict[str, Any], field: str) -> None:
    given = {name: value for name, value in spec(**changes).items() if value is not None}

    answer = await client.post("/v1/schedules", json=given)

    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text
    assert (await client.get("/v1/schedules")).json() == []


async def test_a_missing_queue_is_the_target(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/schedules", json=spec(target="nowhere"))

    assert (answer.status_code, answer.json()["field"]) == (404, "target")


async def test_a_token_reaches_the_schedules_of_its_queues_only(clock: FakeClock) -> None:
    async with running(Mode.TOKEN, store=SqliteStore(None), clock=clock) as live:
        tenants = live.engine.tenants
        _, admin = await tenants.create_token(DEFAULT_TENANT, "admin", frozenset({Scope.ADMIN}))
        _, clerk = await tenants.create_token(
            DEFAULT_TENANT, "clerk", frozenset({Scope.READ, Scope.MANAGE, Scope.SEND}), queues="reports"
        )
        _, mute = await tenants.create_token(DEFAULT_TENANT, "mute", frozenset({Scope.READ, Scope.MANAGE}))
        async with live.client(admin) as boss, live.client(clerk) as few, live.client(mute) as silent:
            for queue in ("reports", "secrets"):
                await boss.post("/v1/queues", json={"name": queue})
            await boss.post("/v1/schedules", json=spec(name="hidden", target="secrets"))
            await boss.post("/v1/schedules", json=spec(name="open"))

            assert [item["name"] for item in (await few.get("/v1/schedules")).json()] == ["open"]
            refused = [
                await few.get("/v1/schedules/hidden"),
                await few.delete("/v1/schedules/hidden"),
                await few.patch("/v1/schedules/hidden", json={"status": "paused"}),
                await few.patch("/v1/schedules/open", json={"target": "secrets"}),
                await few.put("/v1/schedules/hidden", json={"every": "1m", "target": "reports"}),
                await few.post("/v1/schedules", json=spec(name="new", target="secrets")),
                await few.post("/v1/schedules/hidden/runs"),
                await silent.post("/v1/schedules", json=spec(name="new")),
                await silent.post("/v1/schedules/open/runs"),
            ]
            assert [answer.status_code for answer in refused] == [403] * len(refused)
            assert (await few.post("/v1/schedules", json=spec(name="new"))).status_code == 201
