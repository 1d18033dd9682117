"""What a worker does with jobs, against a server in memory."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from penstock import errors
from penstock.client import Dead, Retry, RunningJob, Worker
from penstock.client.exchange import Answer, Failure, Request
from tests.client.fakes import JobServer, answer, fault


def worker_of(server: JobServer, **options: Any) -> Worker:
    return Worker("http://test", "t", "work", transport=server, **options)


@contextmanager
def serving(worker: Worker) -> Iterator[asyncio.Task[None]]:
    task = asyncio.create_task(worker.serve())
    yield task
    assert task.done(), "the test must see the worker end"


async def eventually(true: Any) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def test_what_a_task_returns_is_the_result() -> None:
    server = JobServer([{"n": 2}, {"n": 3}])
    worker = worker_of(server)

    @worker.task
    async def double(job: RunningJob) -> dict[str, int]:
        return {"doubled": job.payload["n"] * 2}

    worker.run(drain=True)

    assert server.told("ack") == [
        ("job-1", {"lease_token": "token-of-job-1", "result": {"doubled": 4}}),
        ("job-2", {"lease_token": "token-of-job-2", "result": {"doubled": 6}}),
    ]


def test_a_plain_function_runs_in_a_thread() -> None:
    server = JobServer([None] * 3)
    worker = worker_of(server)
    threads = set()

    @worker.task
    def work(job: RunningJob) -> None:
        threads.add(threading.current_thread())

    worker.run(drain=True)

    assert len(server.told("ack")) == 3
    assert threading.main_thread() not in threads


def test_jobs_find_their_tasks_by_name() -> None:
    server = JobServer([{"task": "greet"}, {"task": "part"}, {"task": "unknown"}, {}])
    worker = worker_of(server)

    @worker.task
    async def greet(job: RunningJob) -> str:
        return "hello"

    @worker.task("part")
    async def some_function(job: RunningJob) -> str:
        return "goodbye"

    worker.run(drain=True)

    assert [(job, body["result"]) for job, body in server.told("ack")] == [("job-1", "hello"), ("job-2", "goodbye")]
    assert [(job, body["error"], body["retry"]) for job, body in server.told("nack")] == [
        ("job-3", "this worker has no task 'unknown'", True),
        ("job-4", "this worker has no task None", True),
    ]


def test_two_tasks_of_one_name_are_refused() -> None:
    worker = worker_of(JobServer())
    worker.task("same")(print)

    with pytest.raises(ValueError, match="'same' is already"):
        worker.task("same")(print)


async def test_a_worker_without_tasks_is_refused() -> None:
    with pytest.raises(ValueError, match="no task"):
        await worker_of(JobServer()).serve()


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ValueError("seven"), {"error": "ValueError: seven", "retry": True}),
        (KeyError(), {"error": "KeyError", "retry": True}),
        (Retry("later"), {"error": "later", "retry": True}),
        (Retry("later", after=9), {"error": "later", "retry": True, "retry_after": 9}),
        (Retry("later", after=timedelta(minutes=1)), {"error": "later", "retry": True, "retry_after": 60.0}),
        (Dead("never"), {"error": "never", "retry": False}),
    ],
    ids=["error", "error without text", "retry", "retry after", "retry after a time", "dead"],
)
@pytest.mark.parametrize("blocks", [False, True], ids=["coroutine", "function"])
def test_what_a_task_raises_is_told(raised: Exception, told: dict[str, Any], blocks: bool) -> None:
    server = JobServer([None])
    worker = worker_of(server)

    def function(job: RunningJob) -> None:
        raise raised

    async def coroutine(job: RunningJob) -> None:
        raise raised

    worker.task(function if blocks else coroutine)
    worker.run(drain=True)

    [(job_id, body)] = server.told("nack")
    # The first line is the message; of other errors than ours a traceback follows.
    first, _, traceback = body["error"].partition("\n\n")
    assert (job_id, body | {"error": first}) == ("job-1", {"lease_token": "token-of-job-1", **told})
    assert traceback.startswith("Traceback") == (not isinstance(raised, Retry | Dead))
    assert server.told("ack") == []


def test_a_result_that_is_no_json_is_a_failure() -> None:
    server = JobServer([None])
    worker = worker_of(server)

    @worker.task
    async def work(job: RunningJob) -> object:
        return object()

    worker.run(drain=True)

    [(_, body)] = server.told("nack")
    assert "cannot be stored as JSON" in body["error"]


def test_a_result_that_the_server_refuses_is_the_end_of_the_job() -> None:
    server = JobServer([None])
    server.override = refusing("/ack", fault(413, "TooLarge", "too large"))
    worker = worker_of(server)
    worker.task(_nothing)

    worker.run(drain=True)

    [(_, body)] = server.told("nack")
    assert (body["error"], body["retry"]) == ("the outcome was refused: too large", False)


def test_no_more_jobs_are_leased_than_there_are_hands() -> None:
    server = JobServer([None] * 20)
    worker = worker_of(server, concurrency=3)
    running = 0
    most = 0

    @worker.task
    async def work(job: RunningJob) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    worker.run(drain=True)

    assert len(server.told("ack")) == 20
    assert most == 3
    assert max(lease["max"] for lease in server.leases) == 3


async def test_a_worker_waits_at_the_server_for_jobs() -> None:
    server = JobServer()
    worker = worker_of(server, poll_s=7)
    worker.task(_nothing)

    with serving(worker) as task:
        await eventually(lambda: server.leases)
        assert server.leases[0]["wait"] == 7
        server.add("late")
        await eventually(lambda: server.told("ack"))
        worker.stop()
        await task


async def _nothing(job: RunningJob) -> None:
    pass


# Leases


async def test_a_lease_is_renewed_while_the_task_runs() -> None:
    server = JobServer([None])
    worker = worker_of(server, lease_s=1)
    beaten = asyncio.Event()

    @worker.task
    async def work(job: RunningJob) -> None:
        await beaten.wait()

    with serving(worker) as task:
        await eventually(lambda: len(server.told("heartbeat")) == 3)
        beaten.set()
        await eventually(lambda: server.told("ack"))
        worker.stop()
        await task

    assert server.told("heartbeat")[0] == ("job-1", {"lease_token": "token-of-job-1", "lease_seconds": 1})


async def test_progress_goes_with_a_heartbeat_at_once() -> None:
    server = JobServer([None])
    worker = worker_of(server, lease_s=3600)
    done = asyncio.Event()

    @worker.task
    async def work(job: RunningJob) -> None:
        job.progress(50, "half")
        await done.wait()

    with serving(worker) as task:
        await eventually(lambda: server.told("heartbeat"))
        done.set()
        worker.stop()
        await task

    [(_, body)] = server.told("heartbeat")
    assert (body["progress"], body["note"]) == (50, "half")


async def test_progress_out_of_bounds_is_refused() -> None:
    server = JobServer([None])
    worker = worker_of(server)

    @worker.task
    async def work(job: RunningJob) -> None:
        job.progress(101)

    await worker.serve(drain=True)

    [(_, body)] = server.told("nack")
    assert "0 to 100" in body["error"]


def refusing(verb: str, outcome: Answer | Failure) -> Any:
    return lambda request: outcome if request.path.endswith(verb) else None


@pytest.mark.parametrize(
    "outcome", [fault(409, "LeaseStale"), fault(404, "JobNotFound"), answer(503), Failure("away", sent=True)]
)
async def test_a_coroutine_that_lost_its_lease_is_cancelled_and_reports_nothing(outcome: Answer | Failure) -> None:
    # With 503 and no answer nobody says so: the lease is over by our own clock.
    server = JobServer([None])
    server.override = refusing("/heartbeat", outcome)
    worker = worker_of(server, lease_s=1)
    cancelled = asyncio.Event()

    @worker.task
    async def work(job: RunningJob) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert job.is_lost
            cancelled.set()
            raise

    with serving(worker) as task:
        await asyncio.wait_for(cancelled.wait(), 10)
        worker.stop()
        await task

    assert server.told("ack") == server.told("nack") == []


async def test_a_function_that_lost_its_lease_is_told_when_it_asks() -> None:
    server = JobServer([None])
    server.override = refusing("/heartbeat", fault(409, "LeaseStale"))
    worker = worker_of(server, lease_s=1)
    told = threading.Event()

    @worker.task
    def work(job: RunningJob) -> None:
        for _ in range(2000):
            try:
                job.check()
            except errors.LeaseStale:
                told.set()
                raise
            threading.Event().wait(0.005)

    with serving(worker) as task:
        await eventually(told.is_set)
        worker.stop()
        await task

    assert server.told("ack") == server.told("nack") == []


async def test_an_outcome_that_is_refused_does_not_stop_the_worker() -> None:
    server = JobServer([None, None])
    server.override = lambda request: fault(409, "LeaseStale") if "job-1/ack" in request.path else None
    worker = worker_of(server, concurrency=1)
    worker.task(_nothing)

    await worker.serve(drain=True)

    assert [job for job, _ in server.told("ack")] == ["job-1", "job-2"]


# Trouble


async def test_an_outcome_is_told_again_until_it_arrives() -> None:
    server = JobServer([None])
    troubles: Iterator[Answer | Failure] = iter([answer(503), Failure("away", sent=True)])
    server.override = lambda request: next(troubles, None) if request.path.endswith("/ack") else None
    worker = worker_of(server)
    worker.task(_nothing)

    await worker.serve(drain=True)

    assert len(server.told("ack")) == 3


@pytest.mark.parametrize(
    "trouble",
    [Failure("away", sent=False), answer(503), fault(500, "InternalError"), answer(429)],
    ids=["away", "unavailable", "at fault", "busy"],
)
async def test_a_server_in_trouble_is_asked_again(trouble: Answer | Failure) -> None:
    server = JobServer([None])
    troubles: Iterator[Answer | Failure] = iter([trouble] * 9)

    def override(request: Request) -> Answer | Failure | None:
        return next(troubles, None) if request.path.endswith("/lease") else None

    server.override = override
    worker = worker_of(server)
    worker.task(_nothing)
    patient, worker_module = _quick_retries()
    try:
        await worker.serve(drain=True)
    finally:
        worker_module.PATIENT = patient

    assert len(server.told("ack")) == 1


def _quick_retries() -> Any:
    from penstock.client import Retries, worker

    patient, worker.PATIENT = worker.PATIENT, Retries(attempts=4, base_s=0.001, cap_s=0.001)
    return patient, worker


async def test_a_token_that_is_refused_ends_the_worker() -> None:
    server = JobServer()
    server.override = refusing("/lease", answer(401, {"error": "no such token", "code": "Unauthorized"}))
    worker = worker_of(server)
    worker.task(_nothing)

    with pytest.raises(errors.Forbidden, match="no such token"):
        await worker.serve()


# Stopping


async def test_a_worker_that_is_stopped_finishes_what_it_runs() -> None:
    server = JobServer([None])
    worker = worker_of(server)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @worker.task
    async def work(job: RunningJob) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    with serving(worker) as task:
        await begun.wait()
        worker.stop()
        await asyncio.sleep(0.01)
        server.add("too-late")
        go_on.set()
        await task

    assert [(job, body["result"]) for job, body in server.told("ack")] == [("job-1", "done")]
    assert len(server.waiting) == 1


async def test_what_takes_longer_than_the_grace_is_cancelled_and_given_back() -> None:
    server = JobServer([None])
    worker = worker_of(server, grace_s=0.01)
    begun = asyncio.Event()

    @worker.task
    async def work(job: RunningJob) -> None:
        begun.set()
        await asyncio.Event().wait()

    with serving(worker) as task:
        await begun.wait()
        worker.stop()
        await task

    assert server.told("nack") == [
        (
            "job-1",
            {"lease_token": "token-of-job-1", "error": "the worker was stopped", "retry": True, "retry_after": 0},
        )
    ]


async def test_a_second_stop_is_in_a_hurry() -> None:
    server = JobServer([None])
    worker = worker_of(server, grace_s=3600)
    begun = asyncio.Event()

    @worker.task
    async def work(job: RunningJob) -> None:
        begun.set()
        await asyncio.Event().wait()

    with serving(worker) as task:
        await begun.wait()
        worker.stop()
        worker.stop()
        await asyncio.wait_for(task, 10)

    assert len(server.told("nack")) == 1


async def test_the_job_of_a_thread_that_works_on_is_not_given_back() -> None:
    server = JobServer([None])
    worker = worker_of(server, grace_s=0.01)
    begun, go_on = threading.Event(), threading.Event()

    @worker.task
    def work(job: RunningJob) -> None:
        begun.set()
        go_on.wait(10)

    with serving(worker) as task:
        await eventually(begun.is_set)
        worker.stop()
        await task
    go_on.set()

    assert server.told("ack") == server.told("nack") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_worker_in_good_order(number: signal.Signals) -> None:
    server = JobServer([None])
    worker = worker_of(server)

    @worker.task
    async def work(job: RunningJob) -> None:
        os.kill(os.getpid(), number)
        await asyncio.sleep(0.01)

    worker.run()

    assert len(server.told("ack")) == 1


def test_a_worker_can_be_stopped_from_another_thread() -> None:
    server = JobServer()
    worker = worker_of(server)
    worker.task(_nothing)
    thread = threading.Thread(target=worker.run)
    thread.start()
    while not server.leases:
        threading.Event().wait(0.005)

    worker.stop()
    thread.join(10)

    assert not thread.is_alive()
