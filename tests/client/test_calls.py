"""What each call says on the wire, and how both clients make it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import errors
from penstock.client import AsyncClient, Client, JobFailed, LeasedJob, NewJob, Retries
from penstock.client.api.jobs import job_of, leased_of
from penstock.client.api.new_jobs import HEAVIEST, MOST, chunks, encode
from penstock.client.exchange import Answer, Failure, Request
from tests.client.fakes import AsyncScripted, Scripted, answer, fault

JOB = {"id": "7", "queue_name": "emails", "status": "pending", "payload": {"to": "ada"}}
LEASED: LeasedJob = leased_of({"job": JOB, "lease_token": "token", "lease_expires_at": "2026-01-01T00:00:30Z"})

QUICK = Retries(attempts=2, base_s=0.0)


class Both:
    """One call on the client that blocks and on the one that does not: they must ask and answer the same."""

    def __init__(self, ask: Callable[[Any], Any], *outcomes: Answer | Failure) -> None:
        script, self._async_script = Scripted(*outcomes), AsyncScripted(*outcomes)
        self.result = ask(Client("http://test", "t", transport=script, retries=QUICK))
        again = asyncio.run(self._async(ask))
        assert again == self.result
        assert script.requests == self._async_script.script.requests
        self.requests = script.requests

    async def _async(self, ask: Callable[[Any], Any]) -> Any:
        async with AsyncClient("http://test", "t", transport=self._async_script, retries=QUICK) as client:
            return await ask(client)

    @property
    def request(self) -> Request:
        [request] = self.requests
        return request

    @property
    def body(self) -> Any:
        assert self.request.body is not None
        return json.loads(self.request.body)


def test_enqueue() -> None:
    made = Both(lambda client: client.jobs.enqueue("emails", {"to": "ada"}), answer(201, {"job_id": "7"}))

    assert made.result == "7"
    assert (made.request.method, made.request.path) == ("POST", "/v1/jobs")
    assert made.body == {"queue_name": "emails", "payload": {"to": "ada"}}
    assert not made.request.repeatable


def test_enqueue_with_everything() -> None:
    made = Both(
        lambda client: client.jobs.enqueue(
            "emails",
            {"to": "ada"},
            task="send",
            priority=5,
            max_retries=0,
            run_at=datetime(2026, 1, 1, tzinfo=UTC),
            unique_key="ada",
            unique_seconds=timedelta(minutes=2),
            backoff={"delays": [1, 5]},
        ),
        answer(201, {"job_id": "7"}),
    )

    assert made.body == {
        "queue_name": "emails",
        "payload": {"to": "ada", "task": "send"},
        "priority": 5,
        "max_retries": 0,
        "run_at": "2026-01-01T00:00:00+00:00",
        "unique_key": "ada",
        "unique_seconds": 120,
        "backoff": {"delays": [1, 5]},
    }


def test_a_job_with_a_unique_key_may_be_sent_again() -> None:
    lost = Failure("cut off", sent=True)
    made = Both(lambda client: client.jobs.enqueue("emails", unique_key="ada"), lost, answer(201, {"job_id": "7"}))

    assert made.result == "7"
    assert len(made.requests) == 2


def test_enqueue_many() -> None:
    jobs = [NewJob("emails", {"n": 1}), NewJob("letters", {"n": 2})]
    made = Both(lambda client: client.jobs.enqueue_many(jobs), answer(201, {"job_ids": ["7", "8"]}))

    assert made.result == ["7", "8"]
    assert made.request.path == "/v1/jobs/batch"
    assert [job["queue_name"] for job in made.body["jobs"]] == ["emails", "letters"]


def test_no_jobs_need_no_request() -> None:
    assert Both(lambda client: client.jobs.enqueue_many([])).requests == []


def test_many_jobs_are_cut_by_number_and_by_weight() -> None:
    assert [len(part) for part in chunks([NewJob("q")] * (MOST + 1))] == [MOST, 1]
    heavy = NewJob("q", {"text": "x" * (HEAVIEST // 2)})
    assert [len(part) for part in chunks([heavy, NewJob("q"), heavy, heavy])] == [2, 1, 1]


def test_a_moment_without_its_zone_is_refused() -> None:
    with pytest.raises(errors.Invalid, match="time zone"):
        encode(NewJob("q", run_at=datetime(2026, 1, 1)))


@pytest.mark.parametrize("payload", [[1, 2], "text", 5, False, {"a": 1}])
def test_the_payload_of_a_job_is_any_json(payload: object) -> None:
    assert json.loads(encode(NewJob("q", payload)).body)["payload"] == payload


def test_a_task_travels_in_an_object() -> None:
    assert json.loads(encode(NewJob("q", {"a": 1}, task="t")).body)["payload"] == {"a": 1, "task": "t"}
    assert json.loads(encode(NewJob("q", task="t")).body)["payload"] == {"task": "t"}
    with pytest.raises(errors.Invalid, match="needs an object as its payload"):
        encode(NewJob("q", [1], task="t"))


def test_many_jobs_are_new_jobs() -> None:
    with pytest.raises(TypeError, match=r"NewJob\(queue_name, payload, ...\), not dict"):
        list(chunks([{"queue_name": "q"}]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("2030-01-01", "2030-01-01T00:00:00"),
        ("20300101T090000Z", "2030-01-01T09:00:00+00:00"),
        ("2030-01-01T09:00:00+02:00", "2030-01-01T09:00:00+02:00"),
    ],
)
def test_a_moment_may_have_any_form_of_iso_8601(given: str, sent: str) -> None:
    assert json.loads(encode(NewJob("q", run_at=given)).body)["run_at"] == sent


def test_status_and_get() -> None:
    assert Both(lambda client: client.jobs.status("7"), answer(200, {"status": "dead"})).result == "dead"
    assert Both(lambda client: client.jobs.get("7"), answer(200, JOB)).result == job_of(JOB)


def test_names_cannot_leave_their_place_in_the_path() -> None:
    made = Both(lambda client: client.jobs.status("../queues?x=/"), answer(200, {"status": "dead"}))

    assert made.request.path == "/v1/jobs/..%2Fqueues%3Fx%3D%2F"


@pytest.mark.parametrize("name", [".", ".."])
def test_segments_that_http_clients_resolve_are_refused(name: str) -> None:
    with pytest.raises(errors.Invalid, match="cannot be part of a URL"):
        Client("http://test", "t", transport=Scripted()).queues.get(name)


def test_jobs_are_listed_page_by_page() -> None:
    pages = [answer(200, {"items": [JOB, JOB], "next_cursor": "next"}), answer(200, {"items": [JOB]})]

    script = Scripted(*pages)
    found = list(Client("http://test", "t", transport=script).jobs.all(queue_name="emails", status="pending"))

    assert [job.id for job in found] == ["7", "7", "7"]
    assert [request.query.get("cursor") for request in script.requests] == [None, "next"]
    assert script.requests[0].query["queue_name"] == "emails"


async def test_jobs_are_listed_page_by_page_asynchronously() -> None:
    pages = [answer(200, {"items": [JOB, JOB], "next_cursor": "next"}), answer(200, {"items": [JOB]})]

    async with AsyncClient("http://test", "t", transport=AsyncScripted(*pages)) as client:
        assert [job.id async for job in client.jobs.all()] == ["7", "7", "7"]


def test_lease_heartbeat_ack_and_nack() -> None:
    leased = {"job": JOB, "lease_token": "token", "lease_expires_at": "2026-01-01T00:00:30Z"}
    made = Both(lambda client: client.jobs.lease("emails", "w", max=5, wait=20), answer(200, [leased]))
    assert made.result == [LEASED]
    assert made.body == {"worker_id": "w", "lease_seconds": 30, "max": 5, "wait": 20}
    assert made.request.timeout_s > 20

    made = Both(lambda client: client.jobs.heartbeat(LEASED, progress=50, note="half"), answer(200, {}))
    assert made.body == {"lease_token": "token", "lease_seconds": 30, "progress": 50, "note": "half"}

    made = Both(lambda client: client.jobs.ack(LEASED, {"sent": True}), answer(200, {}))
    assert (made.request.path, made.body) == ("/v1/jobs/7/ack", {"lease_token": "token", "result": {"sent": True}})

    made = Both(lambda client: client.jobs.nack(LEASED, "no", retry=True, retry_after=9), answer(200, {}))
    assert made.body == {"lease_token": "token", "error": "no", "retry": True, "retry_after": 9}


def test_a_lost_lease_is_told_by_its_type() -> None:
    client = Client("http://test", "t", transport=Scripted(fault(409, "LeaseStale")))

    with pytest.raises(errors.LeaseStale):
        client.jobs.ack(LEASED)


def test_waiting_answers_the_result() -> None:
    processing, completed = answer(200, JOB), answer(200, JOB | {"status": "completed", "result": {"sent": True}})

    assert Both(lambda client: client.jobs.wait("7"), processing, processing, completed).result == {"sent": True}


@pytest.mark.parametrize("status", ["dead", "cancelled"])
def test_waiting_for_a_job_that_fails_raises(status: str) -> None:
    client = Client("http://test", "t", transport=Scripted(answer(200, JOB | {"status": status, "error_text": "why"})))

    with pytest.raises(JobFailed, match="why") as caught:
        client.jobs.wait("7")
    assert caught.value.job.status == status


def test_waiting_ends() -> None:
    client = Client("http://test", "t", transport=Scripted(*[answer(200, JOB)] * 3))

    with pytest.raises(TimeoutError, match="still pending"):
        client.jobs.wait("7", timeout=0.03)
