"""The HTTP API of one Penstock server, for tools: answers are bounded, and errors are texts for the agent."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import msgspec
from mcp.server.mcpserver.exceptions import ToolError

from penstock.client.exchange import Call, Request, Retries, exchange
from penstock.client.transport import AsyncHttpTransport, AsyncTransport, drive_async
from penstock.errors import NotFound, PenstockError

PATIENCE_S = 30.0


class Api:
    """Asks the server with the token of the user. Closed at the end of `async with`."""

    def __init__(self, url: str, token: str, transport: AsyncTransport | None = None) -> None:
        self._transport = transport or AsyncHttpTransport(url.rstrip("/"), token, connections=8)

    async def get(self, *path: str, **query: Any) -> Any:
        return await self.ask("GET", path, query)

    async def post(self, *path: str, body: Any = None) -> Any:
        return await self.ask("POST", path, body=body, repeatable=False)

    async def find(self, *path: str, **query: Any) -> Any:
        """As `get`, or None if there is no such thing."""
        try:
            return await self._asked("GET", path, query, None, True)
        except NotFound:
            return None
        except PenstockError as error:
            raise ToolError(_told(error)) from error

    async def ask(
        self,
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        repeatable: bool = True,
    ) -> Any:
        try:
            return await self._asked(method, path, query or {}, body, repeatable)
        except PenstockError as error:
            raise ToolError(_told(error)) from error

    async def _asked(
        self, method: str, path: tuple[str, ...], query: Mapping[str, Any], body: Any, repeatable: bool
    ) -> Any:
        given = {name: _parameter(value) for name, value in query.items() if value is not None}
        content = None if body is None else msgspec.json.encode(body)
        place = "/" + "/".join(_segment(part) for part in path)
        request = Request(method, place, given, content, repeatable, PATIENCE_S)
        return await drive_async(exchange(Call(request, lambda found: found), Retries(attempts=3)), self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()


def _segment(part: str) -> str:
    if part in ("", ".", ".."):
        raise ToolError("a name must not be empty or consist of dots")
    return quote(part, safe="")


def _parameter(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _told(error: PenstockError) -> str:
    return f"{type(error).__name__}: {error}"
