"""Which failures of a statement are tried again, and which statements do not wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from penstock.clock import FakeClock
from penstock.errors import Unavailable
from penstock.model import DEFAULT_TENANT, QueueSettings, Send
from penstock.store.postgres.connections import RETRIES, Connections, translate
from penstock.store.postgres.kept_pool import is_lost
from penstock.store.postgres.store import PostgresStore


@pytest.fixture
async def connections(postgres_dsn: str) -> AsyncIterator[Connections]:
    connections = Connections(postgres_dsn, 2, "node")
    await connections.open()
    yield connections
    await connections.close()


async def test_a_connection_that_the_server_closed_is_not_used_again(
    connections: Connections, postgres_dsn: str
) -> None:
    kept: list[Any] = []

    async def ask(connection: Any) -> int:
        kept.append(connection)
        return int(await connection.fetchval("select pg_backend_pid()"))

    used = await connections.call(ask, True)
    other = await asyncpg.connect(postgres_dsn)
    try:
        assert await other.fetchval("select pg_terminate_backend($1, 10000)", used)
    finally:
        await other.close()
    async with asyncio.timeout(10):
        while not is_lost(kept[0]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    assert await connections.call(lambda connection: connection.fetchval("select 42"), True) == 42


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.DiskFullError("could not extend file"),
        asyncpg.PostgresIOError("could not write"),
        asyncpg.OutOfMemoryError("out of memory"),
        asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"),
        asyncpg.TooManyConnectionsError("sorry, too many clients already"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_database_that_cannot_work_now_is_unavailable(error: Exception) -> None:
    translated = translate(error)

    assert isinstance(translated, Unavailable)
    assert "could not" not in translated.message  # files of the database are nothing to a client


FAULTS = [asyncpg.InternalServerError, asyncpg.UndefinedTableError]


@pytest.mark.parametrize("error", [asyncpg.DeadlockDetectedError, asyncpg.SerializationError, *FAULTS])
async def test_a_conflict_is_tried_again_and_then_told(
    connections: Connections, error: type[asyncpg.PostgresError]
) -> None:
    failures = [error("conflict")]

    async def ask(connection: Any) -> int:
        if failures:
            raise failures.pop()
        return int(await connection.fetchval("select 42"))

    assert await connections.call(ask, True) == 42
    failures = [error("conflict")] * RETRIES
    with pytest.raises(error if error in FAULTS else Unavailable):
        await connections.call(ask, True)


NOTE = """
create table public.seen (body text, setting text);
create function public.note() returns trigger language plpgsql as $$
begin
  insert into public.seen values (new.body, current_setting('synchronous_commit'));
  return null;
end;
$$;
create trigger note after insert on penstock.messages for each row execute function public.note();
"""


def send(body: str, sync_commit: bool, **more: str) -> Send:
    return Send(tenant=DEFAULT_TENANT, queue="q", body=body, sync_commit=sync_commit, **more)  # type: ignore[arg-type]


async def test_a_batch_skips_the_disk_when_every_message_asks_for_it(migrated_database: str, clock: FakeClock) -> None:
    store = PostgresStore(migrated_database)
    await store.open()
    session = await asyncpg.connect(migrated_database)
    try:
        await session.execute(NOTE)
        await store.create_queue(DEFAULT_TENANT, "q", QueueSettings(), clock.now())

        await store.send_many([send("usual", True)], clock.now())
        await store.send_many([send("quick", False), send("with an id", False, dedup_id="d")], clock.now())
        await store.send_many([send("joined", False), send("safe", True)], clock.now())
        await store.send_many([send("after", True)], clock.now())

        seen = dict(await session.fetch("select body, setting from public.seen"))
        assert seen == {
            "usual": "on",
            "quick": "off",
            "with an id": "off",
            "joined": "on",
            "safe": "on",
            "after": "on",
        }
    finally:
        await session.close()
        await store.close()
