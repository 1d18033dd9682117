"""The client and the worker against a server: the life of a job, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from penstock import (
    AsyncClient,
    Client,
    Dead,
    Forbidden,
    Invalid,
    JobFailed,
    JobNotFound,
    LeaseStale,
    NewJob,
    Retry,
    RunningJob,
    Worker,
)
from penstock.auth import Mode
from tests.wire.conftest import Live, build_store, running


@pytest.fixture(params=["sqlite", "postgres"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    async with running(store=build_store(request.param, request)) as live:
        yield live


@pytest.fixture
async def client(server: Live) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.url, "anyone") as client:
        yield client


@pytest.fixture
def queue() -> str:
    return f"work-{uuid4().hex}"


def worker_of(server: Live, queue: str, **options: Any) -> Worker:
    return Worker(server.url, "anyone", queue, **options)


async def test_a_job_is_run_and_its_result_kept(server: Live, client: AsyncClient, queue: str) -> None:
    worker = worker_of(server, queue)

    @worker.task
    async def double(job: RunningJob) -> dict[str, int]:
        job.progress(50, "half")
        return {"doubled": job.payload["n"] * 2}

    job_id = await client.jobs.enqueue(queue, {"n": 21}, task="double")
    assert await client.jobs.status(job_id) == "pending"
    await worker.serve(drain=True)

    assert await client.jobs.wait(job_id) == {"doubled": 42}
    job = await client.jobs.get(job_id)
    assert (job.status, job.payload, job.retry_count) == ("completed", {"n": 21, "task": "double"}, 0)
    [attempt] = job.attempts
    assert (attempt.worker_id, attempt.outcome) == (worker.name, "completed")


async def test_a_worker_that_waits_is_woken(server: Live, client: AsyncClient, queue: str) -> None:
    worker = worker_of(server, queue)

    @worker.task
    def greet(job: RunningJob) -> str:
        return f"hello {job.payload['name']}"

    serving = asyncio.create_task(worker.serve())
    try:
        job_id = await client.jobs.enqueue(queue, {"name": "ada"})
        assert await client.jobs.wait(job_id, timeout=10) == "hello ada"
    finally:
        worker.stop()
        await serving


async def test_a_failing_job_is_tried_again_and_dies(server: Live, client: AsyncClient, queue: str) -> None:
    worker = worker_of(server, queue)

    @worker.task
    async def fail(job: RunningJob) -> None:
        raise ValueError("seven")

    job_id = await client.jobs.enqueue(queue, {}, max_retries=2, backoff={"delays": [0.0]})
    await worker.serve(drain=True)

    with pytest.raises(JobFailed, match="ValueError: seven") as caught:
        await client.jobs.wait(job_id)
    assert [attempt.outcome for attempt in caught.value.job.attempts] == ["failed"] * 3


async def test_a_task_may_ask_for_a_later_retry_or_for_none(server: Live, client: AsyncClient, queue: str) -> None:
    worker = worker_of(server, queue)

    @worker.task
    async def later(job: RunningJob) -> None:
        raise Retry("not yet", after=timedelta(hours=1))

    @worker.task
    async def never(job: RunningJob) -> None:
        raise Dead("no such customer")

    late, dead = await client.jobs.enqueue(queue, task="later"), await client.jobs.enqueue(queue, task="never")
    await worker.serve(drain=True)

    job = await client.jobs.get(late)
    assert (job.status, job.error_text) == ("pending", "not yet")
    assert job.run_at is not None
    assert job.run_at > datetime.now(UTC) + timedelta(minutes=59)
    assert ((await client.jobs.get(dead)).status, (await client.jobs.get(dead)).error_text) == (
        "dead",
        "no such customer",
    )


async def test_progress_is_seen_while_the_job_runs(server: Live, client: AsyncClient, queue: str) -> None:
    worker = worker_of(server, queue)
    go_on = asyncio.Event()

    @worker.task
    async def work(job: RunningJob) -> None:
        job.progress(40, "nearly half")
        await go_on.wait()

    job_id = await client.jobs.enqueue(queue)
    serving = asyncio.create_task(worker.serve())
    try:
        async with asyncio.timeout(10):
            while (await client.jobs.get(job_id)).progress != 40:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await client.jobs.get(job_id)).progress_note == "nearly half"
    finally:
        go_on.set()
        worker.stop()
        await serving


async def test_a_unique_key_stores_one_job(client: AsyncClient, queue: str) -> None:
    first = await client.jobs.enqueue(queue, {"n": 1}, unique_key="ada", unique_seconds=timedelta(minutes=5))

    assert await client.jobs.enqueue(queue, {"n": 2}, unique_key="ada") == first
    assert [job.payload async for job in client.jobs.all(queue_name=queue)] == [{"n": 1}]


async def test_all_pages_are_listed(client: AsyncClient, queue: str) -> None:
    ids = await client.jobs.enqueue_many(NewJob(queue, {"n": number}) for number in range(450))

    assert sorted([job.id async for job in client.jobs.all(queue_name=queue, status="pending")]) == sorted(ids)


async def test_jobs_enqueued_at_the_same_time_are_all_stored(client: AsyncClient, queue: str) -> None:
    ids = await asyncio.gather(*(client.jobs.enqueue(queue, {"n": number}) for number in range(50)))

    assert sorted([job.id async for job in client.jobs.all(queue_name=queue)]) == sorted(ids)


async def test_a_cancelled_job_fails_whoever_waits(client: AsyncClient, queue: str) -> None:
    job_id = await client.jobs.enqueue(queue)
    await client.jobs.cancel(job_id)

    with pytest.raises(JobFailed, match="cancelled"):
        await client.jobs.wait(job_id)
    with pytest.raises(JobNotFound):
        await client.jobs.cancel(job_id)


async def test_errors_have_their_types(client: AsyncClient, queue: str) -> None:
    with pytest.raises(Invalid):
        await client.jobs.enqueue("no such name!", {})
    with pytest.raises(JobNotFound):
        await client.jobs.get("00000000-0000-0000-0000-000000000000")
    await client.jobs.enqueue(queue)
    [leased] = await client.jobs.lease(queue, "me")
    await client.jobs.ack(leased)
    with pytest.raises(LeaseStale):
        await client.jobs.ack(leased)


async def test_a_wrong_token_is_forbidden() -> None:
    async with running(Mode.TOKEN) as live, AsyncClient(live.url, "wrong") as client:
        with pytest.raises(Forbidden):
            await client.jobs.enqueue("work", {})


async def test_the_client_that_blocks_does_the_same(server: Live, queue: str) -> None:
    def life() -> Any:
        with Client(server.url, "anyone") as client:
            job_id = client.jobs.enqueue(queue, {"n": 1})
            [leased] = client.jobs.lease(queue, "me", max=5)
            client.jobs.heartbeat(leased, progress=10)
            client.jobs.nack(leased, "not yet", retry_after=0)
            [leased] = client.jobs.lease(queue, "me", wait=5)
            client.jobs.ack(leased, {"n": 2})
            assert [job.id for job in client.jobs.all(queue_name=queue)] == [job_id]
            assert [found.completed for found in client.jobs.queues() if found.queue_name == queue] == [1]
            return client.jobs.wait(job_id, timeout=10)

    assert await asyncio.to_thread(life) == {"n": 2}


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    from penstock import Unavailable
    from penstock.client import Retries

    quick = Retries(attempts=2, base_s=0.001)
    async with AsyncClient("http://127.0.0.1:1", "anyone", retries=quick) as client:
        with pytest.raises(Unavailable, match="did not answer"):
            await client.jobs.enqueue("work", {})
    with Client("http://127.0.0.1:1", "anyone", retries=quick) as blocking, pytest.raises(Unavailable):
        blocking.jobs.enqueue("work", {})
