"""One contract, every store: a test that asks for `store` runs on each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest

from penstock.clock import FakeClock
from penstock.model import TenantId
from penstock.store import Store
from tests.shared_store import shared_postgres
from tests.store.caller import Caller

STORES = ["postgres", "sqlite-file", "sqlite-memory"]


class MakeQueue(Protocol):
    def __call__(self, name: str | None = None, *, fifo: bool = False, **settings: object) -> Awaitable[str]: ...


def build(kind: str, request: pytest.FixtureRequest) -> Store:
    """A store of the test's own."""
    if kind == "postgres":
        from penstock.store.postgres.store import PostgresStore

        return PostgresStore(request.getfixturevalue("postgres_dsn"))
    from penstock.store.sqlite.store import SqliteStore

    folder: Path = request.getfixturevalue("tmp_path")
    return SqliteStore(folder / "queues.db" if kind == "sqlite-file" else None)


@pytest.fixture(params=STORES)
def closed_store(request: pytest.FixtureRequest) -> Store:
    return shared_postgres(request) if request.param == "postgres" else build(request.param, request)


@pytest.fixture
async def store(closed_store: Store) -> AsyncIterator[Store]:
    await closed_store.open()
    yield closed_store
    await closed_store.close()


@pytest.fixture
async def tenant(store: Store, clock: FakeClock) -> TenantId:
    """Tests share a database and keep apart by tenant."""
    return (await store.create_tenant(f"tenant-{uuid4().hex}", clock.now())).id


@pytest.fixture
def caller(store: Store, tenant: TenantId, clock: FakeClock) -> Caller:
    return Caller(store, tenant, clock)


@pytest.fixture
def make_queue(caller: Caller) -> MakeQueue:
    return caller.make_queue
