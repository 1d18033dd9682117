"""The example of docs/private.md runs as printed."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.store.postgres.store import PostgresStore
from tests import cluster
from tests.docs.pages import blocks, page, plain, rows, section
from tests.wire.conftest import running


@pytest.fixture
def private_dsn(postgres_dsn: str) -> Iterator[str]:
    with cluster.migrated_database(postgres_dsn) as dsn:
        yield dsn


async def test_the_example_runs(private_dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = [text for language, text in blocks(page("docs/private.md")) if language == "python"]

    async with running(store=PostgresStore(private_dsn, max_connections=4)) as live:
        code = compile(example.replace("http://127.0.0.1:9324", live.url), "private.md", "exec")

        def run() -> None:
            with warnings.catch_warnings():
                # The example leaves its connections to the end of the program.
                warnings.simplefilter("ignore", ResourceWarning)
                exec(code, {})
                gc.collect()

        await asyncio.to_thread(run)

    assert capsys.readouterr().out.splitlines() == ["b'online'", "True", "hello"]


async def test_the_table_of_routes_is_the_servers() -> None:
    async with running() as live, live.client() as client:
        paths = (await client.get("/v1/openapi.json")).json()["paths"]

    served = {
        (method.upper(), path, _by(operation), *(status for status in operation["responses"] if status[0] == "2"))
        for path, operations in paths.items()
        if path.startswith("/v1/private/")
        for method, operation in operations.items()
    }
    table = rows(section(page("docs/private.md"), "## Routes"))
    assert {(row[0], plain(row[1]), row[2], row[3]) for row in table} == served


def _by(operation: dict[str, Any]) -> str:
    if not operation["security"]:
        return ""
    [(kind, scopes)] = operation["security"][0].items()
    return scopes[0] if kind == "token" else str(kind)
