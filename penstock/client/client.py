"""Jobs for programs that block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from penstock.client import calls
from penstock.client.exchange import Call, Retries, exchange
from penstock.client.jobs import Job, LeasedJob
from penstock.client.new_jobs import JobOptions, NewJob, chunks, encode
from penstock.client.transport import HttpTransport, Transport, drive

Result = TypeVar("Result")


class Client:
    """Enqueues jobs, asks after them, and leases them for programs that do not want a `Worker`.

    May be shared between threads. Failures that pass are tried again, with growing pauses; a job that may have been
    stored already is enqueued again only if it has a `unique_key`.
    """

    def __init__(
        self, url: str, token: str, *, retries: Retries | None = None, transport: Transport | None = None
    ) -> None:
        self._transport = transport or HttpTransport(url, token)
        self._retries = retries or Retries()

    def enqueue(self, queue: str, payload: Mapping[str, Any] | None = None, **options: Unpack[JobOptions]) -> str:
        """Store a job; its id."""
        return self._ask(calls.enqueue(encode(NewJob(queue, payload, **options))))

    def enqueue_many(self, jobs: Iterable[NewJob]) -> list[str]:
        """Store many jobs in as few requests as their number and size allow; their ids, in order."""
        return [job_id for part in chunks(jobs) for job_id in self._ask(calls.enqueue_many(part))]

    def status(self, job_id: str) -> str:
        return self._ask(calls.status(job_id))

    def get(self, job_id: str) -> Job:
        return self._ask(calls.get(job_id))

    def jobs(self, queue: str | None = None, status: str | None = None) -> Iterator[Job]:
        """All jobs that match, asked for page by page as they are used."""
        after: str | None = None
        while True:
            page = self._ask(calls.page(queue, status, after))
            yield from page.jobs
            if page.next is None:
                return
            after = page.next

    def cancel(self, job_id: str) -> None:
        """Only a pending job can be cancelled; `Conflict` or `NotFound` otherwise."""
        self._ask(calls.cancel(job_id))

    def wait(self, job_id: str, timeout_s: float | None = None) -> Any:
        """The result of the job once it is completed. `JobFailed` when it dies or is cancelled; `TimeoutError`."""
        return drive(calls.wait(job_id, timeout_s, self._retries), self._transport)

    def queues(self) -> list[dict[str, Any]]:
        """How many jobs of each status every queue has."""
        return self._ask(calls.queues())

    # For those who bring their own loop

    def lease(
        self, queue: str, worker: str, *, lease_s: int = 30, limit: int = 1, wait_s: float = 0.0
    ) -> list[LeasedJob]:
        """Up to `limit` jobs, each ours for `lease_s` seconds; waits up to `wait_s` for the first."""
        return self._ask(calls.lease(queue, worker, lease_s, limit, wait_s))

    def ack(self, leased: LeasedJob, result: Any = None) -> None:
        self._ask(calls.ack(leased.job.id, leased.lease_token, result))

    def nack(self, leased: LeasedJob, error: str, *, retry: bool = True, after_s: float | None = None) -> None:
        self._ask(calls.nack(leased.job.id, leased.lease_token, error, retry, after_s))

    def heartbeat(
        self, leased: LeasedJob, *, lease_s: int = 30, progress: int | None = None, note: str | None = None
    ) -> None:
        self._ask(calls.heartbeat(leased.job.id, leased.lease_token, lease_s, progress, note))

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, call: Call[Result]) -> Result:
        return drive(exchange(call, self._retries), self._transport)
