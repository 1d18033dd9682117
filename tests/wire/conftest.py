from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
import uvicorn

from penstock import web
from penstock.auth import Authenticator, Mode
from penstock.engine import Engine
from penstock.store import Store
from penstock.store.sqlite.store import SqliteStore
from penstock.wire.http import HttpLimits, Route, Router
from penstock.wire.protocol import protocol_class
from penstock.wire.rest import OWNS, Rest


@dataclass
class Live:
    """A server on a port of its own, and what is behind it."""

    port: int
    engine: Engine
    authenticator: Authenticator
    rest: Rest
    uvicorn: uvicorn.Server
    serving: asyncio.Task[None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str = "anyone") -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers={"authorization": f"Bearer {token}"}, trust_env=False)

    async def stop(self) -> None:
        self.uvicorn.should_exit = True
        await self.serving


@asynccontextmanager
async def running(
    mode: Mode = Mode.OPEN,
    limits: HttpLimits | None = None,
    extra: list[Route] | None = None,
    app: web.App | None = None,
    store: Store | None = None,
) -> AsyncIterator[Live]:
    engine = Engine(store or SqliteStore(None))
    await engine.open()
    authenticator = Authenticator(mode, engine.clock, engine.tenants.find_tokens, engine.tenants.saw_token)
    rest = Rest(engine, authenticator, version="test")
    router = Router([*rest.routes(), *(extra or [])], OWNS)
    config = uvicorn.Config(
        app or web.app(engine, authenticator, lambda: rest.document),
        host="127.0.0.1",
        port=0,
        http=protocol_class(router, authenticator, engine.insights, limits),
        ws="none",
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    # Not serve(): that would take the signals of the test run for itself.
    serving = asyncio.create_task(server._serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    live = Live(port, engine, authenticator, rest, server, serving)
    try:
        yield live
    finally:
        await live.stop()
        await engine.close()


@pytest.fixture
async def server() -> AsyncIterator[Live]:
    async with running() as live:
        yield live


@pytest.fixture
async def client(server: Live) -> AsyncIterator[httpx.AsyncClient]:
    async with server.client() as client:
        yield client
