"""The door of jobs: shapes, statuses, who may come in, and how workers wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from penstock.auth import Mode
from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.waiting import job_key
from penstock.model import DEFAULT_TENANT, Scope
from penstock.model.jobs import NewJob
from penstock.store.postgres.store import PostgresStore
from tests.plain import PLAIN
from tests.wire.conftest import Live, running

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def http(live: Live) -> AsyncIterator[httpx.AsyncClient]:
    async with live.client() as http:
        yield http


@pytest.fixture
def queue() -> str:
    """Tests share a database."""
    return f"queue-{uuid4().hex[:12]}"


async def post(http: httpx.AsyncClient, path: str, body: object = None, expect: int = 200) -> Any:
    answer = await http.post(path, json=body if body is not None else {})
    assert answer.status_code == expect, answer.text
    return answer.json()


async def enqueue(http: httpx.AsyncClient, queue: str, payload: object = None, **fields: object) -> str:
    body = {"queue_name": queue, "payload": payload, **fields}
    return str((await post(http, "/jobs", body, 201))["job_id"])


async def lease(http: httpx.AsyncClient, queue: str, **fields: object) -> Any:
    return await post(http, f"/queues/{queue}/lease", {"worker_id": "ada", **fields})


# Shapes


async def test_jobs_are_enqueued_and_listed_by_tag(http: httpx.AsyncClient, queue: str) -> None:
    first = await enqueue(http, queue, {"n": 1}, tags=["red", "nightly"])
    second = await enqueue(http, queue, {"n": 2}, tags=["red"])
    await enqueue(http, queue, {"n": 3})

    async def listed(**query: object) -> Any:
        answer = await http.get("/v1/jobs", params={"queue_name": queue, **query})  # type: ignore[dict-item]
        return answer.json()

    page = await listed(tag="red")
    assert [(job["id"], job["tags"]) for job in page["items"]] == [(second, ["red"]), (first, ["nightly", "red"])]
    assert (page["total"], page["next_cursor"]) == (2, None)
    assert [job["id"] for job in (await listed(tag="red", limit=1, cursor=second))["items"]] == [first]
    assert (await listed(tag="red", status="dead"))["items"] == []
    assert (await listed(tag="red", offset=1))["field"] == "offset"
    assert (await listed(tag="x" * 101))["code"] == "Invalid"
    assert (await http.get(f"/v1/jobs/{first}/detail")).json()["tags"] == ["nightly", "red"]


async def test_a_job_through_its_life(http: httpx.AsyncClient, queue: str, clock: FakeClock) -> None:
    job_id = await enqueue(http, queue, {"to": "ada"}, priority=3, max_retries=1)
    leased = await lease(http, queue, lease_seconds=10)
    told = {"lease_token": leased["lease_token"]}
    beat = await post(http, f"/jobs/{job_id}/heartbeat", {**told, "lease_seconds": 60, "progress": 50, "note": "half"})
    running = (await http.get(f"/jobs/{job_id}/detail")).json()
    done = await post(http, f"/jobs/{job_id}/ack", {**told, "result": [1, 2]})
    detail = (await http.get(f"/jobs/{job_id}/detail")).json()

    now = clock.now().isoformat().replace("+00:00", "Z")
    until = (clock.now() + timedelta(seconds=10)).isoformat().replace("+00:00", "Z")
    longer = (clock.now() + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
    assert leased == {
        "job": {
            "id": job_id, "queue_name": queue, "status": "processing", "priority": 3, "payload": {"to": "ada"},
            "result": None, "error_text": None, "retry_count": 0, "max_retries": 1, "attempt": 1,
            "lease_lost_count": 0, "worker_id": "ada", "progress": None, "progress_note": None, "run_at": now,
            "created_at": now, "updated_at": now, "started_at": now, "finished_at": None, "lease_expires_at": until,
            "dead_reason": None,
        },
        "lease_token": leased["lease_token"],
        "lease_expires_at": until,
    }  # fmt: skip
    assert beat == {"job_id": job_id, "status": "lease_extended", "lease_expires_at": longer}
    assert (running["progress"], running["progress_note"], running["lease_expires_at"]) == (50, "half", longer)
    assert [attempt["outcome"] for attempt in running["attempts"]] == ["running"]
    assert done == {"job_id": job_id, "status": "completed"}
    assert (detail["status"], detail["result"], detail["finished_at"]) == ("completed", [1, 2], now)
    assert detail["attempts"] == (await http.get(f"/jobs/{job_id}/attempts")).json()
    assert detail["attempts"] == [
        {"attempt": 1, "worker_id": "ada", "started_at": now, "ended_at": now, "outcome": "completed", "error": None}
    ]


async def test_a_failure_answers_what_becomes_of_the_job(http: httpx.AsyncClient, queue: str, clock: FakeClock) -> None:
    job_id = await enqueue(http, queue, max_retries=1, backoff={"delays": [5]})

    token = (await lease(http, queue))["lease_token"]
    again = await post(http, f"/jobs/{job_id}/nack", {"lease_token": token, "error": "no"})
    clock.advance(seconds=5)
    token = (await lease(http, queue))["lease_token"]
    dead = await post(http, f"/jobs/{job_id}/nack", {"lease_token": token, "error": "never"})

    run_at = clock.now().isoformat().replace("+00:00", "Z")
    assert again == {"job_id": job_id, "status": "pending", "run_at": run_at}
    assert dead == {"job_id": job_id, "status": "dead", "run_at": None}


async def test_a_batch_is_stored_whole_or_not_at_all(http: httpx.AsyncClient, queue: str) -> None:
    good = {"queue_name": queue, "payload": 1}

    made = await post(http, "/jobs/batch", {"jobs": [good, good]}, 201)
    refused = await post(http, "/jobs/batch", {"jobs": [good, {**good, "priority": 99_999}]}, 400)

    assert (made["count"], len(set(made["job_ids"]))) == (2, 2)
    assert (refused["code"], refused["field"]) == ("Invalid", "priority")
    assert (await http.get("/jobs", params={"queue_name": queue})).json()["total"] == 2


async def test_with_max_a_lease_answers_a_list(http: httpx.AsyncClient, queue: str) -> None:
    for _ in range(3):
        await enqueue(http, queue)

    assert len(await lease(http, queue, max=2)) == 2
    assert len(await lease(http, queue, max=2)) == 1
    assert await lease(http, queue, max=2) == []
    assert await lease(http, queue) is None


async def test_a_unique_key_answers_the_job_that_is_there(http: httpx.AsyncClient, queue: str) -> None:
    body = {"queue_name": queue, "payload": 1, "unique_key": "k", "unique_seconds": 60}

    first = await post(http, "/jobs", body, 201)
    second = await post(http, "/jobs", body, 201)

    assert (first["status"], second["status"]) == ("queued", "existing")
    assert first["job_id"] == second["job_id"]


async def test_pages_are_followed_by_their_cursors(http: httpx.AsyncClient, queue: str) -> None:
    ids = [await enqueue(http, queue, n) for n in range(5)]

    seen: list[str] = []
    cursor: str | None = None
    for _ in range(10):
        query = {"queue_name": queue, "limit": "2", **({"cursor": cursor} if cursor else {})}
        page = (await http.get("/jobs", params=query)).json()
        seen += [job["id"] for job in page["items"]]
        assert (page["total"], page["limit"], page["offset"]) == (5, 2, 0)
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert seen == ids[::-1]


async def test_limits_are_set_and_shown(http: httpx.AsyncClient, queue: str) -> None:
    path = f"/queues/{queue}/limits"
    put = await http.put(path, json={"concurrency": 1, "rate": 0.5})
    for _ in range(2):
        await enqueue(http, queue)

    assert put.json() == (await http.get(path)).json() == {"concurrency": 1, "rate": 0.5, "burst": None}
    assert len(await lease(http, queue, max=5)) == 1
    assert (await http.put(path, json={"burst": 3})).json()["field"] == "burst"


async def test_dead_jobs_are_brought_back_and_purged(http: httpx.AsyncClient, queue: str) -> None:
    for _ in range(3):
        job_id = await enqueue(http, queue)
        token = (await lease(http, queue))["lease_token"]
        await post(http, f"/jobs/{job_id}/nack", {"lease_token": token, "error": "x", "retry": False})

    assert await post(http, f"/queues/{queue}/dead/requeue", {"job_ids": [job_id]}) == {"requeued": 1}
    assert await post(http, f"/queues/{queue}/dead/purge") == {"purged": 2}
    [stats] = [one for one in (await http.get("/dashboard/queues")).json() if one["queue_name"] == queue]
    assert (stats["pending"], stats["dead"], stats["failed"], stats["total"]) == (1, 0, 0, 1)


async def test_health_and_readiness_are_open(live: Live) -> None:
    async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as stranger:
        assert [(await stranger.get(path)).json() for path in ("/health", "/ready")] == [{"status": "ok"}] * 2


# Bad input


async def test_a_stale_token_is_a_conflict_and_an_unknown_job_is_not_found(http: httpx.AsyncClient, queue: str) -> None:
    job_id = await enqueue(http, queue)
    await lease(http, queue)

    for act, more in (("ack", {}), ("nack", {"error": "x"}), ("heartbeat", {})):
        told = {"lease_token": UNKNOWN, **more}
        assert (await post(http, f"/jobs/{job_id}/{act}", told, 409))["code"] == "LeaseStale"
        assert (await post(http, f"/jobs/{UNKNOWN}/{act}", told, 404))["code"] == "JobNotFound"
    assert (await http.get(f"/jobs/{job_id}")).json() == {"job_id": job_id, "status": "processing"}
    assert (await http.post(f"/jobs/{job_id}/cancel")).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/jobs", {"queue_name": "q"}, "payload"),
        ("/jobs", {"payload": 1, "queue_name": "no spaces"}, "queue_name"),
        ("/jobs", {"payload": 1, "max_retries": -1}, "max_retries"),
        ("/jobs", {"payload": 1, "run_at": "tomorrow"}, "run_at"),
        ("/jobs", {"payload": 1, "run_at": "9999-12-31T00:00:00Z"}, "run_at"),
        ("/jobs", {"payload": 1, "color": "red"}, "color"),
        ("/jobs", {"payload": 1, "unique_key": ""}, "unique_key"),
        ("/jobs", {"payload": 1, "unique_key": "a\0b"}, "unique_key"),
        ("/jobs", {"payload": 1, "unique_seconds": 0}, "unique_seconds"),
        ("/jobs", {"payload": 1, "backoff": {"base": -1}}, "backoff"),
        ("/jobs", {"payload": 1, "backoff": {"delays": [1] * 101}}, "backoff.delays"),
        ("/jobs/batch", {"jobs": []}, "jobs"),
        ("/queues/q/lease", {}, "worker_id"),
        ("/queues/q/lease", {"worker_id": ""}, "worker_id"),
        ("/queues/q/lease", {"worker_id": "w", "lease_seconds": 0}, "lease_seconds"),
        ("/queues/q/lease", {"worker_id": "w", "max": 0}, "max"),
        ("/queues/q/lease", {"worker_id": "w", "wait": 61}, "wait"),
        ("/queues/no%20spaces/lease", {"worker_id": "w"}, "queue"),
        (f"/jobs/{UNKNOWN}/heartbeat", {"lease_token": "x", "progress": 101}, "progress"),
        (f"/jobs/{UNKNOWN}/nack", {"lease_token": "x", "error": "e", "retry_after": -1}, "retry_after"),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_bad_input_is_refused_with_its_field(
    client: httpx.AsyncClient, path: str, body: object, field: str
) -> None:
    answer = await post(client, path, body, 400)

    assert answer["field"] == field


async def test_a_payload_may_not_be_larger_than_a_mebibyte(client: httpx.AsyncClient) -> None:
    assert (await post(client, "/jobs", {"payload": "x" * 1_048_600}, 413))["code"] == "TooLarge"
    assert (await client.post("/jobs", json={"payload": "x" * 3_000_000})).status_code == 413


async def test_of_a_long_error_the_end_is_kept(client: httpx.AsyncClient) -> None:
    job_id = await enqueue(client, "work")
    token = (await lease(client, "work"))["lease_token"]
    await post(client, f"/jobs/{job_id}/nack", {"lease_token": token, "error": "x" * 20_000 + "the cause"})

    error = (await client.get(f"/jobs/{job_id}/detail")).json()["error_text"]

    assert (len(error), error[-9:]) == (10_000, "the cause")


# Who may come in


async def token_for(live: Live, *scopes: Scope, queues: str = "*", tenant: str | None = None) -> str:
    owner = (await live.engine.tenants.create(tenant)).id if tenant else DEFAULT_TENANT
    _, text = await live.engine.tenants.create_token(owner, "test", frozenset(scopes or {Scope.ADMIN}), queues=queues)
    return text


async def test_a_missing_or_unknown_token_is_unauthorized() -> None:
    async with running(Mode.TOKEN) as live, httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic x"}):
            answer = await http.post("/jobs", json={"payload": 1}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "Unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_does_what_its_scopes_and_queues_allow() -> None:
    async with running(Mode.TOKEN) as live:
        admin, producer = await token_for(live), await token_for(live, Scope.SEND, queues="mail-*")
        reader = await token_for(live, Scope.READ, queues="mail-*")
        async with live.client(admin) as http:
            secret = await enqueue(http, "secret")
        async with live.client(producer) as http:
            mail = await enqueue(http, "mail-out")
            await post(http, "/jobs", {"payload": 1, "queue_name": "secret"}, 403)
            await post(http, "/queues/mail-out/lease", {"worker_id": "w"}, 403)
            assert (await http.post(f"/jobs/{secret}/cancel")).status_code == 403
            assert (await http.post(f"/jobs/{mail}/cancel")).status_code == 200
        async with live.client(reader) as http:
            assert (await http.get(f"/jobs/{mail}")).status_code == 200
            assert (await http.get(f"/jobs/{secret}")).status_code == 403
            assert (await http.get("/jobs")).status_code == 403
            assert (await http.get("/jobs", params={"queue_name": "mail-out"})).status_code == 200
            assert [one["queue_name"] for one in (await http.get("/dashboard/queues")).json()] == ["mail-out"]


async def test_tenants_do_not_meet() -> None:
    async with running(Mode.TOKEN) as live:
        async with live.client(await token_for(live)) as http:
            job_id = await enqueue(http, "work")
            leased = await lease(http, "work")
        async with live.client(await token_for(live, tenant="other")) as stranger:
            assert (await stranger.get(f"/jobs/{job_id}")).status_code == 404
            assert (await stranger.get("/jobs")).json()["total"] == 0
            assert await lease(stranger, "work") is None
            await post(stranger, f"/jobs/{job_id}/ack", {"lease_token": leased["lease_token"]}, 404)
            assert (await stranger.get("/dashboard/queues")).json() == []


async def test_too_many_requests_are_told_when_to_come_back(clock: FakeClock) -> None:
    async with running(clock=clock, rate_per_token=5) as live, live.client("one") as one, live.client("two") as two:
        answers = [await one.get("/jobs") for _ in range(7)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
        assert answers[-1].json()["code"] == "RateLimited"
        assert answers[-1].headers["retry-after"] == "1"
        assert (await two.get("/jobs")).status_code == 200
        clock.advance(seconds=0.2)
        assert [(await one.get("/jobs")).status_code for _ in range(2)] == [200, 429]


async def test_the_rate_of_a_tenant_holds_over_all_tokens_and_nodes(clock: FakeClock, migrated_database: str) -> None:
    first, second = PostgresStore(migrated_database), PostgresStore(migrated_database)
    async with (
        running(clock=clock, store=first, rate_per_tenant=100) as one,
        running(clock=clock, store=second, rate_per_tenant=100) as two,
        one.client("a") as http,
        two.client("b") as other,
    ):
        answers = [await near.get("/jobs") for _ in range(60) for near in (http, other)]

    assert sorted(answer.status_code for answer in answers) == [200] * 100 + [429] * 20


# Waiting


async def asleep(live: Live, queue: str) -> None:
    """Return when a worker waits on the queue, and the store was told so."""
    jobs, key = live.engine.jobs, job_key(DEFAULT_TENANT, queue)
    async with asyncio.timeout(5):
        while not jobs._expectations.knows(key) or not jobs._waiters.waiting(key) or not jobs._leases.idle:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting leases are woken, or sleep on."""
    monkeypatch.setattr("penstock.engine.waiting.RECHECK_S", 60.0)


@pytest.mark.usefixtures("no_second_look")
async def test_a_waiting_worker_is_woken_by_an_enqueue(live: Live, http: httpx.AsyncClient, queue: str) -> None:
    waiting = asyncio.create_task(lease(http, queue, wait=20))
    await asleep(live, queue)
    job_id = await enqueue(http, queue)

    leased = await asyncio.wait_for(waiting, 10)

    assert leased["job"]["id"] == job_id


async def test_a_worker_that_leaves_gives_its_job_back(live: Live, queue: str) -> None:
    async with live.client() as http:
        waiting = asyncio.create_task(lease(http, queue, wait=20))
        await asleep(live, queue)
        waiting.cancel()
    async with live.client() as http:
        await enqueue(http, queue)
        leased = await lease(http, queue, wait=5)

    assert leased["job"]["attempt"] == 1


@pytest.mark.usefixtures("no_second_look")
async def test_a_worker_is_woken_from_another_node_and_from_sql(postgres_dsn: str, queue: str) -> None:
    far = Engine(PostgresStore(postgres_dsn))
    await far.open()
    try:
        async with running(store=PostgresStore(postgres_dsn)) as live, live.client() as http:
            waiting = asyncio.create_task(lease(http, queue, wait=20))
            await asleep(live, queue)
            made = await far.jobs.enqueue(NewJob(tenant=DEFAULT_TENANT, queue=queue, payload="1"))
            assert (await asyncio.wait_for(waiting, 10))["job"]["id"] == made.id

            waiting = asyncio.create_task(lease(http, queue, wait=20))
            await asleep(live, queue)
            with psycopg.connect(postgres_dsn) as connection:
                row = connection.execute("select penstock.enqueue_job(%s, '{\"a\": 1}')", [queue]).fetchone()
            leased = await asyncio.wait_for(waiting, 10)
            assert row is not None
            assert (leased["job"]["id"], leased["job"]["payload"]) == (str(row[0]), {"a": 1})
    finally:
        await far.close()


async def test_a_stopping_server_lets_waiting_workers_go(queue: str) -> None:
    async with running() as live, live.client() as http:
        waiting = asyncio.create_task(lease(http, queue, wait=20, max=1))
        await asleep(live, queue)
        await live.stop()
        assert await asyncio.wait_for(waiting, 5) == []
