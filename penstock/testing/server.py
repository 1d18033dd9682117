"""A server in memory, in a thread of the process that tests with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from penstock.errors import Unavailable

if TYPE_CHECKING:
    from penstock.client import AsyncClient, Client
    from penstock.engine import Engine

Result = TypeVar("Result")

START_S = 30.0
REGION = "us-east-1"


@dataclass(frozen=True)
class TestTenant:
    """A tenant of its own: it sees no queue, topic or job of another test."""

    __test__ = False  # for pytest, whose tests begin like this too

    url: str
    name: str
    token: str
    access_key_id: str
    secret_access_key: str

    def client(self) -> Client:
        from penstock.client import Client

        return Client(self.url, self.token)

    def async_client(self) -> AsyncClient:
        from penstock.client import AsyncClient

        return AsyncClient(self.url, self.token)

    def sqs(self, **options: Any) -> Any:
        """A boto3 client of SQS."""
        return self._boto3("sqs", options)

    def sns(self, **options: Any) -> Any:
        """A boto3 client of SNS."""
        return self._boto3("sns", options)

    @property
    def headers(self) -> dict[str, str]:
        """For any HTTP client: the header that names this tenant."""
        return {"authorization": f"Bearer {self.token}"}

    @property
    def environment(self) -> dict[str, str]:
        """Variables that lead `penstock.Client`, `penstock.App`, the AWS SDKs and command lines here."""
        return {
            "PENSTOCK_URL": self.url,
            "PENSTOCK_TOKEN": self.token,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_DEFAULT_REGION": REGION,
        }

    def _boto3(self, service: str, options: dict[str, Any]) -> Any:
        import boto3

        session: Any = boto3.Session(
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            region_name=REGION,
        )
        return session.client(service, **{"endpoint_url": self.url, **options})


class MemoryServer:
    """A server on a free port of the loopback address. Everything is gone when it stops."""

    def __init__(self, **settings: Any) -> None:
        """`settings` are those of `penstock serve`, by their names in the reference; `auth` is always `sigv4`."""
        self._settings = {**settings, "memory": True, "auth": "sigv4", "address": "127.0.0.1:0"}
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._engine: Engine | None = None
        self._error: BaseException | None = None
        self.url = ""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="penstock", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_S):
            raise Unavailable(f"the server did not start within {START_S:.0f} s")
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        if self._thread is not None:
            if self._stop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._thread = None

    def new_tenant(self, name: str | None = None) -> TestTenant:
        """A new tenant with a token and an AWS access key that may do everything."""
        return self.run(self._new_tenant(name or f"test-{uuid4().hex}"))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine where the server runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _serve(self) -> None:
        from penstock.config import Settings
        from penstock.server.listening import bind, url_of
        from penstock.server.serving import serve_one
        from penstock.server.stores import Database

        settings = Settings(**self._settings)
        [bound] = bind(settings)
        self.url = url_of(settings, bound)
        self._stop = asyncio.Event()

        async def ready(engine: Engine) -> None:
            self._engine = engine
            self._ready.set()

        await serve_one(settings, Database(None), bound, ready, stop=self._stop, signals=False)

    async def _new_tenant(self, name: str) -> TestTenant:
        from penstock.model import Scope

        assert self._engine is not None, "the server has not been started"
        tenants = self._engine.tenants
        tenant = await tenants.create(name)
        _, token = await tenants.create_token(tenant.id, "test", frozenset({Scope.ADMIN}))
        key, secret = await tenants.create_token(tenant.id, "test", frozenset({Scope.ADMIN}), aws=True)
        return TestTenant(self.url, name, token, key.prefix, secret)
