"""Receives that meet other receives."""

from __future__ import annotations

import asyncio

from penstock.clock import FakeClock
from tests.store.caller import Caller, received
from tests.store.conftest import MakeQueue
from tests.store.postgres_only.conftest import Connect
from tests.store.postgres_only.races.steps import LONG_AGO_S
from tests.store.postgres_only.sessions import Session


class TestReceivers:
    async def test_two_never_share_a_message(self, caller: Caller, connect: Connect, queue: str) -> None:
        await caller.send(queue, *map(str, range(300)))
        sessions = [await connect("receiver") for _ in range(6)]
        together = asyncio.Barrier(len(sessions))

        async def drain(session: Session) -> list[str]:
            await together.wait()
            found: list[str] = []
            while bodies := await session.bodies(queue, 7):
                found += bodies
            return found

        found = await asyncio.gather(*map(drain, sessions))

        assert sorted(int(body) for bodies in found for body in bodies) == list(range(300))

    async def test_one_does_not_wait_for_the_uncommitted_claim_of_another(
        self, caller: Caller, alice: Session, bob: Session, queue: str
    ) -> None:
        await caller.send(queue, "a", "b")
        await alice.begin()
        assert await alice.bodies(queue, 1) == ["a"]

        assert await bob.bodies(queue, 10) == ["b"]
        assert await bob.bodies(queue, 10) == []

    async def test_a_claim_that_is_rolled_back_never_was(
        self, caller: Caller, alice: Session, bob: Session, queue: str
    ) -> None:
        await caller.send(queue, "a")
        await alice.begin()
        await alice.receive_one(queue)
        await alice.rollback()

        again = await bob.receive_one(queue)

        assert (again.body, again.receives) == ("a", 1)

    async def test_one_does_not_wait_for_another_that_brings_back_what_is_due(
        self, caller: Caller, alice: Session, bob: Session, queue: str, clock: FakeClock
    ) -> None:
        await caller.send(queue, "a", "b")
        await caller.receive(queue, 2, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        assert await alice.bodies(queue, 1) == ["a"]

        assert await bob.bodies(queue) == []

        await alice.commit()
        assert await bob.bodies(queue) == ["b"]

    async def test_two_never_share_a_group(self, caller: Caller, connect: Connect, fifo: str) -> None:
        for group in "abc":
            await caller.send(fifo, *(f"{group}{number}" for number in range(5)), group_id=group)
        sessions = [await connect("receiver") for _ in range(6)]
        together = asyncio.Barrier(len(sessions))

        async def receive(session: Session) -> list[str]:
            await together.wait()
            return [body[0] for body in await session.bodies(fifo, 2)]

        groups = [set(found) for found in await asyncio.gather(*map(receive, sessions))]

        assert sorted(group for found in groups for group in found) == ["a", "b", "c"]

    async def test_the_follower_of_an_uncommitted_head_stays(
        self, caller: Caller, alice: Session, bob: Session, fifo: str
    ) -> None:
        await caller.send(fifo, "a1", "a2", group_id="a")
        await alice.begin()
        assert await alice.bodies(fifo, 1) == ["a1"]

        assert await bob.bodies(fifo) == []

        await alice.rollback()
        assert await bob.bodies(fifo) == ["a1", "a2"]

    async def test_one_is_not_told_to_look_again_at_once_for_a_message_someone_holds(
        self, caller: Caller, alice: Session, bob: Session, queue: str, fifo: str, clock: FakeClock
    ) -> None:
        for name in (queue, fifo):
            await caller.send(name, "a", group_id="g")
            await caller.receive_one(name, visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await alice.receive_one(queue)
        await alice.send(fifo, "b", group_id="g")

        assert received(await bob.ask(queue)).next_due_at is None
        assert received(await bob.ask(fifo)).next_due_at is None

    async def test_one_does_not_wait_for_another_that_sets_a_message_of_the_group_aside(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, clock: FakeClock
    ) -> None:
        await make_queue("dead.fifo")
        await make_queue("work.fifo", max_receives=1, dead_letter_queue="dead.fifo")
        [poison] = await caller.send("work.fifo", "a", group_id="g")
        await caller.receive_one("work.fifo", visibility_timeout_s=5)
        clock.advance(seconds=LONG_AGO_S)
        await alice.begin()
        await alice.connection.execute("select from penstock.messages where id = $1 for update", poison)

        assert await bob.bodies("work.fifo") == []

        await alice.commit()
        assert await bob.bodies("work.fifo") == []
        assert await bob.bodies("dead.fifo") == ["a"]
