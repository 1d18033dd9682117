"""The namespace of jobs, for both clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Unpack

from penstock.client.api import jobs
from penstock.client.api.jobs import Job
from penstock.client.api.new_jobs import HEAVIEST, MOST, EncodedJob, JobOptions, NewJob, chunks, encode
from penstock.client.exchange import Retries
from penstock.client.joining import Joiner
from penstock.client.shells import AsyncNamespace, Namespace, awaited, blocking
from penstock.client.transport import AsyncTransport, drive, drive_async


class Jobs(Namespace):
    """Jobs and their queues."""

    status = blocking(jobs.status)
    get = blocking(jobs.get)
    attempts = blocking(jobs.attempts)
    list = blocking(jobs.list_jobs)
    cancel = blocking(jobs.cancel)
    lease = blocking(jobs.lease)
    ack = blocking(jobs.ack)
    nack = blocking(jobs.nack)
    heartbeat = blocking(jobs.heartbeat)
    queues = blocking(jobs.queues)
    limits = blocking(jobs.limits)
    set_limits = blocking(jobs.set_limits)
    requeue_dead = blocking(jobs.requeue_dead)
    purge_dead = blocking(jobs.purge_dead)

    def enqueue(self, queue_name: str, payload: Any = None, **options: Unpack[JobOptions]) -> str:
        """Store a job; its id."""
        return self.ask(jobs.enqueue(encode(NewJob(queue_name, payload, **options))))

    def enqueue_many(self, new: Iterable[NewJob]) -> Sequence[str]:
        """Store many jobs in as few requests as their number and size allow; their ids, in order."""
        return [job_id for part in chunks(new) for job_id in self.ask(jobs.enqueue_many(part))]

    def all(self, *, queue_name: str | None = None, status: str | None = None, tag: str | None = None) -> Iterator[Job]:
        """All jobs that match, newest first, asked for page by page as they are used."""
        cursor: str | None = None
        while True:
            page = self.ask(jobs.list_jobs(queue_name=queue_name, status=status, tag=tag, cursor=cursor))
            yield from page.items
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    def wait(self, job_id: str, timeout: float | None = None) -> Any:
        """The result of the job once it is completed. `JobFailed` when it dies or is cancelled; `TimeoutError`."""
        return drive(jobs.wait(job_id, timeout, self._retries), self._transport)


class AsyncJobs(AsyncNamespace):
    """Jobs and their queues. Jobs that are enqueued at the same time share requests."""

    status = awaited(jobs.status)
    get = awaited(jobs.get)
    attempts = awaited(jobs.attempts)
    list = awaited(jobs.list_jobs)
    cancel = awaited(jobs.cancel)
    lease = awaited(jobs.lease)
    ack = awaited(jobs.ack)
    nack = awaited(jobs.nack)
    heartbeat = awaited(jobs.heartbeat)
    queues = awaited(jobs.queues)
    limits = awaited(jobs.limits)
    set_limits = awaited(jobs.set_limits)
    requeue_dead = awaited(jobs.requeue_dead)
    purge_dead = awaited(jobs.purge_dead)

    def __init__(self, transport: AsyncTransport, retries: Retries) -> None:
        super().__init__(transport, retries)
        self._joined: Joiner[EncodedJob, str] = Joiner(
            self._enqueue, limit=MOST, weigh=lambda job: len(job.body), heaviest=HEAVIEST
        )

    async def enqueue(self, queue_name: str, payload: Any = None, **options: Unpack[JobOptions]) -> str:
        """Store a job; its id."""
        return await self._joined.submit(encode(NewJob(queue_name, payload, **options)))

    async def enqueue_many(self, new: Iterable[NewJob]) -> Sequence[str]:
        """Store many jobs in as few requests as their number and size allow; their ids, in order."""
        return [job_id for part in chunks(new) for job_id in await self.ask(jobs.enqueue_many(part))]

    async def all(
        self, *, queue_name: str | None = None, status: str | None = None, tag: str | None = None
    ) -> AsyncIterator[Job]:
        """All jobs that match, newest first, asked for page by page as they are used."""
        cursor: str | None = None
        while True:
            page = await self.ask(jobs.list_jobs(queue_name=queue_name, status=status, tag=tag, cursor=cursor))
            for job in page.items:
                yield job
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    async def wait(self, job_id: str, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """The result of the job once it is completed. `JobFailed` when it dies or is cancelled; `TimeoutError`."""
        return await drive_async(jobs.wait(job_id, timeout, self._retries), self._transport)

    async def drain(self) -> None:
        """Return when every job given to `enqueue` so far has been answered."""
        await self._joined.drain()

    async def _enqueue(self, new: Sequence[EncodedJob]) -> Sequence[str]:
        if len(new) == 1:
            return [await self.ask(jobs.enqueue(new[0]))]
        return await self.ask(jobs.enqueue_many(new))
