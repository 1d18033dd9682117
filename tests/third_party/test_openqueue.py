"""The published SDK of OpenQueue, unchanged, through the life of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from openqueue import OpenQueue  # type: ignore[import-untyped]
from openqueue.exceptions import AuthenticationError, JobNotFoundError, LeaseTokenError  # type: ignore[import-untyped]
from openqueue.models import JobStatus  # type: ignore[import-untyped]

from tests.system.serving import Running, serving
from tests.third_party.environment import eventually


@pytest.fixture
def client(server: Running) -> Iterator[OpenQueue]:
    with OpenQueue(server.url, "any-token") as client:
        yield client


def test_a_job_is_enqueued_leased_beaten_for_and_acknowledged(client: OpenQueue, name: str) -> None:
    job_id = client.enqueue(name, {"to": "ada"}, priority=5)
    assert client.get_status(job_id) == "pending"

    leased = client.lease(name, "worker-1")
    assert leased is not None
    assert (leased.job.id, leased.job.payload, leased.job.priority) == (job_id, {"to": "ada"}, 5)
    assert leased.lease_expires_at is not None
    assert leased.lease_expires_at > datetime.now(UTC)
    assert client.get_status(job_id) == "processing"

    assert client.heartbeat(job_id, leased.lease_token, lease_seconds=60)
    assert client.ack(job_id, leased.lease_token, result={"sent": True})

    job = client.get_job(job_id)
    assert (job.status, job.result, job.retry_count) == (JobStatus.COMPLETED, {"sent": True}, 0)
    moments = [job.created_at, job.started_at, job.finished_at]
    assert moments == sorted(moment for moment in moments if moment is not None)


def test_an_empty_queue_gives_none(client: OpenQueue, name: str) -> None:
    assert client.lease(name, "worker-1") is None


def test_a_batch_is_leased_by_priority_and_age(client: OpenQueue, name: str) -> None:
    ids = client.enqueue_batch(
        [
            {"queue_name": name, "payload": {"n": 1}},
            {"queue_name": name, "payload": {"n": 2}},
            {"queue_name": name, "payload": {"n": 3}, "priority": 10},
        ]
    )

    leased = [client.lease(name, "worker-1") for _ in ids]

    assert [found.job.id for found in leased if found] == [ids[2], ids[0], ids[1]]


def test_a_failed_job_waits_for_its_retry_and_a_hopeless_one_is_dead(client: OpenQueue, name: str) -> None:
    job_id = client.enqueue(name, {})
    leased = client.lease(name, "worker-1")
    assert leased is not None

    client.nack(job_id, leased.lease_token, error="no route")

    job = client.get_job(job_id)
    assert (job.status, job.retry_count, job.error_text) == (JobStatus.PENDING, 1, "no route")
    assert client.lease(name, "worker-1") is None

    again = eventually(lambda: client.lease(name, "worker-2"))
    client.nack(job_id, again.lease_token, error="no such place", retry=False)
    assert client.get_status(job_id) == "dead"


def test_a_wrong_lease_token_changes_nothing(client: OpenQueue, name: str) -> None:
    job_id = client.enqueue(name, {})
    leased = client.lease(name, "worker-1")
    assert leased is not None

    wrong = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(LeaseTokenError):
        client.ack(job_id, wrong)
    with pytest.raises(LeaseTokenError):
        client.nack(job_id, wrong, error="x")
    with pytest.raises(LeaseTokenError):
        client.heartbeat(job_id, wrong)
    with pytest.raises(LeaseTokenError):
        client.ack(job_id, "not even a token")

    assert client.get_status(job_id) == "processing"
    assert client.ack(job_id, leased.lease_token)
    with pytest.raises(LeaseTokenError):
        client.ack(job_id, leased.lease_token)


def test_an_unknown_job_is_not_found(client: OpenQueue) -> None:
    with pytest.raises(JobNotFoundError):
        client.get_job("00000000-0000-4000-8000-000000000000")


def test_only_a_pending_job_is_cancelled(client: OpenQueue, name: str) -> None:
    job_id = client.enqueue(name, {})
    running = client.enqueue(name, {}, priority=1)
    assert client.lease(name, "worker-1") is not None

    assert client.cancel_job(job_id)
    assert not client.cancel_job(job_id)
    assert not client.cancel_job(running)
    assert client.get_status(job_id) == "cancelled"


def test_a_job_for_later_is_not_leased_now(client: OpenQueue, name: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)

    job_id = client.enqueue(name, {}, run_at=later.isoformat().replace("+00:00", "Z"))

    assert client.lease(name, "worker-1") is None
    assert client.get_status(job_id) == "pending"


def test_jobs_are_listed_and_counted(client: OpenQueue, name: str) -> None:
    ids = client.enqueue_batch([{"queue_name": name, "payload": {"n": n}} for n in range(5)])
    leased = client.lease(name, "worker-1")
    assert leased is not None
    client.ack(leased.job.id, leased.lease_token)

    page = client.list_jobs(queue_name=name, limit=2, offset=1)
    pending = client.list_jobs(queue_name=name, status="pending")
    [stats] = [found for found in client.get_queue_stats() if found.queue_name == name]

    assert ([job.id for job in page.items], page.total) == (ids[3:1:-1], 5)
    assert ([job.id for job in pending.items], pending.total) == (ids[:0:-1], 4)
    assert (stats.pending, stats.processing, stats.completed, stats.total) == (4, 0, 1, 5)
    assert stats.oldest_pending_created_at is not None


def test_with_tokens_an_unknown_one_is_refused() -> None:
    with serving("--memory", "--auth", "token") as server:
        found = re.search(r"pst_\w+_[\w-]+", server.said)
        assert found is not None
        with OpenQueue(server.url, found[0]) as client, OpenQueue(server.url, "wrong") as stranger:
            job_id = client.enqueue("emails", {})
            with pytest.raises(AuthenticationError):
                stranger.get_status(job_id)
            assert client.get_status(job_id) == "pending"
