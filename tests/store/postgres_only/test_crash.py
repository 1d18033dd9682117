"""What survives when every process of PostgreSQL is killed at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.clock import FakeClock
from penstock.errors import Unavailable
from penstock.model import DEFAULT_TENANT, Outcome
from penstock.store.postgres.embedded.server import EmbeddedPostgres
from penstock.store.postgres.store import PostgresStore
from tests.store.caller import Caller
from tests.store.postgres_only.sessions import until


class Server:
    """A durable PostgreSQL of our own, to be killed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._postgres = EmbeddedPostgres(directory)

    async def start(self) -> str:
        await asyncio.to_thread(self._postgres.start)
        return self._postgres.dsn

    async def revive(self) -> None:
        """Once the last breath of the killed one is out."""
        await until(lambda: asyncio.to_thread(self._postgres.revive), True)

    async def stop(self) -> None:
        await asyncio.to_thread(self._postgres.stop)

    def kill(self) -> None:
        """All of them, and the first before it can tell the others."""
        first = int((self._directory / "postgresql" / "postmaster.pid").read_text().split()[0])
        for pid in (first, *children_of(first)):
            os.kill(pid, signal.SIGKILL)


def children_of(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    if sys.platform != "linux":
        pytest.skip("processes are found in /proc")
    server = Server(tmp_path / "postgres")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def caller(server: Server, clock: FakeClock) -> AsyncIterator[Caller]:
    store = PostgresStore(await server.start(), max_connections=6)
    await store.open()
    yield Caller(store, DEFAULT_TENANT, clock)
    await store.close()


async def answers(caller: Caller) -> bool:
    try:
        await caller.store.ping()
    except Unavailable:
        return False
    return True


@pytest.mark.slow
async def test_what_was_acknowledged_survives_and_the_store_finds_its_way_back(
    server: Server, caller: Caller, clock: FakeClock
) -> None:
    await caller.make_queue("work")
    await caller.make_queue("work.fifo")
    acknowledged: dict[int, str] = {}
    deleted: set[int] = set()
    under_way = asyncio.Event()

    async def send_until_it_is_away(queue: str, number: int) -> None:
        count = 0
        while True:
            count += 1
            try:
                [sent] = await caller.send(queue, f"{number} {count}", group_id=f"group-{number}")
            except Unavailable:
                return
            acknowledged[sent] = queue
            if len(acknowledged) >= 200:
                under_way.set()

    async def receive_until_it_is_away(queue: str) -> None:
        while True:
            try:
                messages = await caller.receive(queue, 2)
                if messages and await caller.delete(queue, messages[0]) == [Outcome.DONE]:
                    deleted.add(messages[0].id)
            except Unavailable:
                return

    async with asyncio.timeout(30):
        work = [send_until_it_is_away(queue, number) for queue in ("work", "work.fifo") for number in range(4)]
        work += [receive_until_it_is_away(queue) for queue in ("work", "work.fifo")]
        tasks = [asyncio.create_task(each) for each in work]
        await under_way.wait()
        server.kill()
        await asyncio.gather(*tasks)

    assert not await answers(caller)
    await server.revive()
    await until(lambda: answers(caller), True)

    clock.advance(seconds=3600)
    found: set[int] = set()
    for queue in ("work", "work.fifo"):
        while messages := await caller.receive(queue, 1000):
            found |= {message.id for message in messages}
            assert set(await caller.delete(queue, *messages)) == {Outcome.DONE}
    assert deleted
    assert acknowledged.keys() - deleted <= found
    assert not deleted & found


@pytest.mark.slow
async def test_a_claim_may_be_forgotten_but_the_message_never(server: Server, caller: Caller, clock: FakeClock) -> None:
    await caller.make_queue("work")
    sent = set(await caller.send("work", *map(str, range(100))))
    await caller.receive("work", 60)

    server.kill()
    await server.revive()
    await until(lambda: answers(caller), True)

    again = {message.id for message in await caller.receive("work", 100)}
    clock.advance(seconds=3600)
    once_more = {message.id for message in await caller.receive("work", 100)}
    assert again <= sent
    assert once_more == sent
