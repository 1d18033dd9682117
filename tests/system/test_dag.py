"""A graph of 1 000 jobs with fan-out and fan-in, run by `penstock worker` processes that are killed: each job is
completed exactly once, and none starts before those it comes after have ended."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from penstock import Client, Job, NewJob
from tests.system.dag_tasks import step
from tests.system.serving import ROOT, Running, environment, serving

WIDTH = 332
PROCESSES = 2
KILLS = 4
GIVE_UP_S = 100.0

pytestmark = pytest.mark.slow


@pytest.fixture(params=["postgres", "sqlite"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    arguments = ["--memory"]
    if request.param == "postgres":
        arguments = ["--database-url", request.getfixturevalue("migrated_database")]
    with serving(*arguments) as found:
        yield found


def start(url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "penstock", "worker", "tests.system.dag_tasks:app", "--lease", "1"]
    variables = environment({"PENSTOCK_URL": url, "PENSTOCK_TOKEN": "anyone"})
    return subprocess.Popen(command, cwd=ROOT, env=variables, stderr=subprocess.DEVNULL)


def enqueue(client: Client) -> list[str]:
    """One job, then 332 after it, two layers of 332 each after three, two after all of those, and one."""
    layers = [_enqueue(client, [0], [[]])]
    count = 1
    for _ in range(3):
        before = layers[-1]
        afters = [sorted({before[n % len(before)], before[n // 2 % len(before)], before[-1]}) for n in range(WIDTH)]
        layers.append(_enqueue(client, range(count, count + WIDTH), afters))
        count += WIDTH
    layers.append(_enqueue(client, range(count, count + 2), [layers[-1]] * 2))
    layers.append(_enqueue(client, [count + 2], [layers[-1]]))
    return [job_id for layer in layers for job_id in layer]


def _enqueue(client: Client, numbers: Sequence[int], afters: Sequence[Sequence[str]]) -> list[str]:
    jobs: list[NewJob] = [step.options(after=after).job(number) for number, after in zip(numbers, afters, strict=True)]
    return list(client.jobs.enqueue_many(jobs))


@pytest.mark.timeout(150)
def test_a_graph_of_jobs_outlives_workers_that_are_killed(server: Running) -> None:
    dice = random.Random(7)
    give_up = time.monotonic() + GIVE_UP_S
    workers = [start(server.url) for _ in range(PROCESSES)]
    killed = 0
    try:
        with Client(server.url, "anyone") as client:
            ids = enqueue(client)
            while any(queue.pending or queue.processing for queue in client.jobs.queues()):
                assert time.monotonic() < give_up, client.jobs.queues()
                done = client.jobs.queues()[0].completed
                if killed < KILLS and done > killed * len(ids) // (KILLS + 1):
                    place = dice.randrange(PROCESSES)
                    workers[place].kill()
                    workers[place].wait(10)
                    workers[place] = start(server.url)
                    killed += 1
                else:
                    time.sleep(0.05)
            found = {job_id: client.jobs.get(job_id) for job_id in ids}
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(20)
            worker.kill()
            worker.wait(10)

    assert (len(found), killed) == (1000, KILLS)
    assert [job.result for job in found.values()] == list(range(1000))
    for job in found.values():
        check(job, found)


def check(job: Job, found: dict[str, Job]) -> None:
    outcomes = [attempt.outcome for attempt in job.attempts]
    assert (outcomes.count("completed"), outcomes[-1], job.waiting_for) == (1, "completed", ())
    started = job.attempts[0].started_at
    for before in (found[job_id].finished_at for job_id in job.after):
        assert started is not None
        assert before is not None
        assert before <= started, job
