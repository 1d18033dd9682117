"""The way to the web pages: one whole request in, an ASGI app's answer out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol
from urllib.parse import unquote

from penstock.wire.http.messages import TEXT, Request, Response

Event = MutableMapping[str, Any]
App = Callable[[Event, Callable[[], Awaitable[Event]], Callable[[Event], Awaitable[None]]], Awaitable[None]]


class Streamed(Response):
    """An answer that has gone out already, piece by piece."""


class Wire(Protocol):
    """What an answer that comes in pieces needs of the connection."""

    def write_head(self, request: Request, response: Response) -> None: ...

    async def write_piece(self, data: bytes) -> None: ...


class AsgiExchange:
    def __init__(self, wire: Wire, request: Request, server: tuple[str, int | None] | None, scheme: str) -> None:
        self._wire = wire
        self._request = request
        self._scope = _scope(request, server, scheme)
        self._asked = False
        self._response: Response | None = None
        self._parts: list[bytes] = []
        self._streaming = False
        self._complete = False

    async def run(self, app: App) -> Response:
        await app(self._scope, self._receive, self._send)
        if self._response is None or not self._complete:
            raise RuntimeError("the response of the page was incomplete")
        if self._streaming:
            return Streamed(self._response.status)
        self._response.body = b"".join(self._parts)
        return self._response

    async def _receive(self) -> Event:
        if self._asked:
            # A lost client cancels the task that waits here; there is no event to wait for.
            await asyncio.get_running_loop().create_future()
        self._asked = True
        return {"type": "http.request", "body": bytes(self._request.body), "more_body": False}

    async def _send(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._response = _response(event)
            return
        assert self._response is not None
        body: bytes = event.get("body", b"")
        more: bool = event.get("more_body", False)
        if more and not self._streaming:
            self._streaming = True
            self._request.wait_s = math.inf
            self._wire.write_head(self._request, self._response)
        if not self._streaming:
            self._parts.append(body)
        elif body:
            await self._wire.write_piece(body)
        if not more:
            self._complete = True
            if self._streaming:
                await self._wire.write_piece(b"")


def _response(event: Event) -> Response:
    content_type, headers = TEXT, []
    for name, value in event.get("headers", ()):
        name = name.lower()
        if name == b"content-type":
            content_type = value
        elif name not in (b"content-length", b"x-request-id", b"x-content-type-options"):
            headers.append((name, value))
    return Response(event["status"], b"", content_type, tuple(headers))


def _scope(request: Request, server: tuple[str, int | None] | None, scheme: str) -> Event:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": server,
        "client": request.client,
        "scheme": scheme,
        "root_path": "",
        "method": request.method,
        "path": unquote(request.path),
        "raw_path": request.path.encode("latin-1"),
        "query_string": request.query,
        "headers": request.headers,
        "state": {},
    }
