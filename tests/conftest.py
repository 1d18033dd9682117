"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.clock import FakeClock
from tests import cluster


@pytest.fixture(scope="session")
def postgres_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of this test process, shared by its tests: keep apart by name."""
    with cluster.private_server(tmp_path_factory.mktemp("postgres")) as dsn:
        yield dsn


@pytest.fixture
def fresh_database(postgres_dsn: str) -> Iterator[str]:
    """An empty database for one test that needs the world to itself."""
    with cluster.empty_database(postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
