"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from penstock.clock import FakeClock
from tests import cluster

OWN_PROCESSES = (
    "test_cluster", "test_connect", "test_crash", "test_declarative", "test_demo", "test_signals", "test_standalone",
)  # fmt: skip
"""Tests of Spark that start Sparks of their own, and wait for them most of the time."""
PIPELINES = ("test_change_data", "test_import", "test_insights")
"""About half of the others, by the time they take."""


class FewSparks(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Tests that share a Spark in two processes, so that it is started twice; those with their own in a third."""

    def _split_scope(self, nodeid: str) -> str:
        if not nodeid.startswith("tests/spark/"):
            return nodeid
        name = nodeid.removeprefix("tests/spark/")
        if name.startswith(OWN_PROCESSES):
            return "spark processes"
        return "spark pipelines" if name.startswith(PIPELINES) else "spark"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return FewSparks(config, log)


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
