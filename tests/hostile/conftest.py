"""Attacks run against a server in the test process, over SQLite in memory and over PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from penstock.auth import Mode
from tests.wire.conftest import Live, build_store, running


@pytest.fixture(params=["sqlite", "postgres"])
async def open_server(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    async with running(store=build_store(request.param, request)) as live:
        yield live


@pytest.fixture(params=["sqlite", "postgres"])
async def token_server(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    async with running(Mode.TOKEN, store=build_store(request.param, request)) as live:
        yield live


@pytest.fixture
async def server() -> AsyncIterator[Live]:
    async with running() as live:
        yield live
