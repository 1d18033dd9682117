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
from penstock.clock import Clock, FakeClock
from penstock.engine import Engine
from penstock.store import Store
from penstock.store.sqlite.store import SqliteStore
from penstock.wire import sns as sns_door
from penstock.wire import sqs as sqs_door
from penstock.wire.aws import Gateway
from penstock.wire.http import HttpLimits, Route, Router
from penstock.wire.jobs import OWNS as JOBS_OWN
from penstock.wire.jobs import JobsDoor
from penstock.wire.protocol import protocol_class
from penstock.wire.rest import OWNS, Rest
from penstock.wire.signature import AwsAuthenticator
from tests.wire.amazon import Clients, Raw, Sqs


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
    clock: Clock | None = None,
    base_url: str | None = None,
    strict: bool = False,
    auto_confirm: bool = False,
    rate_per_token: int = 0,
    rate_per_tenant: int = 0,
) -> AsyncIterator[Live]:
    engine = Engine(store or SqliteStore(None), clock, rate_per_token=rate_per_token, rate_per_tenant=rate_per_tenant)
    await engine.open()
    tenants = engine.tenants
    authenticator = Authenticator(mode, engine.clock, tenants.find_tokens, tenants.saw_token)
    work = JobsDoor(engine, authenticator)
    rest = Rest(engine, authenticator, version="test", others=work.operations)
    signed = AwsAuthenticator(mode, engine.clock, tenants.find_tokens, tenants.saw_token)
    services = [
        sqs_door.service(engine, base_url=base_url, strict=strict),
        sns_door.service(engine, base_url=base_url, auto_confirm=auto_confirm),
    ]
    amazon = Gateway(services, signed, tenants)
    certificates = sns_door.Certificates(engine.signer)
    routes = [*rest.routes(), *amazon.routes(), *certificates.routes(), *work.routes(), *(extra or [])]
    router = Router(routes, [*OWNS, *JOBS_OWN])
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


# SQS: both stores, both protocols


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    return Clients(tmp_path_factory.mktemp("models"))


def build_store(kind: str, request: pytest.FixtureRequest) -> Store:
    if kind == "postgres":
        from penstock.store.postgres.store import PostgresStore

        return PostgresStore(request.getfixturevalue("postgres_dsn"))
    return SqliteStore(None)


@pytest.fixture(params=["sqlite", "postgres"])
async def live(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Live]:
    """A server whose time stands still until the test moves it. On PostgreSQL tests keep apart by name."""
    async with running(store=build_store(request.param, request), clock=clock) as live:
        yield live


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, live: Live, clients: Clients) -> Sqs:
    return Sqs(clients.make(request.param, live.url), request.param)


@pytest.fixture
async def raw(live: Live) -> AsyncIterator[Raw]:
    async with httpx.AsyncClient(base_url=live.url, trust_env=False) as http:
        yield Raw(http)
