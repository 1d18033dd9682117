"""Producers and workers of jobs: the native client, and `penstock.Worker` in a process that is killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from random import Random
from typing import Any

import httpx

from penstock import Client, RunningJob, Worker
from penstock.client import LeasedJob, Retries
from penstock.errors import LeaseStale, NotFound, PenstockError, Unavailable
from tests.fire.history import Outcome, Recorder

QUEUE = "jobs"
LIMITED = "limited"
CONCURRENCY = 2
LEASE_S = 2
MANY = 50
"""Retries of jobs that others come after."""
ONCE = Retries(attempts=1)


def classify(error: Exception) -> Outcome:
    unsure = isinstance(error, (Unavailable, httpx.HTTPError)) or not isinstance(error, PenstockError)
    return "unknown" if unsure else "fail"


class JobClient:
    """Enqueues, cancels, leases and reports through the native client. The nodes take turns after an error."""

    def __init__(self, recorder: Recorder, urls: list[str], token: str, seed: int) -> None:
        self._recorder = recorder
        self._clients = [Client(url, token, retries=ONCE) for url in urls]
        self._turn = 0
        self._random = Random(f"{seed} {recorder.process}")
        self._sent = 0
        self._old: list[tuple[str, LeasedJob]] = []

    @property
    def client(self) -> Client:
        return self._clients[self._turn % len(self._clients)]

    def _call(self, op: str, queue: str, given: dict[str, Any], act: Callable[[], Any]) -> Any:
        answer = self._recorder.call(op, queue, given, act, classify)
        if not answer.ok:
            self._turn += 1
            time.sleep(0.05)
        return answer.result if answer.ok else None

    def produce(self, stop: Callable[[], bool], rate: float) -> None:
        last: str | None = None
        while not stop():
            queue = self._random.choice([QUEUE, QUEUE, LIMITED])
            self._sent += 1
            payload = {"key": f"{self._recorder.process}-{self._sent}"}
            # A job that dies leaves those after it waiting, so it dies late.
            retries = self._random.choice([2, 5]) if self._random.random() < 0.5 else MANY
            after = last if self._random.random() < 0.3 else None
            given = {"key": payload["key"], "max_retries": retries, "after": after}

            def enqueue(
                queue: str = queue, payload: dict[str, str] = payload, retries: int = retries, after: str | None = after
            ) -> dict[str, list[str]]:
                job_id = self.client.jobs.enqueue(
                    queue, payload, max_retries=retries, backoff={"delays": [0]}, after=[after] if after else None
                )
                return {"ids": [job_id]}

            found = self._call("enqueue", queue, given, enqueue)
            last = found["ids"][0] if found is not None and retries == MANY else None
            if found is not None and self._random.random() < 0.1:
                self.cancel(queue, found["ids"][0])
            time.sleep(1 / rate)

    def cancel(self, queue: str, job_id: str) -> None:
        def cancel() -> bool:
            try:
                self.client.jobs.cancel(job_id)
            except NotFound:
                return False  # it runs already
            return True

        self._call("cancel", queue, {"id": job_id}, cancel)

    def work(self, stop: Callable[[], bool]) -> None:
        while not stop():
            queue = self._random.choice([QUEUE, LIMITED])
            leased = self.lease(queue, limit=self._random.choice([1, 3]))
            for job in leased:
                self._run(queue, job)
            if not leased:
                time.sleep(0.1)
            if self._old and self._random.random() < 0.2:
                self.report("ack", *self._old.pop(0))

    def lease(self, queue: str, limit: int) -> list[LeasedJob]:
        leased: list[LeasedJob] = []

        def lease() -> list[dict[str, Any]]:
            worker = self._recorder.process
            leased.extend(self.client.jobs.lease(queue, worker, lease_seconds=LEASE_S, max=limit))
            return [{"id": each.job.id, "attempt": attempt(each)} for each in leased]

        self._call("lease", queue, {"lease_s": LEASE_S, "max": limit}, lease)
        return leased

    def _run(self, queue: str, job: LeasedJob) -> None:
        chance = self._random.random()
        if chance < 0.05:
            return  # forgotten: its lease ends
        if chance < 0.10:
            self._old.append((queue, job))  # reported later, when the lease may have ended
            return
        if chance < 0.20:
            self.report("heartbeat", queue, job)
        self.report("nack" if chance > 0.9 else "ack", queue, job)

    def report(self, op: str, queue: str, leased: LeasedJob) -> None:
        given = {"id": leased.job.id, "attempt": attempt(leased)}
        if op == "heartbeat":
            given["lease_s"] = LEASE_S

        def report() -> bool:
            try:
                if op == "ack":
                    self.client.jobs.ack(leased, {"done": True})
                elif op == "nack":
                    self.client.jobs.nack(leased, "no luck", retry_after=0)
                else:
                    self.client.jobs.heartbeat(leased, lease_seconds=LEASE_S)
            except LeaseStale:
                return False
            return True

        self._call(op, queue, given, report)

    def close(self) -> None:
        for client in self._clients:
            client.close()


def attempt(leased: LeasedJob) -> int:
    return leased.job.attempt


def work(recorder: Recorder, url: str, token: str, seed: int) -> None:
    """`penstock.Worker` until it is killed."""
    random = Random(seed)
    worker = Worker(url, token, QUEUE, concurrency=4, lease_s=LEASE_S, poll_s=1)

    @worker.task
    async def chore(job: RunningJob) -> dict[str, Any]:
        number = recorder.begin("run", QUEUE, {"id": job.id, "attempt": job.attempt})
        await asyncio.sleep(random.random() * 0.3)
        recorder.end(number, "ok")
        if random.random() < 0.1:
            raise ValueError("no luck")
        return {"done": job.payload["key"]}

    worker.run()
