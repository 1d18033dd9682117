"""The API of a server in this process, on a database."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from penstock.client.exchange import Answer, Failure, Request
from penstock.config import Settings
from penstock.server.direct import Direct, open_direct
from penstock.server.stores import describe


class Database:
    """Carries requests to the API in this process. Its event loop runs only during a request."""

    def __init__(self, settings: Settings, tenant: str, *, creates: bool) -> None:
        self.where = describe(settings)
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        try:
            opening = self._stack.enter_async_context(open_direct(settings, tenant, creates=creates))
            self._direct: Direct = self._runner.run(_awaited(opening))
        except BaseException:
            self._runner.close()
            raise

    def send(self, request: Request) -> Answer | Failure:
        asked = self._direct.answer(request.method, request.path, request.query, request.body)
        status, body = self._runner.run(asked)
        return Answer(status, body)

    def work(self) -> None:
        self._runner.run(self._direct.work())

    def close(self) -> None:
        try:
            self._runner.run(self._stack.aclose())
        finally:
            self._runner.close()


async def _awaited(opening: Any) -> Any:
    return await opening
