"""The targets that commands work on: a server in memory over HTTP, a SQLite file, and a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing.server import MemoryServer
from tests import cluster
from tests.cli.commands import Target


@pytest.fixture(autouse=True)
def no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PENSTOCK_URL", "PENSTOCK_TOKEN", "DATABASE_URL", "PENSTOCK_DATABASE_URL", "PENSTOCK_SQLITE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_CONTEXTS", str(tmp_path / "contexts.json"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def memory_server() -> Iterator[MemoryServer]:
    with MemoryServer() as server:
        yield server


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    match request.param:
        case "memory":
            server: MemoryServer = request.getfixturevalue("memory_server")
            yield Target("memory", ("--url", server.url, "--token", server.new_tenant().token))
        case "sqlite":
            path = tmp_path_factory.mktemp("commands") / "queues.db"
            found = Target("sqlite", ("--sqlite", str(path)))
            found.run("tenant", "create", "acme")
            yield found
        case _:
            with cluster.migrated_database(request.getfixturevalue("postgres_dsn")) as dsn:
                yield Target("postgres", ("--database-url", dsn))
