"""Celery with the SQS transport of kombu: this process sends, two workers of `celery_app` do the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.system.serving import ROOT, Running
from tests.third_party.celery_app import VISIBILITY_TIMEOUT_S, application
from tests.third_party.environment import client_environment, eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


class Crew:
    """An application and its two workers, each with one child for the tasks."""

    def __init__(self, server: Running, queue: str, folder: Path) -> None:
        self.queue = queue
        self.folder = folder
        self.app = application(server.url, queue, str(folder))
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self._server = server

    @contextmanager
    def worker(self, name: str) -> Iterator[None]:
        command = [sys.executable, "-m", "tests.third_party.celery_app"]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, self._server.url, self.queue, str(self.folder), name],
                cwd=ROOT,
                env=client_environment(self._server.url),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.workers[process.pid] = process
        try:
            yield
        finally:
            self._stop(process)

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        """Warmly, then with its children."""
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill(process.pid)

    def kill(self, pid: int) -> None:
        """A worker with its child."""
        os.killpg(pid, signal.SIGKILL)
        self.workers[pid].wait(10)

    def send(self, task: str, *arguments: Any, **options: Any) -> Any:
        return self.app.tasks[task].apply_async(arguments, **options)

    def result(self, sent: Any) -> Any:
        try:
            return sent.get(timeout=30, interval=0.02)
        except self.app.backend.TimeoutError:
            raise AssertionError(self.logs()) from None

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*.log")))

    def left(self) -> int:
        """Messages that no worker has finished."""
        sqs: Any = boto3.client("sqs", endpoint_url=self._server.url)
        names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
        url = sqs.get_queue_url(QueueName=self.queue)["QueueUrl"]
        return sum(map(int, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values()))


@pytest.fixture(
    params=[
        pytest.param(("memory", ".fifo"), id="memory-fifo"),
        pytest.param(("postgres", ""), id="postgres-standard"),
        pytest.param(("memory", ""), id="memory-standard", marks=pytest.mark.slow),
        pytest.param(("postgres", ".fifo"), id="postgres-fifo", marks=pytest.mark.slow),
    ]
)
def crew(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Crew]:
    store, suffix = request.param
    server: Running = request.getfixturevalue(f"{store}_server")
    found = Crew(server, f"{name}{suffix}", tmp_path)
    with ExitStack() as stack:
        for worker in ("one", "two"):
            stack.enter_context(found.worker(worker))
        yield found
        found.app.close()


def apart(crew: Crew, group: str) -> dict[str, str]:
    """Options that let a task of a FIFO queue run beside others."""
    return {"MessageGroupId": group} if crew.queue.endswith(".fifo") else {}


def test_two_workers_do_retry_and_delay_the_tasks_of_a_queue_until_it_is_deleted(crew: Crew) -> None:
    sums = [crew.send("add", number, number) for number in range(20)]
    assert [crew.result(sent) for sent in sums] == [2 * number for number in range(20)]

    assert crew.result(crew.send("stumble", 2)) == 2
    with pytest.raises(ValueError, match="as asked"):
        crew.result(crew.send("fail"))

    earliest = time.time() + 1
    assert earliest - 0.01 <= crew.result(crew.send("tell_time", countdown=1)) < earliest + 15

    pair = [
        crew.send("meet", str(crew.folder), me, other, **apart(crew, me))
        for me, other in (("here", "there"), ("there", "here"))
    ]
    assert {crew.result(sent) for sent in pair} == set(crew.workers)
    eventually(lambda: crew.left() == 0)

    for process in crew.workers.values():
        process.terminate()
    assert [process.wait(20) for process in crew.workers.values()] == [0, 0], crew.logs()
    for number in range(3):
        crew.send("add", number, number)
    assert crew.left() == 3

    crew.app.control.purge()
    assert crew.left() == 0
    with crew.app.connection_for_write() as connection:
        queue = crew.app.amqp.queues[crew.queue].bind(connection.default_channel)
        queue.declare()
        queue.delete()
    with pytest.raises(ClientError, match="NonExistentQueue"):
        crew.left()


@pytest.mark.slow
def test_a_task_of_a_killed_worker_is_done_by_the_other(crew: Crew) -> None:
    note = crew.folder / "note"
    sent = crew.send("get_stuck", str(note))
    eventually(note.exists)
    killed = int(note.read_text())
    began = time.monotonic()

    crew.kill(killed)

    (survivor,) = set(crew.workers) - {killed}
    assert crew.result(sent) == survivor
    assert time.monotonic() - began < VISIBILITY_TIMEOUT_S + 10
    eventually(lambda: crew.left() == 0)
