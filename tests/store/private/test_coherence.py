"""Two nodes on one database under a random mix of operations: each sees the truth after its own writes at once, and
the other's soon; with notifications, without them, and without a cache."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest

from penstock.client.private import new_key, public_key
from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.engine.private.cache import RecordCache
from penstock.errors import Conflict, Forbidden
from penstock.model.private import LinkData, Party, PrivateRecord
from penstock.store.postgres.store import PostgresStore
from tests.store.private.keys import PUBLIC

STEPS = 150
AGE_S = 0.2
"""How long a copy is trusted here, so that a lost notification is made good within the test."""
KEYS = [public_key(new_key()) for _ in range(3)]

Act = Callable[[Engine, PrivateRecord], Awaitable[object]]


@pytest.fixture(params=["notified", "not notified", "no cache"])
async def nodes(request: pytest.FixtureRequest, private_dsn: str, clock: FakeClock) -> AsyncIterator[list[Engine]]:
    engines = []
    for _ in range(2):
        engine = Engine(PostgresStore(private_dsn, max_connections=4), clock)
        await engine.store.open()
        most = 0 if request.param == "no cache" else 50
        age_s = AGE_S if request.param == "not notified" else 60.0
        engine.private.cache = RecordCache(engine.store.private.find, most=most, age_s=age_s)
        engine.store.private.watch(engine.private.cache.announce)
        if request.param == "notified":
            await engine.store.watch(engine.messages.arrived)
        engines.append(engine)
    yield engines
    for engine in engines:
        await engine.close()


async def truth(engine: Engine, record: PrivateRecord) -> PrivateRecord | None:
    return await engine.store.private.get(record.number)


async def until_true(engine: Engine, record: PrivateRecord) -> None:
    """Wait until the node's answer is the database's."""
    async with asyncio.timeout(5):
        while await engine.private.find(Party.SENDER, record.sender_id) != await truth(engine, record):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def secure(engine: Engine, record: PrivateRecord) -> None:
    await engine.private.secure(record, random.choice(KEYS))


async def notifier(engine: Engine, record: PrivateRecord) -> None:
    await engine.private.add_notifier(record, random.choice(KEYS))


async def no_notifier(engine: Engine, record: PrivateRecord) -> None:
    await engine.private.delete_notifier(record)


async def link(engine: Engine, record: PrivateRecord) -> None:
    await engine.private.set_link(record, None, LinkData(b"fixed", secrets.token_bytes(4)))


async def no_link(engine: Engine, record: PrivateRecord) -> None:
    await engine.private.delete_link(record)


async def suspend(engine: Engine, record: PrivateRecord) -> None:
    await engine.private.set_suspended(record, random.random() < 0.5)


async def keys(engine: Engine, record: PrivateRecord) -> None:
    await engine.private.set_recipient_keys(record, random.sample(KEYS, 2))


async def delete(engine: Engine, record: PrivateRecord) -> None:
    if random.random() < 0.2:
        await engine.private.delete(record)


ACTS: list[Act] = [secure, notifier, no_notifier, link, no_link, suspend, keys, delete]


async def test_nodes_stay_coherent_under_any_mix_of_operations(nodes: list[Engine]) -> None:
    seed = random.randrange(1 << 32)
    random.seed(seed)
    print(f"seed {seed}")
    known = await nodes[0].private.create_many([(PUBLIC, None)] * 6)

    for _ in range(STEPS):
        engine = random.choice(nodes)
        old = random.choice(known)
        record = await engine.private.find(Party.RECIPIENT, old.recipient_id)
        if record is not None:
            before = await truth(engine, old)
            try:
                await random.choice(ACTS)(engine, record)
            except (Conflict, Forbidden):
                await engine.private.cache.load(Party.RECIPIENT, [old.recipient_id])
            # Its own write, at once, by whichever id.
            current = await truth(engine, old)
            if current != before:
                assert await engine.private.find(Party.RECIPIENT, old.recipient_id) == current
                assert await engine.private.find(Party.SENDER, old.sender_id) == current
                if current is not None and current.notifier_id is not None:
                    assert await engine.private.find(Party.NOTIFIER, current.notifier_id) == current
        if random.random() < 0.1:
            known.append(await engine.private.create(PUBLIC))

    # The other's writes, soon.
    for engine in nodes:
        for old in known:
            await until_true(engine, old)


async def test_operations_at_the_same_time_leave_the_truth_in_every_cache(nodes: list[Engine]) -> None:
    made = await nodes[0].private.create(PUBLIC)

    async def churn(engine: Engine) -> None:
        for _ in range(20):
            record = await engine.private.find(Party.RECIPIENT, made.recipient_id)
            assert record is not None
            with suppress(Conflict, Forbidden):
                await random.choice([notifier, no_notifier, suspend, keys])(engine, record)

    await asyncio.gather(*(churn(engine) for engine in nodes * 3))

    for engine in nodes:
        await until_true(engine, made)
