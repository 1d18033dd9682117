"""Jobs for programs on asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from penstock.client import calls
from penstock.client.exchange import Call, Retries, exchange
from penstock.client.jobs import Job, LeasedJob
from penstock.client.joining import Joiner
from penstock.client.new_jobs import HEAVIEST, MOST, EncodedJob, JobOptions, NewJob, chunks, encode
from penstock.client.transport import AsyncHttpTransport, AsyncTransport, drive_async

Result = TypeVar("Result")


class AsyncClient:
    """What `Client` does, awaited. Jobs that are enqueued at the same time share requests."""

    def __init__(
        self, url: str, token: str, *, retries: Retries | None = None, transport: AsyncTransport | None = None
    ) -> None:
        self._transport = transport or AsyncHttpTransport(url, token)
        self._retries = retries or Retries()
        self._joined: Joiner[EncodedJob, str] = Joiner(
            self._enqueue, limit=MOST, weigh=lambda job: len(job.body), heaviest=HEAVIEST
        )

    async def enqueue(self, queue: str, payload: Mapping[str, Any] | None = None, **options: Unpack[JobOptions]) -> str:
        """Store a job; its id."""
        return await self._joined.submit(encode(NewJob(queue, payload, **options)))

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> list[str]:
        """Store many jobs in as few requests as their number and size allow; their ids, in order."""
        return [job_id for part in chunks(jobs) for job_id in await self.ask(calls.enqueue_many(part))]

    async def status(self, job_id: str) -> str:
        return await self.ask(calls.status(job_id))

    async def get(self, job_id: str) -> Job:
        return await self.ask(calls.get(job_id))

    async def jobs(self, queue: str | None = None, status: str | None = None) -> AsyncIterator[Job]:
        """All jobs that match, asked for page by page as they are used."""
        after: str | None = None
        while True:
            page = await self.ask(calls.page(queue, status, after))
            for job in page.jobs:
                yield job
            if page.next is None:
                return
            after = page.next

    async def cancel(self, job_id: str) -> None:
        """Only a pending job can be cancelled; `Conflict` or `NotFound` otherwise."""
        await self.ask(calls.cancel(job_id))

    async def wait(self, job_id: str, timeout_s: float | None = None) -> Any:
        """The result of the job once it is completed. `JobFailed` when it dies or is cancelled; `TimeoutError`."""
        return await drive_async(calls.wait(job_id, timeout_s, self._retries), self._transport)

    async def queues(self) -> list[dict[str, Any]]:
        """How many jobs of each status every queue has."""
        return await self.ask(calls.queues())

    # For those who bring their own loop

    async def lease(
        self, queue: str, worker: str, *, lease_s: int = 30, limit: int = 1, wait_s: float = 0.0
    ) -> list[LeasedJob]:
        """Up to `limit` jobs, each ours for `lease_s` seconds; waits up to `wait_s` for the first."""
        return await self.ask(calls.lease(queue, worker, lease_s, limit, wait_s))

    async def ack(self, leased: LeasedJob, result: Any = None) -> None:
        await self.ask(calls.ack(leased.job.id, leased.lease_token, result))

    async def nack(self, leased: LeasedJob, error: str, *, retry: bool = True, after_s: float | None = None) -> None:
        await self.ask(calls.nack(leased.job.id, leased.lease_token, error, retry, after_s))

    async def heartbeat(
        self, leased: LeasedJob, *, lease_s: int = 30, progress: int | None = None, note: str | None = None
    ) -> None:
        await self.ask(calls.heartbeat(leased.job.id, leased.lease_token, lease_s, progress, note))

    async def close(self) -> None:
        await self._joined.drain()
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _enqueue(self, jobs: Sequence[EncodedJob]) -> list[str]:
        if len(jobs) == 1:
            return [await self.ask(calls.enqueue(jobs[0]))]
        return await self.ask(calls.enqueue_many(jobs))

    async def ask(self, call: Call[Result]) -> Result:
        """Make one call of `penstock.client.calls`."""
        return await drive_async(exchange(call, self._retries), self._transport)
