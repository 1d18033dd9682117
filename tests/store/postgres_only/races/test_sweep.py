"""Sweeps while others are at work, and beside each other."""

from __future__ import annotations

from penstock.clock import FakeClock
from tests.store.caller import Caller
from tests.store.conftest import MakeQueue
from tests.store.postgres_only.conftest import Connect
from tests.store.postgres_only.sessions import Session


class TestSweep:
    async def test_it_waits_for_nobody(
        self, make_queue: MakeQueue, caller: Caller, connect: Connect, fifo: str, clock: FakeClock
    ) -> None:
        """With a send, a receive and a delete open, in a living queue and in an abandoned one."""
        alice, bob, carol = await connect("sender"), await connect("receiver"), await connect("deleter")
        for name in ("plain", "left"):
            await make_queue(name)
            await caller.send(name, "a", "b", retention_s=60)
        for group in "gh":
            await caller.send(fifo, "a", "b", group_id=group, retention_s=60)
        for session in (alice, bob, carol):
            await session.begin()
        for name in ("plain", "left", fifo):
            await alice.send(name, "open", group_id="new")
            await bob.receive(name)
            await carol.delete(name, (await carol.receive(name))[0])
        await caller.store.drop_queue(caller.tenant, "left")
        clock.advance(seconds=61)

        await (await connect("sweeper")).sweep()

        for session in (alice, bob, carol):
            await session.commit()
        await caller.sweep()
        assert await caller.bodies("plain") == await caller.bodies(fifo) == ["open"]
        assert (await caller.counts("plain")).total == (await caller.counts(fifo)).total == 1

    async def test_two_at_once_do_the_work_once(
        self, caller: Caller, alice: Session, bob: Session, queue: str, clock: FakeClock
    ) -> None:
        await caller.send(queue, *"abc", retention_s=60)
        clock.advance(seconds=61)
        await alice.begin()
        assert await alice.store.sweep(clock.now(), 1000) >= 3

        assert await bob.store.sweep(clock.now(), 1000) == 0

        await alice.commit()
        assert await caller.state(queue) == (0, 0, 0)

    async def test_what_is_counted_survives_it(self, caller: Caller, alice: Session, bob: Session, queue: str) -> None:
        await caller.send(queue, *"abc")
        await alice.begin()
        await alice.send(queue, "d")
        await bob.sweep()
        await bob.receive(queue, 2)
        await alice.commit()

        assert await caller.state(queue) == (2, 2, 0)
        await bob.sweep()
        assert await caller.state(queue) == (2, 2, 0)
