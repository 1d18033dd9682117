"""Sessions of PostgreSQL that a test can hold open, and ways to see who waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from asyncpg.transaction import Transaction

from penstock.clock import FakeClock
from penstock.model import TenantId
from penstock.store.postgres.connections import Connections, translate
from penstock.store.postgres.jobs.jobs import PostgresJobs
from penstock.store.postgres.queues.hints import EVERYWHERE, Hints, Key, Look
from penstock.store.postgres.store import PostgresStore
from penstock.store.postgres.topics.topics import PostgresTopics
from tests.store.caller import Caller

PATIENCE_S = 10.0
"""How long a poll goes on before the test fails."""


class NoHints(Hints):
    """A session that rolls back must not remember what it read."""

    def look(self, key: Key, now: object) -> Look:
        return EVERYWHERE


class OneConnection(Connections):
    """Nothing is tried twice: a deadlock is the test's to see."""

    session: Any = None

    async def call(self, ask: Callable[[Any], Awaitable[Any]], durable: bool) -> Any:
        try:
            return await ask(self.session)
        except Exception as error:
            raise translate(error) from error


class SessionStore(PostgresStore):
    """The store on one connection."""

    def __init__(self, dsn: str, name: str) -> None:
        super().__init__(dsn)
        self._name = name
        self._hints = NoHints(usual_priority=0)
        self._connections = self._one = OneConnection(dsn, 2, name)
        self.jobs = PostgresJobs(self._one, name)
        self.topics = PostgresTopics(self._one)

    async def open(self) -> None:
        settings = {
            "application_name": self._name,
            "penstock.node": self._name,
            "lock_timeout": "5s",
            "deadlock_timeout": "100ms",
        }
        self._one.session = await asyncpg.connect(self._dsn, server_settings=settings)

    @property
    def connection(self) -> Any:
        return self._one.session

    async def close(self) -> None:
        await self.connection.close()


class Session(Caller):
    """A caller with a transaction of its own to begin and to end."""

    def __init__(self, store: SessionStore, tenant: TenantId, clock: FakeClock, name: str) -> None:
        super().__init__(store, tenant, clock)
        self.name = name
        self.connection = store.connection
        self._transaction: Transaction | None = None

    async def begin(self, isolation: str = "read_committed") -> None:
        self._transaction = self.connection.transaction(isolation=isolation)
        await self._transaction.start()

    async def commit(self) -> None:
        assert self._transaction is not None
        await self._transaction.commit()

    async def rollback(self) -> None:
        assert self._transaction is not None
        await self._transaction.rollback()

    def entry(self, queue: str, body: str, **fields: Any) -> Any:
        """Deduplication ids of different sessions differ, unless the test has one."""
        if queue.endswith(".fifo"):
            self._made += 1
            fields.setdefault("dedup_id", f"{self.name}-{self._made}")
        return super().entry(queue, body, **fields)


class Watcher:
    """Asks PostgreSQL who is blocked."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def blocked(self, *sessions: Session) -> None:
        """Return when every one of the sessions waits for a lock."""
        query = """
            select count(*)
            from pg_stat_activity
            where application_name = any ($1)
              and state = 'active'
              and wait_event_type = 'Lock'
        """
        names = [session.name for session in sessions]
        await until(lambda: self._connection.fetchval(query, names), len(names))

    async def unreachable(self) -> int:
        """Messages and counts in bins that no queue has."""
        query = """
            select count(*)
            from (
              select bin_id from penstock.messages
              union all
              select bin_id from penstock.bin_counts
              union all
              select bin_id from penstock.bin_changes
            ) as b
            where not exists (select from penstock.queues as q where q.bin_id = b.bin_id)
        """
        return int(await self._connection.fetchval(query))


async def until(ask: Callable[[], Awaitable[Any]], wanted: object) -> None:
    """Ask until the answer is the wanted one."""
    async with asyncio.timeout(PATIENCE_S):
        while await ask() != wanted:  # noqa: ASYNC110 — PostgreSQL gives no sign when someone starts to wait
            await asyncio.sleep(0.005)
