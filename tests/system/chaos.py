"""Workers that misbehave, and a book in which everything they saw is written down."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.errors import LeaseStale
from penstock.model.jobs import Completion, Failure, Heartbeat, LeasedJob, LeaseRequest
from penstock.model.tenants import TenantId

QUEUE = "chaos"
LEASE_S = 10


@dataclass
class Book:
    """`holders` says who holds a job, and until when at least; it is broken when two would at one moment."""

    holders: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    leases: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    completed: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)
    tokens: set[str] = field(default_factory=set)
    shared: list[str] = field(default_factory=list)

    def leased(self, job: LeasedJob) -> None:
        begins_at = job.expires_at - timedelta(seconds=LEASE_S)
        holder = self.holders.get(job.id)
        if holder is not None and holder[1] > begins_at:
            self.shared.append(job.id)
        assert job.token not in self.tokens, "a token was given twice"
        self.tokens.add(job.token)
        self.holders[job.id] = (job.token, job.expires_at)
        self.leases[job.id] += 1

    def let_go(self, job: LeasedJob) -> None:
        if self.holders.get(job.id, ("",))[0] == job.token:
            del self.holders[job.id]


class Mischief:
    """A worker on one node: it leases some jobs and does with each what its dice say."""

    def __init__(self, name: str, engine: Engine, tenant: TenantId, book: Book, clock: FakeClock, seed: int) -> None:
        self._name = name
        self._engine = engine
        self._tenant = tenant
        self._book = book
        self._clock = clock
        self._dice = random.Random(seed)
        self._asleep: list[LeasedJob] = []

    async def round(self) -> int:
        request = LeaseRequest(
            tenant=self._tenant, queue=QUEUE, lease_s=LEASE_S, workers=[self._name] * self._dice.randint(1, 20)
        )
        jobs = await self._engine.jobs.lease(request)
        for job in jobs:
            self._book.leased(job)
        await asyncio.gather(*(self._run(job) for job in jobs), *(self._complete(job) for job in self._awake()))
        self._clock.advance(seconds=self._dice.random() * 0.2)
        return len(jobs)

    async def _run(self, job: LeasedJob) -> None:
        chance = self._dice.random()
        if chance < 0.10:
            self._book.deeds["crashed"] += 1  # It is never heard of again.
        elif chance < 0.18:
            self._book.deeds["overslept"] += 1
            self._asleep.append(job)
        elif chance < 0.28:
            await self._fail(job, retry=self._dice.random() > 0.1)
        else:
            if chance < 0.35:
                await self._beat(job)
            await self._complete(job)

    def _awake(self) -> list[LeasedJob]:
        """Jobs that are reported rounds later. Others may or may not have come meanwhile: the token decides."""
        awake = [job for job in self._asleep if self._dice.random() < 0.1]
        self._asleep = [job for job in self._asleep if job not in awake]
        self._book.deeds["late"] += sum(self._clock.now() > job.expires_at for job in awake)
        return awake

    async def _beat(self, job: LeasedJob) -> None:
        beat = Heartbeat(tenant=self._tenant, id=job.id, token=job.token, lease_s=2 * LEASE_S, progress=50)
        try:
            ends_at = await self._engine.jobs.heartbeat(beat)
        except LeaseStale:
            self._book.deeds["refused"] += 1
            return
        # The clock may have gone on since the server read it; the promise is at least from when it was asked.
        if self._book.holders.get(job.id, ("",))[0] == job.token:
            self._book.holders[job.id] = (job.token, max(job.expires_at, ends_at - timedelta(seconds=LEASE_S)))

    async def _complete(self, job: LeasedJob) -> None:
        self._book.let_go(job)
        try:
            await self._engine.jobs.complete(Completion(tenant=self._tenant, id=job.id, token=job.token, result="1"))
        except LeaseStale:
            self._book.deeds["refused"] += 1
        else:
            self._book.completed[job.id] += 1

    async def _fail(self, job: LeasedJob, *, retry: bool) -> None:
        self._book.let_go(job)
        failure = Failure(tenant=self._tenant, id=job.id, token=job.token, error="mischief", retry=retry)
        try:
            await self._engine.jobs.fail(failure)
        except LeaseStale:
            self._book.deeds["refused"] += 1
        else:
            self._book.failures[job.id] += 1


async def work(workers: Sequence[Mischief], engine: Engine, clock: FakeClock, tenant: TenantId, rounds: int) -> None:
    """Until no job is pending or processing; a round in which nobody finds a job passes the time."""
    for _ in range(rounds):
        found = await asyncio.gather(*(worker.round() for worker in workers))
        if not any(found):
            [counts] = [count for _, count in await engine.jobs.counts(tenant)]
            if counts.pending == counts.processing == 0:
                return
            clock.advance(seconds=LEASE_S / 3)
            await engine.jobs.tend()
    raise AssertionError("the jobs do not come to an end")
