"""Waking receivers that wait in another process: what others commit is heard, and nothing else is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.clock import SystemClock
from penstock.engine import Engine, waiting
from penstock.model import DEFAULT_TENANT, Handle, Message, QueueSettings, Receive, Send
from penstock.store.postgres import listener
from penstock.store.postgres.store import PostgresStore
from tests.store.postgres_only.sessions import until

Start = Callable[[], Awaitable[Engine]]

RECHECK_S = waiting.RECHECK_S


@pytest.fixture
async def start(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Nodes whose receivers never look again by themselves while a test lasts."""
    monkeypatch.setattr(waiting, "RECHECK_S", 60.0)
    monkeypatch.setattr(listener, "RETRY_S", 0.01)
    started: list[Engine] = []

    async def start() -> Engine:
        engine = Engine(PostgresStore(dsn, max_connections=4))
        started.append(engine)
        await engine.open()
        return engine

    yield start
    for engine in started:
        await engine.close()


@pytest.fixture
async def user(dsn: str) -> AsyncIterator[Any]:
    """A connection of someone who knows nothing but SQL."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def queue(user: Any) -> str:
    return await new_queue(user)


class Waiting:
    """A receiver at work, to come back before it would look again by itself."""

    def __init__(self, engine: Engine, queue: str) -> None:
        request = Receive(tenant=DEFAULT_TENANT, queue=queue, limit=10)
        self._task = asyncio.create_task(engine.messages.receive(request, wait_s=20))

    async def messages(self) -> list[Message]:
        async with asyncio.timeout(RECHECK_S):
            return await self._task

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def new_queue(user: Any, suffix: str = "") -> str:
    name = f"queue-{uuid4().hex}{suffix}"
    await user.fetchval("select penstock.create_queue($1)", name)
    return name


async def waiting_on(user: Any, engine: Engine, queue: str, nodes: int = 1) -> Waiting:
    """A receiver that everyone knows of."""
    waiting = Waiting(engine, queue)
    query = """
        select count(*)
        from penstock.waiting as w
        join penstock.queues as q on q.id = w.queue_id
        where q.name = $1
    """
    await until(lambda: user.fetchval(query, queue), nodes)
    return waiting


class Ear:
    """Hears everything that is said to the nodes."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._heard: list[str] = []

    async def open(self) -> None:
        await self._connection.add_listener(listener.CHANNEL, self._hear)

    def _hear(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self._heard.append(str(payload))

    async def heard(self) -> list[str]:
        """Everything so far: what is committed first is heard first."""
        await self._connection.execute("select pg_notify($1, 'now')", listener.CHANNEL)

        async def complete() -> bool:
            return "now" in self._heard

        await until(complete, True)
        return [payload for payload in self._heard if payload != "now"]


@pytest.fixture
async def ear(dsn: str) -> AsyncIterator[Ear]:
    connection = await asyncpg.connect(dsn)
    ear = Ear(connection)
    await ear.open()
    yield ear
    await connection.close()


async def test_a_committed_sql_send_wakes_a_waiting_receiver(start: Start, user: Any, queue: str) -> None:
    waiting = await waiting_on(user, await start(), queue)

    async with user.transaction():
        await user.execute("select penstock.send($1, 'hello')", queue)

    assert [message.body for message in await waiting.messages()] == ["hello"]


async def test_a_sql_send_that_is_rolled_back_wakes_nobody(start: Start, user: Any, queue: str, ear: Ear) -> None:
    waiting = await waiting_on(user, await start(), queue)

    transaction = user.transaction()
    await transaction.start()
    await user.execute("select penstock.send($1, 'never')", queue)
    await transaction.rollback()

    assert await ear.heard() == []
    await user.execute("select penstock.send($1, 'hello')", queue)
    assert [message.body for message in await waiting.messages()] == ["hello"]


async def test_two_nodes_wake_each_other(start: Start, user: Any, queue: str) -> None:
    here, there = await start(), await start()
    for sender, receiver in ((here, there), (there, here)):
        waiting = await waiting_on(user, receiver, queue, 1 if receiver is there else 2)
        await sender.messages.send(Send(tenant=DEFAULT_TENANT, queue=queue, body="hello"))

        [message] = await waiting.messages()
        assert message.body == "hello"


async def test_a_delete_on_one_node_lets_another_receive_the_next_of_the_group(start: Start, user: Any) -> None:
    queue = await new_queue(user, ".fifo")
    here, there = await start(), await start()
    for body in ("first", "second"):
        await user.execute("select penstock.send($1, $2, group_id => 'g', dedup_id => $2)", queue, body)
    [first] = await here.messages.receive(Receive(tenant=DEFAULT_TENANT, queue=queue))
    waiting = await waiting_on(user, there, queue)

    await here.messages.delete(Handle(tenant=DEFAULT_TENANT, queue=queue, id=first.id, lease=first.lease))

    assert [message.body for message in await waiting.messages()] == ["second"]


async def test_a_message_released_on_one_node_wakes_another(start: Start, user: Any, queue: str) -> None:
    here, there = await start(), await start()
    await user.execute("select penstock.send($1, 'hello')", queue)
    [held] = await here.messages.receive(Receive(tenant=DEFAULT_TENANT, queue=queue))
    waiting = await waiting_on(user, there, queue)

    await here.messages.change_visibility(Handle(tenant=DEFAULT_TENANT, queue=queue, id=held.id, lease=held.lease), 0)

    assert [message.receives for message in await waiting.messages()] == [2]


async def test_a_listener_that_lost_its_connection_comes_back(start: Start, user: Any, queue: str) -> None:
    waiting = await waiting_on(user, await start(), queue)
    query = """
        select pid
        from pg_stat_activity
        where application_name = 'penstock listener'
          and datname = current_database()
          and wait_event = 'ClientRead'
          and query ilike 'listen%'
    """
    lost = await user.fetchval(query)
    await user.execute("select pg_terminate_backend($1)", lost)

    async def came_back() -> bool:
        return await user.fetchval(query) not in (None, lost)

    await until(came_back, True)
    await user.execute("select penstock.send($1, 'hello')", queue)

    assert [message.body for message in await waiting.messages()] == ["hello"]


async def test_nothing_is_said_when_nobody_waits(start: Start, user: Any, queue: str, ear: Ear) -> None:
    engine = await start()
    await user.execute("select penstock.send($1, 'hello')", queue)
    await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue=queue, body="hello"))

    assert await ear.heard() == []


async def test_nothing_is_said_to_the_node_that_sends(start: Start, user: Any, queue: str, ear: Ear) -> None:
    engine = await start()
    waiting = await waiting_on(user, engine, queue)
    await engine.messages.send(Send(tenant=DEFAULT_TENANT, queue=queue, body="hello"))

    assert len(await waiting.messages()) == 1
    assert await ear.heard() == []


async def test_one_transaction_says_it_once(start: Start, user: Any, queue: str, ear: Ear) -> None:
    waiting = await waiting_on(user, await start(), queue)
    async with user.transaction():
        for _ in range(5):
            await user.execute("select penstock.send($1, 'hello')", queue)

    assert len(await waiting.messages()) == 5
    assert await ear.heard() == [f"{DEFAULT_TENANT} {queue}"]


async def test_a_send_to_another_queue_or_tenant_wakes_nobody(start: Start, user: Any, queue: str, ear: Ear) -> None:
    engine = await start()
    waiting = await waiting_on(user, engine, queue)
    other = await engine.store.create_tenant(f"tenant-{uuid4().hex}", SystemClock().now())
    await engine.store.create_queue(other.id, queue, QueueSettings(), SystemClock().now())
    async with user.transaction():
        await user.execute("select set_config('penstock.tenant', $1, true)", other.name)
        await user.execute("select penstock.send($1, 'hello')", queue)
    await user.execute("select penstock.send($1, 'hello')", await new_queue(user))

    assert await ear.heard() == []
    await waiting.stop()
