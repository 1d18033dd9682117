"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from penstock.clock import FakeClock
from tests import cluster

OWN_PROCESSES = ("test_cluster", "test_connect", "test_crash", "test_declarative", "test_demo")
"""Tests of Spark that start Sparks of their own, and wait for them most of the time."""


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """All tests that share a Spark in one process, so that it is started once; those with their own in another."""

    def _split_scope(self, nodeid: str) -> str:
        if not nodeid.startswith("tests/spark/"):
            return nodeid
        own = nodeid.removeprefix("tests/spark/").startswith(OWN_PROCESSES)
        return "spark processes" if own else "spark"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return OneSpark(config, log)


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
