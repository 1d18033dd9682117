"""The judge is judged: the checks find nothing in a sound engine, and the fault in each broken one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from penstock.clock import FakeClock
from penstock.engine import Engine
from penstock.model import TenantId
from penstock.store.sqlite.store import SqliteStore
from tests.fire.checks import Violation
from tests.fire.checks.all import violations
from tests.fire.history import Call, History
from tests.fire.mutants import MUTANTS, Mutant
from tests.fire.player import LEASE_S, Player
from tests.shared_store import SharedPostgres


async def play_queues(player: Player) -> None:
    await player.create("work", tenant="one")
    await player.create("two:work", tenant="two")
    await player.create("dead", fed_by="dead letters")
    await player.create("poison", max_receives=3, dead_letter_queue="dead")
    await player.create("steps.fifo", numbered=True)

    await player.send("work", "one-kept  two spaces ")
    player.restart(0)
    await player.receive("two:work", vt=0)
    first = await player.receive("work")
    await player.receive("work", node=0)
    player.advance(LEASE_S + 1)
    again = await player.receive("work")
    await player.delete("work", *first)
    await player.delete("work", *again)

    await player.send_at_once("work", "one-p x", "one-q x", "one-r x")
    for held in (await player.receive("work"))[:1]:
        await player.hide("work", held, 3 * LEASE_S)
    for _ in range(4):
        player.advance(LEASE_S + 1)
        await player.receive("work")

    await player.send("work", "one-late x", delay=60)
    await player.receive("work")
    player.advance(61)
    await player.send("work", "one-a x", dedup_id="same", node=0)
    await player.send("work", "one-b x", dedup_id="same", node=1)
    await player.empty("work")

    await player.send("poison", "poison-1 x")
    for _ in range(5):
        await player.receive("poison", vt=1)
        player.advance(2)
    await player.empty("dead")

    await player.send("steps.fifo", "g-0 x", "g-1 x", "g-2 x", group="g")
    await player.delete("steps.fifo", *await player.receive("steps.fifo", limit=1))
    await player.empty("steps.fifo", rounds=4)


async def play_jobs(player: Player) -> None:
    await player.limit("limited", 1)
    jobs = [await player.enqueue("jobs") for _ in range(3)]
    [first] = await player.lease("jobs")
    [second] = await player.lease("jobs")
    await player.ack(second)
    await player.cancel("jobs", next(job for job in jobs if job not in (first.id, second.id)))
    player.advance(LEASE_S / 2)
    await player.lease("jobs")
    player.advance(LEASE_S + 3)
    again = await player.lease("jobs")
    await player.lease("jobs")
    player.advance(1)
    await player.ack(first, *again)
    orphan = await player.enqueue("orphans")
    for _ in range(2):
        await player.lease("orphans")
        player.advance(LEASE_S + 3)
    limited = [await player.enqueue("limited") for _ in range(2)]
    for _ in range(2):
        await player.lease("limited", limit=2)
        player.advance(0.1)
    for _ in range(4):
        player.advance(3600)
        for queue in ("jobs", "limited", "orphans"):
            await player.ack(*await player.lease(queue, limit=5))
    again_and_again = await player.enqueue("again")
    await player.nack((await player.lease("again"))[0])
    for _ in range(2):
        await player.lease("again")
        player.advance(LEASE_S / 2)
    parent = await player.enqueue("order")
    child = await player.enqueue("order", after=parent)
    begun = await player.lease("order", limit=2)
    player.advance(1)
    await player.ack(*begun)
    await player.ack(*await player.lease("order"))
    player.advance(3600)
    await player.ack(*await player.lease("again"))
    await player.final("order", parent, child)
    await player.final("jobs", *jobs)
    await player.final("limited", *limited)
    await player.final("orphans", orphan)
    await player.final("again", again_and_again)


async def play_schedules(player: Player) -> None:
    await player.create("ticks", fed_by="a schedule")
    await player.schedule("tick", "ticks", 60)
    for seconds in (61, 60, 180, 60, 60, 60):
        player.advance(seconds)
        await player.fire()
    await player.pause("tick")
    await player.empty("ticks")


async def play_webhooks(player: Player) -> None:
    await player.publish("event-1", "event-2")


SCRIPTS = {
    **dict.fromkeys(
        ["job lost", "two leases", "stale token", "attempts", "cancel", "concurrency", "orphan", "after"], play_jobs
    ),
    **dict.fromkeys(["fired twice", "not fired"], play_schedules),
    "webhook": play_webhooks,
}
"""By the check that is to find the fault; all others are of queues."""


@asynccontextmanager
async def players(clock: FakeClock) -> AsyncIterator[Player]:
    store = SqliteStore(None)
    await store.open()
    try:
        tenants = [(await store.create_tenant(name, clock.now())).id for name in ("one", "two")]
        yield Player(store, clock, (tenants[0], tenants[1]))
    finally:
        await store.close()


@pytest.mark.parametrize("script", [play_queues, play_jobs, play_schedules, play_webhooks])
async def test_nothing_is_found_in_a_sound_engine(script: object, clock: FakeClock) -> None:
    async with players(clock) as player:
        await script(player)  # type: ignore[operator]

    assert list(map(str, violations(player.history))) == []


@pytest.mark.parametrize("mutant", [each for each in MUTANTS.values() if not each.streams], ids=lambda each: each.name)
async def test_every_mutant_is_caught(mutant: Mutant, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Engine.__init__

    def make(self: Engine, *arguments: object, **options: object) -> None:
        plain(self, *arguments, **options)  # type: ignore[arg-type]
        mutant.breaks(self)

    monkeypatch.setattr(Engine, "__init__", make)
    async with players(clock) as player:
        await SCRIPTS.get(mutant.caught_as[0], play_queues)(player)

    caught = {violation.check for violation in violations(player.history)}
    assert caught & set(mutant.caught_as), caught


# Streams, with two sessions of PostgreSQL


async def play_streams(engine: Engine, tenant: TenantId, dsn: str) -> list[Violation]:
    """An event with an early id is committed after a batch with later ids was acknowledged."""
    calls: list[Call] = []
    streams = engine.streams
    name = "flow"
    await streams.create(tenant, name, {})
    await streams.subscribe(tenant, name, "c")
    calls.append(Call("create", name, 0, 0, "ok", {"consumers": ["c"]}))

    async def read() -> None:
        now = float(len(calls))
        await engine.store.streams.tick_on_demand(tenant, name)
        batch = await engine.store.streams.receive(tenant, name, "c", 100)
        if batch is not None:
            result = {"batch": batch.id, "keys": [event.payload for event in batch.events]}
            calls.append(Call("batch", name, now, now, "ok", {"consumer": "c"}, result))
            await engine.store.streams.ack(tenant, name, "c", batch.id)
            calls.append(Call("ack batch", name, now + 0.1, now + 0.1, "ok", {"consumer": "c", "batch": batch.id}))

    queue = f"t{tenant}:{name}"
    with psycopg.connect(dsn) as late, psycopg.connect(dsn) as early:
        for session, key in ((late, "late"), (early, "early")):
            session.execute("select pgque.send(%s, 'default', %s::text)", [queue, key])
            calls.append(Call("event", name, 0, 0, "ok", {"keys": [key]}))
        early.commit()
        await read()
        late.commit()
        await read()
        await read()
    return violations(History(calls))


async def streams_of(store: SharedPostgres, name: str) -> tuple[Engine, TenantId]:
    from penstock.clock import SystemClock

    await store.open()
    clock = SystemClock()
    tenant = await store.create_tenant(name, clock.now())
    return Engine(store, clock), tenant.id


async def test_nothing_is_found_in_a_sound_stream(postgres_store: SharedPostgres, postgres_dsn: str) -> None:
    engine, tenant = await streams_of(postgres_store, "sound")

    assert await play_streams(engine, tenant, postgres_dsn) == []


@pytest.mark.parametrize("mutant", [each for each in MUTANTS.values() if each.streams], ids=lambda each: each.name)
async def test_every_mutant_of_streams_is_caught(
    mutant: Mutant, postgres_store: SharedPostgres, postgres_dsn: str
) -> None:
    engine, tenant = await streams_of(postgres_store, mutant.name.replace(" ", "-"))
    sound: dict[str, object] = dict(vars(engine.store.streams))
    mutant.breaks(engine)
    try:
        found = await play_streams(engine, tenant, postgres_dsn)
    finally:
        vars(engine.store.streams).clear()
        vars(engine.store.streams).update(sound)

    assert {violation.check for violation in found} & set(mutant.caught_as)


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 16
