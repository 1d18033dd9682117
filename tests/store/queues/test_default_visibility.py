"""The default visibility timeout of the server applies to every queue that never set its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from penstock.clock import FakeClock
from penstock.model import QueueSettings, TenantId
from penstock.store import Store
from penstock.store.postgres.store import PostgresStore
from penstock.store.sqlite.store import SqliteStore
from tests.store.caller import Caller

Opened = Callable[[int], AbstractAsyncContextManager[Store]]


@pytest.fixture(params=["sqlite-file", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """One database, opened by a server with the given default."""

    @asynccontextmanager
    async def open_with(seconds: int) -> AsyncIterator[Store]:
        store: Store
        if request.param == "postgres":
            store = PostgresStore(request.getfixturevalue("postgres_dsn"), visibility_timeout_s=seconds)
        else:
            store = SqliteStore(tmp_path / "queues.db", visibility_timeout_s=seconds)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    return open_with


async def hidden_s(store: Store, tenant: TenantId, queue: str, clock: FakeClock) -> float:
    """How long a message of the queue is hidden by a receive that does not say."""
    caller = Caller(store, tenant, clock)
    await caller.send(queue, "m")
    message = await caller.receive_one(queue)
    await caller.delete(queue, message)
    return (message.visible_at - clock.now()).total_seconds()


@pytest.mark.parametrize("implicit", [False, True])
async def test_a_queue_without_its_own_follows_the_default(opened: Opened, clock: FakeClock, implicit: bool) -> None:
    async with opened(45) as store:
        tenant = (await store.create_tenant(f"tenant-{uuid4().hex}", clock.now())).id
        queue, _ = await store.create_queue(tenant, "q", QueueSettings(), clock.now(), implicit=implicit)
        assert queue.settings.visibility_timeout_s == 45
        assert await hidden_s(store, tenant, "q", clock) == 45

    async with opened(60) as store:
        assert (await store.get_queue(tenant, "q")).settings.visibility_timeout_s == 60
        assert await hidden_s(store, tenant, "q", clock) == 60


async def test_a_queue_keeps_its_own(opened: Opened, clock: FakeClock) -> None:
    async with opened(45) as store:
        tenant = (await store.create_tenant(f"tenant-{uuid4().hex}", clock.now())).id
        await store.create_queue(tenant, "given", QueueSettings(visibility_timeout_s=7), clock.now())
        await store.create_queue(tenant, "changed", QueueSettings(), clock.now())
        await store.update_queue(tenant, "changed", {"visibility_timeout_s": 45}, clock.now())

    async with opened(60) as store:
        assert await hidden_s(store, tenant, "given", clock) == 7
        assert await hidden_s(store, tenant, "changed", clock) == 45


async def test_a_change_of_another_setting_is_no_choice_of_this_one(opened: Opened, clock: FakeClock) -> None:
    async with opened(45) as store:
        tenant = (await store.create_tenant(f"tenant-{uuid4().hex}", clock.now())).id
        await store.create_queue(tenant, "q", QueueSettings(), clock.now())
        await store.update_queue(tenant, "q", {"max_length": 10}, clock.now())

    async with opened(60) as store:
        assert await hidden_s(store, tenant, "q", clock) == 60


async def test_a_queue_created_from_sql_has_the_servers_default(postgres_dsn: str, clock: FakeClock) -> None:
    store = PostgresStore(postgres_dsn, visibility_timeout_s=45)
    await store.open()
    tenant = await store.create_tenant(f"tenant-{uuid4().hex}", clock.now())
    session = await asyncpg.connect(postgres_dsn)
    try:
        await session.execute("select set_config('penstock.tenant', $1, false)", tenant.name)
        await session.execute("select penstock.create_queue('q')")

        assert await hidden_s(store, tenant.id, "q", clock) == 45
        assert (await store.get_queue(tenant.id, "q")).settings.visibility_timeout_s == 45

        await session.execute("select penstock.send('q', 'mine'::text)")
        await session.execute("set penstock.default_visibility_timeout_s = 50")
        row = await session.fetchrow("select r.visible_at - now() as hidden from penstock.receive('q') as r")
        assert row is not None
        assert timedelta(seconds=49) < row["hidden"] < timedelta(seconds=51)
    finally:
        await session.close()
        await store.close()
