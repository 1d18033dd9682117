"""FIFO groups on which sends, receives, deletes, sweeps and moves meet."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.clock import FakeClock
from penstock.errors import Unsupported
from penstock.model import Outcome, Receive
from tests.store.caller import Caller
from tests.store.conftest import MakeQueue
from tests.store.postgres_only.conftest import Connect
from tests.store.postgres_only.races.steps import hold, settled, start
from tests.store.postgres_only.sessions import Session, Watcher


class TestGroups:
    """Whatever meets, a group never gets stuck and never has two batches in flight."""

    async def test_a_send_during_the_delete_of_the_last_message_in_flight_is_received(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        message = await caller.receive_one(fifo)
        await alice.begin()
        assert await alice.delete(fifo, message) == [Outcome.DONE]
        sending = start(bob.send(fifo, "b", group_id="g"))
        await watcher.blocked(bob)
        assert await caller.bodies(fifo) == []
        await alice.commit()
        await sending

        assert await caller.bodies(fifo) == ["b"]

    async def test_a_delete_of_the_last_message_in_flight_during_a_send_frees_what_was_sent(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        message = await caller.receive_one(fifo)
        await alice.begin()
        await alice.send(fifo, "b", group_id="g")
        deleting = start(bob.delete(fifo, message))
        await watcher.blocked(bob)
        await alice.commit()

        assert await deleting == [Outcome.DONE]
        assert await caller.bodies(fifo) == ["b"]

    @pytest.mark.parametrize("deleted", [0, 1], ids=["head", "follower"])
    async def test_a_delete_by_id_waits_for_an_open_receive_of_its_group(
        self, caller: Caller, alice: Session, bob: Session, watcher: Watcher, fifo: str, deleted: int
    ) -> None:
        sent = await caller.send(fifo, "a", "b", "c", group_id="g")
        await alice.begin()
        assert await alice.bodies(fifo, 1) == ["a"]
        deleting = start(bob.delete(fifo, sent[deleted]))
        await watcher.blocked(bob)
        await alice.rollback()

        assert await deleting == [Outcome.DONE]
        assert await caller.bodies(fifo) == (["b", "c"] if deleted == 0 else ["a", "c"])

    async def test_a_delete_by_id_and_a_receive_do_not_deadlock(
        self, caller: Caller, alice: Session, bob: Session, carol: Session, watcher: Watcher, fifo: str
    ) -> None:
        """The receiver holds the head and wants the follower; the delete holds the follower and wants the head."""
        _, follower = await caller.send(fifo, "a", "b", group_id="g")
        await carol.begin()
        await carol.connection.execute("select from penstock.messages where id = $1 for update", follower)
        deleting = start(bob.delete(fifo, follower))
        await watcher.blocked(bob)
        receiving = start(alice.bodies(fifo, 2))
        await settled(watcher, alice, receiving)
        await carol.commit()

        assert await deleting == [Outcome.DONE]
        assert await receiving in (["a"], [])

    async def test_deletes_that_name_the_same_groups_in_another_order_do_not_deadlock(
        self, caller: Caller, connect: Connect, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        for group in "xymn":
            await caller.send(fifo, f"{group}1", f"{group}2", group_id=group)
        held = {message.body: message for message in await caller.receive(fifo, 10)}
        carol, dave = await hold(connect, fifo, "m"), await hold(connect, fifo, "n")
        there = start(alice.delete(fifo, *(held[body] for body in ("x1", "m1", "y1"))))
        back = start(bob.delete(fifo, *(held[body] for body in ("y2", "n1", "x2"))))
        await watcher.blocked(alice, bob)
        await carol.commit()
        await dave.commit()

        assert [*await there, *await back] == [Outcome.DONE] * 6

    async def test_changes_that_name_the_same_groups_in_another_order_do_not_deadlock(
        self, caller: Caller, connect: Connect, alice: Session, bob: Session, watcher: Watcher, fifo: str
    ) -> None:
        for group in "xymn":
            await caller.send(fifo, f"{group}1", f"{group}2", group_id=group)
        held = {message.body: message for message in await caller.receive(fifo, 10)}
        carol, dave = await hold(connect, fifo, "m"), await hold(connect, fifo, "n")

        def hide(session: Session, *bodies: str) -> asyncio.Task[Any]:
            changes = [(session.handle(fifo, held[body]), 100) for body in bodies]
            return start(session.store.change_visibility_many(changes, session.clock.now()))

        there, back = hide(alice, "x1", "m1", "y1"), hide(bob, "y2", "n1", "x2")
        await watcher.blocked(alice, bob)
        await carol.commit()
        await dave.commit()

        assert [answer[0] for answer in (*await there, *await back)] == [Outcome.DONE] * 6

    async def test_a_sweep_of_an_expired_follower_and_a_receive_do_not_deadlock(
        self,
        caller: Caller,
        alice: Session,
        bob: Session,
        carol: Session,
        watcher: Watcher,
        fifo: str,
        clock: FakeClock,
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        [follower] = await caller.send(fifo, "b", group_id="g", retention_s=60)
        await caller.send(fifo, "c", group_id="g")
        early = clock.now()
        clock.advance(seconds=61)
        await carol.begin()
        await carol.connection.execute("select from penstock.messages where id = $1 for update", follower)
        sweeping = start(bob.store.sweep(clock.now(), 1000))
        await settled(watcher, bob, sweeping)
        receiving = start(alice.store.receive_many([Receive(tenant=alice.tenant, queue=fifo, limit=3)], early))
        await settled(watcher, alice, receiving)
        await carol.commit()
        await sweeping
        await receiving

        await bob.sweep()
        assert (await caller.counts(fifo)).total == 2

    async def test_a_move_out_of_a_group_and_a_receive_do_not_deadlock(
        self, make_queue: MakeQueue, caller: Caller, alice: Session, bob: Session, carol: Session, watcher: Watcher
    ) -> None:
        await make_queue("dead.fifo")
        await make_queue("home.fifo")
        *_, last = await caller.send("dead.fifo", "a", "b", "c", group_id="g")
        await caller.start_move("dead.fifo", "home.fifo")
        await carol.begin()
        await carol.connection.execute("select from penstock.messages where id = $1 for update", last)
        receiving = start(alice.bodies("dead.fifo", 3))
        await settled(watcher, alice, receiving)
        moving = start(bob.store.run_moves(bob.clock.now()))
        await settled(watcher, bob, moving)
        await carol.commit()
        bodies = await receiving
        await moving

        assert bodies in (["a", "b", "c"], ["a", "b"], ["a"], [])
        assert (await caller.counts("dead.fifo")).total + (await caller.counts("home.fifo")).total == 3

    async def test_a_group_is_never_stuck_nor_received_twice_at_once(
        self, caller: Caller, connect: Connect, fifo: str
    ) -> None:
        total, in_flight, delivered = 120, 0, list[int]()
        deleters = [await connect("worker") for _ in range(4)]
        sender = await connect("sender")

        async def send() -> None:
            for number in range(total):
                await sender.send(fifo, str(number), group_id="g")

        async def work(session: Session) -> None:
            nonlocal in_flight
            while len(delivered) < total:
                messages = await session.receive(fifo, 3)
                if not messages:
                    await asyncio.sleep(0)
                    continue
                in_flight += 1
                assert in_flight == 1
                delivered.extend(int(message.body) for message in messages)
                in_flight -= 1
                assert await session.delete(fifo, *messages) == [Outcome.DONE] * len(messages)

        async with asyncio.timeout(20):
            await asyncio.gather(send(), *map(work, deleters))

        assert delivered == list(range(total))

    @pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
    async def test_a_transaction_that_cannot_see_the_group_as_it_is_may_not_send_to_it(
        self, caller: Caller, alice: Session, fifo: str, isolation: str
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        message = await caller.receive_one(fifo)
        await alice.begin(isolation)
        await alice.counts(fifo)
        await caller.delete(fifo, message)

        with pytest.raises(Unsupported):
            await alice.send(fifo, "b", group_id="g")

    @pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
    async def test_a_transaction_that_cannot_see_the_group_as_it_is_may_not_delete_from_it(
        self, caller: Caller, alice: Session, fifo: str, isolation: str
    ) -> None:
        await caller.send(fifo, "a", group_id="g")
        message = await caller.receive_one(fifo)
        await alice.begin(isolation)
        await alice.counts(fifo)
        await caller.send(fifo, "b", group_id="g")

        with pytest.raises(Unsupported):
            await alice.delete(fifo, message)
