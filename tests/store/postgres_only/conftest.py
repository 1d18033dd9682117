"""What the tests of PostgreSQL alone may ask for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import asyncpg
import pytest

from penstock.clock import FakeClock
from penstock.model import TenantId
from penstock.store import Store
from penstock.store.postgres.migrate import migrate
from tests.store.postgres_only.sessions import Session, SessionStore, Watcher

Connect = Callable[[str], Awaitable[Session]]


@pytest.fixture(scope="session")
def dsn(postgres_dsn: str) -> str:
    """The shared database, up to date."""
    asyncio.run(migrate(postgres_dsn))
    return postgres_dsn


@pytest.fixture
def closed_store(postgres_store: Store) -> Store:
    return postgres_store


@pytest.fixture
async def watcher(dsn: str) -> AsyncIterator[Watcher]:
    connection = await asyncpg.connect(dsn)
    yield Watcher(connection)
    await connection.close()


@pytest.fixture
async def connect(dsn: str, tenant: TenantId, clock: FakeClock) -> AsyncIterator[Connect]:
    """Sessions of one tenant, by name; what they leave open is rolled back."""
    opened: list[SessionStore] = []

    async def connect(name: str) -> Session:
        name = f"{name}-{uuid4().hex[:8]}"
        store = SessionStore(dsn, name)
        await store.open()
        opened.append(store)
        return Session(store, tenant, clock, name)

    yield connect
    await asyncio.gather(*(store.close() for store in opened))


@pytest.fixture
async def alice(connect: Connect) -> Session:
    return await connect("alice")


@pytest.fixture
async def bob(connect: Connect) -> Session:
    return await connect("bob")


@pytest.fixture
async def carol(connect: Connect) -> Session:
    return await connect("carol")
