"""What every test may ask for."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Generator, Iterator

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from penstock.clock import FakeClock
from tests import cluster, effort, plain
from tests.shared_store import SharedPostgres

plain.read_authorities_once()
settings.load_profile(effort.QUICK)
"""The option --hypothesis-profile chooses another."""

if (memory := cluster.in_memory()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
"""Where `tmp_path` lies: in memory, files are synced to the disk for nothing."""


READING = ("reading", "writing", "lake", "running")
"""Folders of tests/spark that share one Spark session; the others share another one."""


SECONDS = {"spark": 0.6, "third_party": 0.4, "system": 0.5, "cli": 0.3, "mcp_server": 0.3, "consumer": 0.15}
"""What a test of these folders takes, about; others take little."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file run in one process and share their servers and data. Those of Spark share two sessions.

    The group that takes longest is started first, so no process is still busy when the others have ended.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if not file.startswith("tests/spark/"):
            return file
        folder = file.split("/")[2]
        if folder == "processes":
            return "processes that start Spark"
        return "spark, reading" if folder in READING else "spark"

    def _assign_work_unit(self, node: object) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self._seconds), last=False)
        super()._assign_work_unit(node)

    def _seconds(self, scope: str) -> float:
        names: list[str] = list(self.workqueue[scope])
        return len(names) * SECONDS.get(names[0].split("/")[1], 0.05)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes is used until the end. No search for garbage goes through it, now or during the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A database of this test process, shared by its tests: keep apart by name."""
    with cluster.private_server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def postgres_store(postgres_dsn: str, shared_stores: list[SharedPostgres]) -> SharedPostgres:
    shared_stores.append(SharedPostgres(postgres_dsn))
    return shared_stores[0]


@pytest.fixture(scope="session", autouse=True)
async def shared_stores() -> AsyncIterator[list[SharedPostgres]]:
    """Closes what tests shared. Of its own, because a fixture that awaits cannot be asked for by one that runs."""
    shared: list[SharedPostgres] = []
    yield shared
    for store in shared:
        await store.finish()


@pytest.fixture
def fresh_database(postgres_dsn: str) -> Iterator[str]:
    """An empty database for one test that needs the world to itself."""
    with cluster.empty_database(postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
def migrated_database(postgres_dsn: str) -> Iterator[str]:
    """The same with our schemas in it."""
    with cluster.migrated_database(postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
