"""The client for programs on asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from penstock.client.address import address
from penstock.client.async_namespaces import AsyncAdmin, AsyncQueues, AsyncSchedules, AsyncStreams, AsyncTopics
from penstock.client.exchange import Retries
from penstock.client.job_calls import AsyncJobs
from penstock.client.transport import AsyncHttpTransport, AsyncTransport


class AsyncClient:
    """What `Client` does, awaited. Jobs that are enqueued at the same time share requests."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: Retries | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        self._transport = transport or AsyncHttpTransport(*address(url, token))
        parts = (self._transport, retries or Retries())
        self.queues = AsyncQueues(*parts)
        self.jobs = AsyncJobs(*parts)
        self.topics = AsyncTopics(*parts)
        self.streams = AsyncStreams(*parts)
        self.schedules = AsyncSchedules(*parts)
        self.admin = AsyncAdmin(*parts)

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._transport}>"

    async def close(self) -> None:
        await self.jobs.drain()
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
