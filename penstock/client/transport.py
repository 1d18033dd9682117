"""The shells around `exchange`: they send, they sleep, and they know no rule.

Blocking calls go through httpx. Those of asyncio go through aiohttp, which needs a fifth to a tenth of its CPU time
per request (measured here at 0.1 to 0.2 ms against 1 to 1.8 ms): a worker makes a request for every job it finishes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import aiohttp
import httpx

from penstock import tracing
from penstock.client.exchange import Answer, Exchange, Failure, Pause, Request

Result = TypeVar("Result")

CONNECT_S = 5.0


class Transport(Protocol):
    def send(self, request: Request) -> Answer | Failure: ...
    def close(self) -> None: ...


class AsyncTransport(Protocol):
    async def send(self, request: Request) -> Answer | Failure: ...
    async def close(self) -> None: ...


def drive(steps: Exchange[Result], transport: Transport, sleep: Callable[[float], object] = time.sleep) -> Result:
    outcome: Answer | Failure | None = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            result: Result = end.value
            return result
        outcome = None
        if isinstance(step, Pause):
            sleep(step.seconds)
        else:
            outcome = transport.send(step)


async def drive_async(steps: Exchange[Result], transport: AsyncTransport) -> Result:
    outcome: Answer | Failure | None = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            result: Result = end.value
            return result
        outcome = None
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        else:
            outcome = await transport.send(step)


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


class HttpTransport:
    """Safe to share between threads."""

    def __init__(self, url: str, token: str, connections: int = 32) -> None:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._url = url
        self._http = httpx.Client(base_url=url, headers=headers(token), limits=limits)

    def __str__(self) -> str:
        return self._url

    def send(self, request: Request) -> Answer | Failure:
        timeout = httpx.Timeout(request.timeout_s, connect=CONNECT_S)
        try:
            found = self._http.request(
                request.method,
                request.path,
                params=request.query or None,
                content=request.body,
                timeout=timeout,
                headers=_trace_header(),
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return Failure(_reason(self._url, error), sent=False)
        except httpx.TransportError as error:
            return Failure(_reason(self._url, error), sent=True)
        return Answer(found.status_code, found.content, found.headers.get("retry-after"))

    def close(self) -> None:
        self._http.close()


class AsyncHttpTransport:
    """Belongs to the event loop that uses it first."""

    def __init__(self, url: str, token: str, connections: int = 100) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    def __str__(self) -> str:
        return self._url

    async def send(self, request: Request) -> Answer | Failure:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self._connections)
            self._session = aiohttp.ClientSession(connector=connector, headers=headers(self._token))
        timeout = aiohttp.ClientTimeout(total=request.timeout_s, sock_connect=CONNECT_S)
        try:
            async with self._session.request(
                request.method,
                self._url + request.path,
                params=request.query or None,
                data=request.body,
                timeout=timeout,
                headers=_trace_header(),
                allow_redirects=False,
            ) as found:
                return Answer(found.status, await found.read(), found.headers.get("retry-after"))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return Failure(_reason(self._url, error), sent=False)
        except (aiohttp.ClientError, TimeoutError) as error:
            return Failure(_reason(self._url, error), sent=True)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _trace_header() -> dict[str, str] | None:
    """The span that the caller is in, for servers that export traces."""
    found = tracing.current()
    return None if found is None else {"traceparent": found.traceparent}


def _reason(url: str, error: Exception) -> str:
    # The text of the whole error names the host once more, and an option of aiohttp.
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return f"the server at {url} did not answer: {str(cause) or type(cause).__name__}"
