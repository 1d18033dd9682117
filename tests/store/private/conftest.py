from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.store.postgres.store import PostgresStore
from tests import cluster


@pytest.fixture(scope="module")
def private_dsn(postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
async def node(private_dsn: str, clock: FakeClock) -> AsyncIterator[Engine]:
    engine = Engine(PostgresStore(private_dsn, max_connections=4), clock)
    await engine.open()
    yield engine
    await engine.close()


@pytest.fixture
async def other_node(private_dsn: str, clock: FakeClock) -> AsyncIterator[Engine]:
    engine = Engine(PostgresStore(private_dsn, max_connections=4), clock)
    await engine.open()
    yield engine
    await engine.close()
