"""Jobs run by `penstock worker` processes that are killed.

A graph of 1 000 jobs with fan-out and fan-in: each is completed exactly once, and none starts before those it comes
after have ended. Jobs that take longer than a lease: none is lost, and none is run by two processes at once.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from penstock import Client, Job, NewJob
from tests.system.dag_tasks import last, step
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


def start(url: str, queue: str = "dag") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "penstock", "worker", "tests.system.dag_tasks:app", "--lease", "1"]
    command += ["--queues", queue]
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
        stop(workers)

    assert (len(found), killed) == (1000, KILLS)
    assert [job.result for job in found.values()] == list(range(1000))
    for job in found.values():
        check(job, found)


def stop(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        with suppress(subprocess.TimeoutExpired):
            worker.wait(20)
        worker.kill()
        worker.wait(10)


@pytest.mark.timeout(120)
def test_no_job_is_lost_or_run_by_two_at_once_when_workers_are_killed(tmp_path: Path) -> None:
    journal, count, kills = tmp_path / "journal", 60, 3
    deaths: dict[int, float] = {}
    with serving("--memory") as server, Client(server.url, "anyone") as client:
        workers = [start(server.url, "lasting") for _ in range(PROCESSES)]
        try:
            ids = client.jobs.enqueue_many([last.job(n, 1.6, str(journal)) for n in range(count)])
            give_up = time.monotonic() + GIVE_UP_S
            for turn in range(kills):
                # The victim is in the middle of jobs that it has begun since its start.
                while not _begun(journal, workers[turn % PROCESSES].pid):
                    assert time.monotonic() < give_up
                    time.sleep(0.05)
                victim = workers[turn % PROCESSES]
                deaths[victim.pid] = time.time()
                victim.kill()
                victim.wait(10)
                workers[turn % PROCESSES] = start(server.url, "lasting")
            results = [client.jobs.wait(job_id, timeout=GIVE_UP_S) for job_id in ids]
        finally:
            stop(workers)

    assert results == list(range(count))
    runs = _runs(journal, deaths)
    assert len(runs) > count, "a job that was killed is run again"
    for number in range(count):
        mine = sorted((begin, end) for job, begin, end in runs if job == number)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(mine)), mine


def _lines(journal: Path) -> list[tuple[str, int, int, float]]:
    text = journal.read_text() if journal.exists() else ""
    return [(what, int(job), int(pid), float(at)) for what, job, pid, at in map(str.split, text.splitlines())]


def _begun(journal: Path, pid: int) -> bool:
    return any(each == pid for _, _, each, _ in _lines(journal))


def _runs(journal: Path, deaths: dict[int, float]) -> list[tuple[int, float, float]]:
    """Each run of a job: when it began, and when it ended or its process was killed."""
    ends = {(job, pid): at for what, job, pid, at in _lines(journal) if what == "end"}
    return [(job, at, ends.get((job, pid)) or deaths[pid]) for what, job, pid, at in _lines(journal) if what == "begin"]


def check(job: Job, found: dict[str, Job]) -> None:
    outcomes = [attempt.outcome for attempt in job.attempts]
    assert (outcomes.count("completed"), outcomes[-1], job.waiting_for) == (1, "completed", ())
    started = job.attempts[0].started_at
    for before in (found[job_id].finished_at for job_id in job.after):
        assert started is not None
        assert before is not None
        assert before <= started, job
