"""The tools, through the SDK's client in memory: what they offer, what they change, how much they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock.auth import Mode
from penstock.client import AsyncClient
from penstock.model import DEFAULT_TENANT, Scope
from penstock.store import Store
from penstock.store.postgres.store import PostgresStore
from penstock.store.sqlite.store import SqliteStore
from tests.docs.pages import page, plain, rows, section
from tests.mcp_server.world import furnish, postgres_checksum, sqlite_checksum
from tests.wire.conftest import Live, running

if TYPE_CHECKING:
    # Imported by the functions that need it: it takes a second, which every test process would spend to list its tests.
    from mcp.client import Client


@asynccontextmanager
async def agent(live: Live, token: str = "anyone", *, allow_writes: bool = False) -> AsyncIterator[Client]:
    from mcp.client import Client

    from penstock.mcp_server import create

    async with AsyncClient(live.url, token) as api, Client(create(api, "0", allow_writes=allow_writes)) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, (tool, result.content)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    text = str(getattr(result.content[0], "text", ""))
    return text.removeprefix(f"Error executing tool {tool}: ")


READS: dict[str, dict[str, Any]] = {
    "overview": {"stuck_after": 1},
    "list_queues": {"prefix": "ord"},
    "get_queue": {"queue": "orders-failed"},
    "peek_messages": {"queue": "orders-failed"},
    "list_jobs": {"queue": "emails", "status": "dead"},
    "get_job": {"job_id": "dead"},
    "get_job_queue": {"queue": "emails"},
    "list_schedules": {"name": "nightly"},
    "list_topics": {},
    "list_deliveries": {"state": "pending"},
    "list_streams": {},
    "get_stream": {"stream": "clicks"},
}
STREAMS = {"list_streams", "get_stream"}
WRITES: dict[str, dict[str, Any]] = {
    "send_message": {"queue": "orders", "message": {"order": 9}},
    "enqueue_job": {"queue": "emails", "payload": {"to": "grace"}},
    "delete_message": {"queue": "orders-failed", "message_id": 1},
    "redrive_dead_letters": {"queue": "orders-failed", "message_ids": [2]},
    "retry_dead_jobs": {"queue": "emails"},
    "cancel_job": {"job_id": "waiting"},
    "set_job_limits": {"queue": "emails", "concurrency": 5},
    "replay_delivery": {"delivery_id": 1},
}


@dataclass
class World:
    live: Live
    ids: dict[str, Any]
    checksum: Callable[[], str]
    streams: bool

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        return {name: self.ids.get(value, value) if name == "job_id" else value for name, value in given.items()}


@asynccontextmanager
async def world(store: Store, checksum: Callable[[], str], *, streams: bool) -> AsyncIterator[World]:
    """A server without background duties: what changes is what a tool changed."""
    async with running(store=store) as live:
        async with live.client() as http:
            ids = await furnish(http, streams=streams)
        yield World(live, ids, checksum, streams)


@pytest.fixture
async def on_sqlite(tmp_path: Path) -> AsyncIterator[World]:
    path = tmp_path / "penstock.db"
    async with world(SqliteStore(path), lambda: sqlite_checksum(path), streams=False) as found:
        yield found


@pytest.fixture
async def on_postgres(migrated_database: str) -> AsyncIterator[World]:
    store = PostgresStore(migrated_database)
    async with world(store, lambda: postgres_checksum(migrated_database), streams=True) as found:
        yield found


async def reads_change_nothing(world: World) -> None:
    async with agent(world.live) as client:
        for tool, arguments in READS.items():
            if tool in STREAMS and not world.streams:
                continue
            before = world.checksum()
            assert await call(client, tool, **world.arguments(arguments))
            assert world.checksum() == before, tool


async def test_tools_that_only_read_change_nothing_on_sqlite(on_sqlite: World) -> None:
    await reads_change_nothing(on_sqlite)


async def test_tools_that_only_read_change_nothing_on_postgresql(on_postgres: World) -> None:
    await reads_change_nothing(on_postgres)


async def test_every_other_tool_changes_something(on_sqlite: World) -> None:
    async with agent(on_sqlite.live, allow_writes=True) as client:
        for tool, arguments in WRITES.items():
            if tool == "replay_delivery":
                # Only a finished delivery can be replayed, and finishing one takes a deliverer.
                assert "still in progress" in await refusal(client, tool, **arguments)
                continue
            before = on_sqlite.checksum()
            await call(client, tool, **on_sqlite.arguments(arguments))
            assert on_sqlite.checksum() != before, tool


async def test_hints_are_those_of_the_lists_and_writes_must_be_allowed() -> None:
    async with running() as live:
        async with agent(live) as client:
            reading = (await client.list_tools()).tools
        async with agent(live, allow_writes=True) as client:
            all_tools = (await client.list_tools()).tools

    hints = {tool.name: tool.annotations for tool in all_tools}
    assert {tool.name for tool in reading} == set(READS)
    assert set(hints) == set(READS) | set(WRITES)
    assert len(hints) <= 20
    assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == set(READS)
    adds = {name for name, hint in hints.items() if hint and not hint.read_only_hint and not hint.destructive_hint}
    assert adds == {"send_message", "enqueue_job"}
    assert all(tool.description and tool.input_schema for tool in all_tools)
    assert not [tool.name for tool in all_tools if "\n " in (tool.description or "")]


def test_every_tool_is_documented() -> None:
    documented = [plain(row[0]) for row in rows(section(page("docs/mcp.md"), "## What an agent can do"))]

    assert sorted(documented) == sorted({*READS, *WRITES})


async def test_the_scope_of_the_token_is_the_boundary() -> None:
    async with running(mode=Mode.TOKEN) as live:
        async with live.client(await token(live, Scope.ADMIN)) as http:
            await http.post("/v1/queues", json={"name": "orders"})
        async with agent(live, await token(live, Scope.READ), allow_writes=True) as client:
            assert (await call(client, "get_queue", queue="orders"))["queue_length"] == 0
            refused = await refusal(client, "send_message", queue="orders", message=1)
            peeked = await refusal(client, "peek_messages", queue="orders")
            assert (await call(client, "get_queue", queue="orders"))["queue_length"] == 0

    assert refused.startswith("Forbidden: ")
    assert peeked.startswith("Forbidden: ")


async def token(live: Live, scope: Scope) -> str:
    _, text = await live.engine.tenants.create_token(DEFAULT_TENANT, "agent", frozenset({scope}))
    return text


async def test_errors_say_what_is_wrong() -> None:
    async with running() as live, agent(live, allow_writes=True) as client:
        assert await refusal(client, "get_queue", queue="nowhere") == "QueueNotFound: Queue 'nowhere' does not exist"
        assert "dots only" in await refusal(client, "get_queue", queue="..")
        assert "limit" in await refusal(client, "peek_messages", queue="x", limit=1000)
        assert "PostgreSQL" in await refusal(client, "list_streams")
        assert 'unknown argument "state"; known: queue, status' in await refusal(client, "list_jobs", state="dead")


async def test_a_misspelt_argument_does_not_mean_all(on_sqlite: World) -> None:
    before = on_sqlite.checksum()
    async with agent(on_sqlite.live, allow_writes=True) as client:
        assert 'unknown argument "ids"' in await refusal(client, "retry_dead_jobs", queue="emails", ids=["x"])
        assert 'unknown argument "ids"' in await refusal(client, "redrive_dead_letters", queue="orders-failed", ids=[1])
        tools = (await client.list_tools()).tools

    assert on_sqlite.checksum() == before
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools)


async def test_long_answers_are_cut_and_say_so() -> None:
    async with running() as live:
        async with live.client() as http:
            await http.post("/v1/queues", json={"name": "large"})
            for _ in range(20):
                await http.post("/v1/queues/large/messages", json={"message": {"text": "x" * 5_000}})
        async with agent(live) as client:
            found = await call(client, "peek_messages", queue="large", limit=20)

    from penstock.mcp_server.bounds import LARGEST

    text = msgspec.json.encode(found)
    assert len(text) <= LARGEST
    assert b"(cut, 5000 characters)" in text


@pytest.mark.parametrize(
    "value",
    [
        {"deep": [[[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]]},
        {"wide": [{"n": n, "text": "y" * 300} for n in range(5_000)]},
        {"many": {f"key-{n}": n for n in range(5_000)}},
        {"large": 2**63, "nothing": None, "truth": True, "half": 0.5},
    ],
)
def test_any_answer_is_bounded(value: dict[str, Any]) -> None:
    from penstock.mcp_server.bounds import LARGEST, bounded

    assert len(msgspec.json.encode(bounded(value))) <= LARGEST


def test_numbers_that_a_double_cannot_hold_are_texts() -> None:
    from penstock.mcp_server.bounds import bounded

    assert bounded({"large": 2**63, "small": 7}) == {"large": str(2**63), "small": 7}
