"""Published clients against a server as its users start it, on each store."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from tests import cluster
from tests.clients.environment import REGION, aws
from tests.system.serving import Running, serving


@pytest.fixture(scope="session", params=["memory", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    if request.param == "memory":
        with serving("--memory") as found:
            yield found
        return
    dsn = request.getfixturevalue("postgres_dsn")
    with cluster.empty_database(dsn) as url, serving(more={"DATABASE_URL": url}) as found:
        yield found


@pytest.fixture
def name() -> str:
    """A queue's, or how those of one test begin: the servers are shared."""
    return f"queue-{secrets.token_hex(4)}"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients inside the test process find no settings of whoever runs it."""
    for found in [found for found in os.environ if found.startswith("AWS_")]:
        monkeypatch.delenv(found)
    for setting, value in aws(REGION).items():
        monkeypatch.setenv(setting, value)
