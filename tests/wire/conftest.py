from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
import uvicorn

from penstock import web
from penstock.auth import Authenticator, Mode
from penstock.clock import Clock, FakeClock
from penstock.config import Settings
from penstock.engine import Engine
from penstock.server.doors import doors
from penstock.store import Store
from penstock.store.sqlite.store import SqliteStore
from penstock.wire.http.limits import HttpLimits
from penstock.wire.http.router import Route
from penstock.wire.rest.door import Rest
from tests.plain import PLAIN
from tests.shared_store import shared_postgres
from tests.wire.amazon import Clients, Raw, Sqs
from tests.wire.prompt import PromptServer


@dataclass
class Live:
    """A server on a port of its own, and what is behind it."""

    port: int
    engine: Engine
    authenticator: Authenticator
    rest: Rest
    uvicorn: PromptServer
    serving: asyncio.Task[None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str = "anyone") -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url, headers={"authorization": f"Bearer {token}"}, trust_env=False, verify=PLAIN
        )

    async def stop(self) -> None:
        self.uvicorn.stop()
        await self.serving


@asynccontextmanager
async def running(
    mode: Mode = Mode.OPEN,
    limits: HttpLimits | None = None,
    extra: list[Route] | None = None,
    app: web.App | None = None,
    store: Store | None = None,
    clock: Clock | None = None,
    base_url: str | None = None,
    strict: bool = False,
    auto_confirm: bool = False,
    rate_per_token: int = 0,
    rate_per_tenant: int = 0,
    simple: bool = False,
    simple_max_queue_length: int = 5000,
) -> AsyncIterator[Live]:
    engine = Engine(store or SqliteStore(None), clock, rate_per_token=rate_per_token, rate_per_tenant=rate_per_tenant)
    await engine.open()
    settings = Settings(
        memory=True,
        auth=mode.value,
        base_url=base_url,
        strict=strict,
        auto_confirm=auto_confirm,
        allow_open=True,
        simple=simple,
        simple_max_queue_length=simple_max_queue_length,
    )
    bound = socket.create_server(("127.0.0.1", 0), backlog=2048)
    port = bound.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    built = doors(engine, settings, limits=limits, extra=extra or [], url=url, app=app)
    config = uvicorn.Config(
        built.app,
        http=built.protocol,
        ws="none",
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=5,
    )
    server = PromptServer(config)
    # Not serve(): that would take the signals of the test run for itself.
    serving = asyncio.create_task(server._serve([bound]))
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    live = Live(port, engine, built.authenticator, built.rest, server, serving)
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


# SQS: both stores, both protocols


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """PostgreSQL in one protocol: what tells the protocols apart ends before the store begins."""
    if "sqs" in metafunc.fixturenames:
        pairs = [("sqlite", "json"), ("sqlite", "query"), ("postgres", "json")]
        metafunc.parametrize(("live", "sqs"), pairs, indirect=True, ids=["-".join(pair) for pair in pairs])
    elif "live" in metafunc.fixturenames:
        metafunc.parametrize("live", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    return Clients(tmp_path_factory.mktemp("models"))


def build_store(kind: str, request: pytest.FixtureRequest) -> Store:
    if kind == "postgres":
        return shared_postgres(request)
    return SqliteStore(None)


@pytest.fixture
async def live(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Live]:
    """A server whose time stands still until the test moves it. On PostgreSQL tests keep apart by name."""
    async with running(store=build_store(request.param, request), clock=clock) as live:
        yield live


@pytest.fixture
def sqs(request: pytest.FixtureRequest, live: Live, clients: Clients) -> Sqs:
    return Sqs(clients.make(request.param, live.url), request.param)


@pytest.fixture
async def raw(live: Live) -> AsyncIterator[Raw]:
    async with httpx.AsyncClient(base_url=live.url, trust_env=False, verify=PLAIN) as http:
        yield Raw(http)
