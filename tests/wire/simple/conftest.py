"""A server that speaks the simple protocol, on every store, with a clock of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from penstock.clock import FakeClock
from penstock.store import Store
from penstock.store.sqlite.store import SqliteStore
from tests.shared_store import shared_postgres
from tests.wire.conftest import Live, running

STORES = ["sqlite-memory", "sqlite-file", "postgres"]


class Simple:
    """A caller without any credentials. Tests share a database, so each has names of its own."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.prefix = f"t{uuid4().hex[:10]}-"

    def name(self, name: str) -> str:
        return self.prefix + name

    async def post(self, path: str, body: Any, expect: int = 200) -> Any:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == expect, (answer.status_code, answer.text)
        return answer.json()

    async def code(self, path: str, body: Any, expect: int = 400) -> str:
        answer = await self.post(path, body, expect)
        assert set(answer) == {"error"}
        assert set(answer["error"]) == {"code", "message"}
        return str(answer["error"]["code"])

    async def send(self, queue: str, body: str = "Hello, world!", **fields: Any) -> Any:
        return await self.post("/send", {"queue_name": self.name(queue), "message_body": body, **fields})

    async def receive(self, queue: str, **fields: Any) -> list[dict[str, Any]]:
        wanted = {"queue_name": self.name(queue), "wait_time_seconds": 0, **fields}
        found: list[dict[str, Any]] = (await self.post("/receive", wanted))["messages"]
        return found

    async def bodies(self, queue: str, **fields: Any) -> list[str]:
        return [message["message_body"] for message in await self.receive(queue, **fields)]

    async def length(self, queue: str) -> tuple[int, int]:
        found = await self.post("/queue_length", {"queue_name": self.name(queue)})
        assert found["queue_name"] == self.name(queue)
        return found["count"], found["in_flight"]


def build(kind: str, request: pytest.FixtureRequest) -> Store:
    if kind == "postgres":
        return shared_postgres(request)
    folder: Path = request.getfixturevalue("tmp_path")
    return SqliteStore(folder / "queues.db" if kind == "sqlite-file" else None)


@pytest.fixture(params=STORES)
async def served(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Live]:
    async with running(store=build(request.param, request), clock=clock, simple=True) as live:
        yield live


@pytest.fixture
async def simple(served: Live) -> AsyncIterator[Simple]:
    async with httpx.AsyncClient(base_url=served.url, trust_env=False) as http:
        yield Simple(http)


@pytest.fixture
async def alone(clock: FakeClock) -> AsyncIterator[Simple]:
    """On a store in memory that nobody else uses: for tests that are about the door and not about a store."""
    async with (
        running(clock=clock, simple=True) as live,
        httpx.AsyncClient(base_url=live.url, trust_env=False) as http,
    ):
        yield Simple(http)
