"""Published clients against a server as its users start it, on each store."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import cluster
from tests.system.serving import Running, serving
from tests.third_party.environment import REGION, aws

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each call of `aws` is a process: in every run on one store, with the slow tests on the other."""
    for item in items:
        if item.path == HERE / "test_awscli.py" and "postgres" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def memory_server() -> Iterator[Running]:
    with serving("--memory") as found:
        yield found


@pytest.fixture(scope="session")
def postgres_server(postgres_dsn: str) -> Iterator[Running]:
    with cluster.migrated_database(postgres_dsn) as url, serving(more={"DATABASE_URL": url}) as found:
        yield found


@pytest.fixture(scope="session", params=["memory", "postgres"])
def server(request: pytest.FixtureRequest) -> Running:
    """Both run on when tests change from one to the other."""
    found: Running = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def name() -> str:
    """A queue's, or how those of one test begin: the servers are shared."""
    return f"queue-{secrets.token_hex(4)}"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients inside the test process find no settings of the user who runs it."""
    for found in [found for found in os.environ if found.startswith("AWS_")]:
        monkeypatch.delenv(found)
    for setting, value in aws(REGION).items():
        monkeypatch.setenv(setting, value)
